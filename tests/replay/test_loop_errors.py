"""What fails is reported where it failed, and nothing leaves the root."""

import errno
import os
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from iotrace.replay.executors.executor import Executor, LoopOptions
from iotrace.replay.job import Fence, Op
from iotrace.replay.loop import Tape, open_beneath

from .job_builder import CREATE, JobBuilder, directory, run

MIB = 1 << 20
HALF = MIB // 2


@pytest.fixture
def file_size_limit() -> Iterator[int]:
    """Limit the size of files to 1 MiB while the test runs."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (MIB, before[1]))
    yield MIB
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("gather", [0, 1])
def test_a_write_cut_short_goes_on_and_meets_its_error(
    executor: Executor, tape: Tape, root: Path, file_size_limit: int, gather: int
) -> None:
    """A short write is no success: the rest must be tried, and its error is the request's."""
    job = JobBuilder()
    handle = job.open("a")
    job.write(handle, 0, HALF)
    pieces = [(0, HALF, 300_000), (0, HALF + 300_000, MIB - 300_000)]
    job.write(handle, HALF, MIB, pieces=pieces, gather=gather)
    job.write(handle, 2 * MIB, 10)
    job.close(handle)
    done = run(executor, job.build(), tape, root)
    assert done.timings["result"].tolist() == [0, HALF, -errno.EFBIG, -errno.EFBIG, 0]
    assert done.report.resubmissions == 1 and done.report.first_error == 2
    assert (root / "a").read_bytes() == tape.read(0, 0, MIB)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Return a file system of 2 MiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(folder)], capture_output=True
    )
    if mounted.returncode:
        pytest.skip("mounting a file system is not allowed here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def full_disk_job() -> JobBuilder:
    """Return three writes of 1.5 MiB, and a close."""
    job = JobBuilder()
    handle = job.open("a")
    for i in range(3):
        job.write(handle, i * 3 * HALF, 3 * HALF, fence=Fence.FILE)
    job.close(handle)
    return job


def test_a_full_disk_is_each_requests_own_error(
    executor: Executor, tape: Tape, small_disk: Path
) -> None:
    """Users replay into whatever is free; the first failed request must be named."""
    done = run(executor, full_disk_job().build(), tape, small_disk)
    full = -errno.ENOSPC
    assert done.timings["result"].tolist() == [0, 3 * HALF, full, full, 0]
    assert done.report.resubmissions == 1 and done.report.first_error == 2


def test_a_run_may_stop_at_the_first_error(
    executor: Executor, tape: Tape, small_disk: Path
) -> None:
    """What was not started says so, and took no time."""
    options = LoopOptions(queue_depth=4, stop_on_error=True)
    done = run(executor, full_disk_job().build(), tape, small_disk, options)
    canceled = -errno.ECANCELED
    assert done.timings["result"].tolist() == [0, 3 * HALF, -errno.ENOSPC, canceled, canceled]
    assert done.timings["start_ns"][3:].tolist() == [0, 0]


def test_errors_of_every_op_are_results(executor: Executor, tape: Tape, root: Path) -> None:
    """A failed request never ends the run."""
    job = JobBuilder()
    missing, name = job.path("none/x"), job.path("x")
    lost = job.open("none/x")
    job.write(lost, 0, 10)
    job.sync(lost)
    job.close(lost)
    job.add(Op.UNLINK, path=name)
    job.add(Op.RENAME, path=name, target=missing)
    job.add(Op.LINK, path=name, target=missing)
    job.add(Op.MKDIR, path=missing)
    job.add(Op.RMDIR, path=name)
    job.add(Op.TRUNCATE, path=name, length=5)
    job.add(Op.EVICT, path=name)
    job.add(Op.SYNC, path=name)
    kept = job.open("kept", os.O_RDONLY | os.O_CREAT)
    job.write(kept, 0, 10)
    job.through(Op.ALLOCATE, kept, length=0)
    done = run(executor, job.build(), tape, root)
    names = [errno.errorcode.get(-result, result) for result in done.timings["result"].tolist()]
    assert names == [
        *["ENOENT", "EBADF", "EBADF", "EBADF"],
        *["ENOENT"] * 8,
        *[0, "EBADF", done.timings["result"][-1] and names[-1]],
    ]
    assert names[-1] in ("EBADF", "EINVAL")
    assert done.report.first_error == 0


def test_names_are_made_moved_and_removed(executor: Executor, tape: Tape, root: Path) -> None:
    """Commit by rename, cleaning up by unlink: what engines do around the data."""
    job = JobBuilder()
    job.add(Op.MKDIR, path=job.path("step"), mode=0o755, fence=Fence.ALL)
    job.add(Op.MKDIR, path=job.path("step/old/"), mode=0o700, fence=Fence.ALL)
    handle = job.open("step/a.tmp")
    job.write(handle, 0, 1000)
    job.through(Op.TRUNCATE, handle, length=700, fence=Fence.FILE)
    job.through(Op.ALLOCATE, handle, length=4096, fence=Fence.FILE)
    job.sync(handle)
    job.close(handle)
    pairs = [(Op.RENAME, "step/a.tmp", "step/a"), (Op.LINK, "step/a", "b")]
    for op, path, target in pairs:
        job.add(op, path=job.path(path), target=job.path(target), fence=Fence.ALL)
    job.add(Op.TRUNCATE, path=job.path("b"), length=2000, fence=Fence.ALL)
    job.add(Op.EVICT, path=job.path("b"), fence=Fence.ALL)
    job.add(Op.SYNC, path=job.path("step/a"), flags=1, fence=Fence.ALL)
    job.add(Op.SYNC, flags=4, fence=Fence.ALL)
    job.add(Op.RMDIR, path=job.path("step/old"), fence=Fence.ALL)
    job.add(Op.UNLINK, path=job.path("step/a"), fence=Fence.ALL)
    done = run(executor, job.build(), tape, root)
    assert done.report.first_error is None
    assert sorted(path.name for path in root.rglob("*")) == ["b", "step"]
    assert (root / "b").read_bytes() == tape.read(0, 0, 700) + bytes(1300)


ESCAPES = ["/etc/passwd", "../out", "in/../../out", "link/x", "in/link/x", "loop", "in/up/out"]


@pytest.fixture
def cage(tmp_path: Path) -> Path:
    """Return a root with symbolic links out of it; `out` beside it must stay untouched."""
    cage = tmp_path / "cage"
    (cage / "in").mkdir(parents=True)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "x").write_text("precious")
    (cage / "link").symlink_to("../out")
    (cage / "in" / "link").symlink_to(tmp_path / "out")
    (cage / "in" / "up").symlink_to("../..")
    (cage / "loop").symlink_to(tmp_path / "out" / "x")
    (cage / "mine").write_text("mine")
    return cage


