"""A replay that the system fails: one clear report, status 1, nothing left and nothing outside."""

import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from iotrace.replay.options import ReplayOptions
from iotrace.replay.plan import Plan
from iotrace.replay.result import Outcome, RecordedSummary
from iotrace.replay.session import replay
from iotrace.replay.sketch import sketch, sketch_trace
from iotrace.replay.transforms.direct import Direct
from iotrace.traces.errors import IotraceError
from iotrace.traces.writer import write_trace
from tests.tools.command import IOTRACE, iotrace

from .slow_mount import slow_mount

MIB = 1 << 20
SAVE = "open d/a w+create\n" + "".join(f"write d/a {i * MIB} {MIB}\n" for i in range(4))
SAVE += "sync d/a\nclose d/a\nopen d/a r\nread d/a 0 100\nclose d/a"
NOTHING = RecordedSummary(0, 0, 0, 0, 0, 0.0, 0.0)


def run_with(
    plan: Plan, root: Path, accident: Callable[[], None], **options: object
) -> Outcome | str:
    """Replay a plan, with an accident before the run; return the outcome, or the one error."""

    def at_the_run(stage: str, done: int, total: int) -> None:
        if stage == "run" and done == 0:
            accident()

    try:
        return replay(plan, NOTHING, ReplayOptions(root=root, **options), at_the_run)  # type: ignore[arg-type]
    except IotraceError as error:
        return str(error)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Return the trace of a save and a load."""
    path = tmp_path / "trace.parquet"
    write_trace(sketch_trace(SAVE), path)
    return path


@pytest.mark.parametrize("executor", ["io_uring", "posix"])
@pytest.mark.parametrize("direct", [False, True])
def test_storage_that_fails_is_an_error_of_the_request(
    tmp_path: Path, executor: str, direct: bool
) -> None:
    """A dying disk must not look like a fast one."""
    plan = sketch(SAVE)
    with slow_mount(tmp_path, 0) as mount:
        done = run_with(
            Direct()(plan) if direct else plan,
            tmp_path,
            lambda: setattr(mount, "failing", "write"),
            executor=executor,
        )
        assert isinstance(done, Outcome) and done.failed
        assert done.errors[0].startswith("write of 1,048,576 bytes at 0, d/a: Input/output error")
        assert list(tmp_path.iterdir()) == []


def test_a_root_that_is_removed_meanwhile(tmp_path: Path) -> None:
    """A clean-up job of the cluster takes the scratch folder away."""
    root = tmp_path / "scratch"
    root.mkdir()
    done = run_with(sketch(SAVE), root, lambda: shutil.rmtree(root))
    said = done if isinstance(done, str) else done.errors[0]
    assert "No such file or directory" in said
    assert list(tmp_path.iterdir()) == []


def test_the_limit_on_the_size_of_files(trace: Path, tmp_path: Path) -> None:
    """Batch systems set `ulimit -f`; the request that met it is named."""
    root = tmp_path / "root"
    root.mkdir()
    limits = {resource.RLIMIT_FSIZE: 2 * MIB + 100}
    done = iotrace("replay", trace, "--root", root, limits=limits)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "File too large" in done.stdout and "at 2,097,152, d/a" in " ".join(done.stdout.split())
    assert list(root.iterdir()) == []


def test_ctrl_c_during_a_run_of_the_command(tmp_path: Path) -> None:
    """One line, and no files: whoever ends a replay does not want to clean up after it."""
    root, slow = tmp_path / "root", tmp_path / "slow.parquet"
    root.mkdir()
    write_trace(sketch_trace(SAVE), slow)
    process = subprocess.Popen(
        [str(IOTRACE), "replay", str(slow), "--root", str(root), "--rtt", "1s", "--repeat", "9"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    while not list(root.glob("*/d/a")):
        assert process.poll() is None
        time.sleep(0.01)
    begin = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert time.monotonic() - begin < 20  # a round trip, and this machine's load
    assert process.returncode not in (0, None) and "Traceback" not in errors
    assert list(root.iterdir()) == []
