"""What holds for every test: examples are the same in each run, and signals can be tested."""

import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings


def pytest_configure() -> None:
    """Set up the process, before any test is imported."""
    settings.register_profile("same", derandomize=True, deadline=None)
    settings.load_profile("same")
    # A shell that starts this in the background, or nohup, has them ignored in every child too.
    for number, usual in (
        (signal.SIGINT, signal.default_int_handler),
        (signal.SIGQUIT, signal.SIG_DFL),
        (signal.SIGHUP, signal.SIG_DFL),
    ):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, usual)


@pytest.fixture(params=["disk", "memory"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """Return an empty directory on the disk and one on tmpfs."""
    if request.param == "disk":
        yield tmp_path
        return
    folder = Path(tempfile.mkdtemp(dir="/dev/shm"))
    yield folder
    shutil.rmtree(folder)