@pytest.mark.parametrize("path", ESCAPES)
def test_no_path_of_a_job_leaves_the_root(
    executor: Executor, tape: Tape, cage: Path, path: str
) -> None:
    """A trace comes from a stranger and may name any file of ours."""
    job = JobBuilder()
    there, mine, new = job.path(path), job.path("mine"), job.path(path + ".new")
    job.open(path, CREATE)
    job.add(Op.TRUNCATE, path=there, length=0)
    job.add(Op.EVICT, path=there)
    job.add(Op.SYNC, path=there)
    if path != "loop":  # the link itself is the cage's own, and may go
        job.add(Op.UNLINK, path=there)
        job.add(Op.RENAME, path=there, target=job.path("stolen"))
        job.add(Op.RENAME, path=mine, target=there)
        job.add(Op.LINK, path=there, target=job.path("stolen"))
        job.add(Op.LINK, path=mine, target=new)
        job.add(Op.MKDIR, path=new)
        job.add(Op.RMDIR, path=there)
    done = run(executor, job.build(), tape, cage)
    allowed = {-errno.EXDEV, -errno.ELOOP, -errno.ENOTDIR}
    assert set(done.timings["result"].tolist()) <= allowed
    assert [path.name for path in (cage.parent / "out").iterdir()] == ["x"]
    assert (cage.parent / "out" / "x").read_text() == "precious"
    assert sorted(path.name for path in cage.parent.iterdir()) == ["cage", "out"]
    assert not (cage / "stolen").exists() and (cage / "mine").read_text() == "mine"


@pytest.mark.parametrize("path", ["..", "in/..", "in/../in/..", "", "/", "in/" + "n" * 256])
def test_odd_names_are_errors(executor: Executor, tape: Tape, cage: Path, path: str) -> None:
    """Nothing a name may hold crashes or climbs."""
    job = JobBuilder()
    there = job.path(path)
    for op in (Op.UNLINK, Op.RMDIR, Op.MKDIR):
        job.add(op, path=there)
    job.add(Op.RENAME, path=job.path("mine"), target=there)
    done = run(executor, job.build(), tape, cage)
    assert all(result < 0 for result in done.timings["result"])
    assert (cage / "mine").exists()


@pytest.mark.parametrize("path", ["/etc/passwd", "in/../../out/x", "link/x", "loop", "in/up/out/x"])
def test_opening_beneath_a_root_cannot_leave_it(cage: Path, path: str) -> None:
    """Preparation and verification open files by the same rule as the loop."""
    with directory(cage) as root_fd:
        with pytest.raises(OSError) as refused:
            open_beneath(root_fd, path, os.O_RDONLY)
        assert refused.value.errno in (errno.EXDEV, errno.ELOOP, errno.ENOTDIR)
        fd = open_beneath(root_fd, "in/../mine", os.O_RDONLY)
        assert os.read(fd, 10) == b"mine"
        os.close(fd)
