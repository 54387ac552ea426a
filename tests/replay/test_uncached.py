"""Reads and writes that the page cache is not to keep (RWF_DONTCACHE)."""

import os
from pathlib import Path

import pytest

from iotrace.replay.executors.executor import LoopOptions
from iotrace.replay.executors.posix import PosixExecutor
from iotrace.replay.executors.uring import UringExecutor
from iotrace.replay.loop import Tape, resident_bytes
from iotrace.replay.sketch import sketch
from iotrace.replay.target import probe_target
from iotrace.replay.transforms.direct import Direct
from iotrace.replay.transforms.mapped import Mapped
from iotrace.traces.errors import PlanError, ReplayError

from .job_builder import CREATE, JobBuilder, run
from .session_run import SAVE_AND_LOAD
from .session_run import run as replay

MIB = 1 << 20


def written(count: int, gathered: bool) -> JobBuilder:
    """Return buffered writes of a MiB each, of one part or two, and a sync."""
    job = JobBuilder()
    handle = job.open("a", CREATE)
    for i in range(count):
        halves = [(0, i * MIB, MIB // 2), (0, i * MIB + MIB // 2, MIB // 2)]
        job.write(handle, i * MIB, MIB, pieces=halves if gathered else None, gather=1)
    job.sync(handle)
    job.close(handle)
    return job


@pytest.mark.parametrize("executor", [UringExecutor(), PosixExecutor()], ids=lambda e: e.name)
@pytest.mark.parametrize("gathered", [False, True], ids=["plain", "vectored"])
def test_what_is_uncached_does_not_stay(
    executor: UringExecutor | PosixExecutor, gathered: bool, tape: Tape, tmp_path: Path
) -> None:
    """Once it is on storage, the page cache has let go of it, and kept what was not asked for."""
    if probe_target(tmp_path).uncached_refusal:
        pytest.skip("this file system knows no RWF_DONTCACHE")
    resident = {}
    for uncached in (False, True):
        job = written(16, gathered)
        done = run(executor, job.build(), tape, tmp_path, LoopOptions(uncached=uncached))
        assert done.report.first_error is None
        fd = os.open(tmp_path / "a", os.O_RDONLY)
        resident[uncached] = resident_bytes(fd)
        os.close(fd)
        (tmp_path / "a").unlink()
    assert resident == {False: 16 * MIB, True: 0}


def test_uncached_replays_are_verified(tmp_path: Path) -> None:
    """By both ways to run them."""
    if probe_target(tmp_path).uncached_refusal:
        pytest.skip("this file system knows no RWF_DONTCACHE")
    for executor in ("io_uring", "posix"):
        outcome = replay(
            sketch(SAVE_AND_LOAD), tmp_path, uncached=True, executor=executor, verify=True
        )
        assert outcome.verified and not outcome.failed and not outcome.degraded


@pytest.mark.parametrize("root", ["memory"], indirect=True)
def test_a_file_system_that_keeps_everything_is_told(root: Path) -> None:
    """As direct I/O that is refused: it runs, says so, and ends with status 1."""
    outcome = replay(sketch(SAVE_AND_LOAD), root, uncached=True)
    assert outcome.failed and "kept in the page cache" in outcome.refused[0]
    assert not outcome.errors
    with pytest.raises(ReplayError, match="--strict"):
        replay(sketch(SAVE_AND_LOAD), root, uncached=True, strict=True)


def test_mapped_reads_are_kept(tmp_path: Path) -> None:
    """Pages that are mapped are pages of the cache."""
    with pytest.raises(PlanError, match="--uncached"):
        replay(Mapped()(sketch(SAVE_AND_LOAD)), tmp_path, uncached=True, executor="posix")


def test_nothing_direct_is_uncached(tmp_path: Path) -> None:
    """Asked for where it means nothing it would be told of every run; edges give it a meaning."""
    plan = sketch("open a w+create\nwrite a 0 8192\nclose a")
    with pytest.raises(PlanError, match="leave out --uncached"):
        replay(Direct()(plan), tmp_path, uncached=True)
    assert not list(tmp_path.iterdir())
    if probe_target(tmp_path).direct_is_effective:
        mixed = Direct()(sketch("open a w+create\nwrite a 5 8192\nwrite a 0 5\nclose a"))
        assert not replay(mixed, tmp_path, uncached=True, verify=True).errors
