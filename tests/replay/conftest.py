"""What the replay tests share: a small tape, both executors, a folder on each file system."""

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from iotrace.replay.executors.executor import Executor
from iotrace.replay.loop import Tape

from .job_builder import EXECUTORS, SubmittedByThread

IMAGE_BYTES = 400 << 20  # the least that XFS is made of, and some


@pytest.fixture(scope="session")
def tape() -> Iterator[Tape]:
    """Return a tape far smaller than the files, so that its period shows."""
    with Tape(3 << 20, seed=7) as tape:
        yield tape


@pytest.fixture(params=(*EXECUTORS, SubmittedByThread()), ids=lambda executor: executor.name)
def executor(request: pytest.FixtureRequest) -> Executor:
    """Return each executor that moves bytes."""
    return request.param


@pytest.fixture(scope="module", params=["ext4", "tmpfs", "xfs", "btrfs"])
def file_system(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """An empty folder on each."""
    name = request.param
    if name == "tmpfs":
        with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
            yield Path(folder)
        return
    folder = tmp_path_factory.mktemp(name)
    image = folder / "image"
    with image.open("wb") as file:
        file.truncate(IMAGE_BYTES)
    mount = folder / "mount"
    mount.mkdir()
    if shutil.which(f"mkfs.{name}") is None:
        pytest.skip(f"there is no mkfs.{name}")
    subprocess.run([f"mkfs.{name}", "-q", str(image)], check=True, capture_output=True)
    mounted = subprocess.run(["mount", "-o", "loop", str(image), str(mount)], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip("mounting a file system needs root")
    yield mount
    subprocess.run(["umount", str(mount)], check=True)
    image.unlink()
