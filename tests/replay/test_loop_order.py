"""What waits for what, seen from the timings and from the kernel's side."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from iotrace.replay.executors.executor import Executor, LoopOptions
from iotrace.replay.executors.uring import UringExecutor
from iotrace.replay.job import Fence, Job, Op
from iotrace.replay.loop import Tape
from iotrace.traces.sync_kind import SyncKind

from .job_builder import CREATE, EXECUTORS, JobBuilder, run
from .kernel_view import kernel_events

MIB = 1 << 20
PROJECT = Path(__file__).parents[2]


def two_saves(direct: bool) -> JobBuilder:
    """Return a job of two files written side by side, each synced before its close."""
    job = JobBuilder()
    flags = CREATE | (os.O_DIRECT if direct else 0)
    handles = [job.open(name, flags, stream=i) for i, name in enumerate("ab")]
    for i in range(24):
        for stream, handle in enumerate(handles):
            job.write(handle, i * 128 * 1024, 128 * 1024, stream=stream)
    for stream, handle in enumerate(handles):
        job.sync(handle, stream=stream)
        job.write(handle, 24 * 128 * 1024, 4096, stream=stream)
        job.sync(handle, SyncKind.FDATASYNC, stream=stream)
        job.close(handle, stream=stream)
    return job


@pytest.mark.parametrize("direct", [False, True])
def test_a_file_fence_holds_until_all_before_it_is_complete(
    executor: Executor, tape: Tape, root: Path, direct: bool
) -> None:
    """A sync that overtakes a write makes a checkpoint look durable when it is not."""
    built = two_saves(direct).build()
    done = run(executor, built, tape, root, LoopOptions(queue_depth=8))
    assert done.report.first_error is None
    assert_fences_hold(built, done.timings)


def assert_fences_hold(job: Job, times: np.ndarray) -> None:
    """Before a fence on a file all is complete, and nothing after it has started."""
    rows = job.requests
    for file in range(job.file_count):
        own = np.flatnonzero(rows["file"] == file)
        for fence in own[rows["fence"][own] == Fence.FILE]:
            before, after = own[own < fence], own[own > fence]
            assert np.all(times["end_ns"][before] <= times["start_ns"][fence])
            assert np.all(times["start_ns"][after] >= times["end_ns"][fence])


def test_a_global_fence_holds_everything(executor: Executor, tape: Tape, root: Path) -> None:
    """A barrier between ranks' files, and an end of a step, are of this kind."""
    job = JobBuilder()
    handles = [job.open(name, stream=i) for i, name in enumerate("abc")]
    for stream, handle in enumerate(handles):
        for i in range(10):
            job.write(handle, i * 50_000, 50_000, stream=stream)
    job.add(Op.MKDIR, path=job.path("d"), mode=0o755, stream=1, fence=Fence.ALL)
    for stream, handle in enumerate(handles):
        job.write(handle, 500_000, 50_000, stream=stream)
    built = job.build()
    done = run(executor, built, tape, root, LoopOptions(queue_depth=4))
    barrier = int(np.flatnonzero(built.requests["op"] == Op.MKDIR)[0])
    times = done.timings
    assert times["end_ns"][:barrier].max() <= times["start_ns"][barrier]
    assert times["start_ns"][barrier + 1 :].min() >= times["end_ns"][barrier]
    assert (root / "d").is_dir()


def test_requests_of_a_stream_start_in_order(executor: Executor, tape: Tape, root: Path) -> None:
    """Program order is the first dependency a replay keeps."""
    built = two_saves(direct=False).build()
    done = run(executor, built, tape, root, LoopOptions(queue_depth=6))
    for stream in (0, 1):
        own = built.requests["stream"] == stream
        assert np.all(np.diff(done.timings["start_ns"][own]) >= 0)


def most_in_flight(starts: np.ndarray, ends: np.ndarray) -> int:
    """Return how many intervals overlap at most; one that ends as another starts does not."""
    times = np.r_[starts, ends]
    steps = np.r_[np.ones(len(starts), int), -np.ones(len(ends), int)]
    return int(np.cumsum(steps[np.lexsort((steps, times))]).max(initial=0))


@pytest.mark.parametrize("depth", [1, 3, 16])
def test_no_stream_has_more_in_flight_than_the_queue_depth(
    executor: Executor, tape: Tape, tmp_path: Path, depth: int
) -> None:
    """The queue depth is what users sweep; it must be what they asked for, and be used."""
    job = JobBuilder()
    handle = job.open("a", CREATE | os.O_DIRECT)
    job.through(Op.ALLOCATE, handle, length=64 * MIB, fence=Fence.FILE)
    for i in range(64):
        job.write(handle, i * MIB, MIB)
    job.close(handle)
    built = job.build()
    done = run(executor, built, tape, tmp_path, LoopOptions(queue_depth=depth))
    writes = done.timings[built.requests["op"] == Op.WRITE]
    assert most_in_flight(writes["start_ns"], writes["end_ns"]) == depth


def test_a_close_waits_for_what_goes_through_its_handle(
    executor: Executor, tape: Tape, root: Path
) -> None:
    """Without a fence the descriptor could be another file's by the time it is used."""
    job = JobBuilder()
    handle = job.open("a", CREATE | os.O_DIRECT)
    for i in range(16):
        job.write(handle, i * MIB, MIB)
    job.through(Op.CLOSE, handle)
    job.write(handle, 0, MIB)
    done = run(executor, job.build(), tape, root, LoopOptions(queue_depth=32))
    assert done.timings["result"].tolist() == [0, *[MIB] * 16, 0, -9]
    assert done.timings["end_ns"][:17].max() <= done.timings["start_ns"][17]


def test_due_times_are_an_absolute_schedule(executor: Executor, tape: Tape, root: Path) -> None:
    """Gaps that chain drift; each request knows when it is due."""
    job = JobBuilder()
    handle = job.open("a")
    dues = [2_000_000 * (i + 1) for i in range(50)]
    for i, due_ns in enumerate(dues):
        job.write(handle, i * 100, 100, due_ns=due_ns)
    done = run(executor, job.build(), tape, root, LoopOptions(queue_depth=4))
    late = done.timings["start_ns"][1:] - done.report.start_ns - np.array(dues)
    assert 0 <= late.min() < 2_000_000
    assert (
        np.diff(done.timings["start_ns"][1:]).min() < 2_000_000
    )  # who was late does not pass it on


def test_think_time_follows_the_completion_before(
    executor: Executor, tape: Tape, root: Path
) -> None:
    """Computing between two writes does not get faster because the storage did."""
    job = JobBuilder()
    handle = job.open("a", think_ns=3_000_000)
    for i in range(20):
        job.write(handle, i * 100, 100, think_ns=1_000_000)
    done = run(executor, job.build(), tape, root, LoopOptions(queue_depth=4))
    starts, ends = done.timings["start_ns"], done.timings["end_ns"]
    assert starts[0] >= done.report.start_ns + 3_000_000
    pauses = starts[1:] - ends[:-1]
    assert 1_000_000 <= pauses.min() < 2_000_000


@pytest.mark.parametrize("executor", EXECUTORS, ids=lambda executor: executor.name)
def test_waiting_takes_no_processor(executor: Executor, tape: Tape, root: Path) -> None:
    """A replay that spins disturbs what it measures; a submission thread does, and is asked for."""
    job = JobBuilder()
    handle = job.open("a")
    for i in range(8):
        job.write(handle, i * 100, 100, due_ns=(i + 1) * 50_000_000, stream=i % 2)
    report = run(executor, job.build(), tape, root, LoopOptions(queue_depth=2)).report
    assert report.end_ns - report.start_ns >= 400_000_000
    assert report.cpu_user_ns + report.cpu_system_ns < 100_000_000


def test_a_run_starts_at_the_time_it_is_given(executor: Executor, tape: Tape, root: Path) -> None:
    """Workers set up at their own pace and start together."""
    job = JobBuilder()
    job.open("a")
    start_ns = time.monotonic_ns() + 200_000_000
    done = run(executor, job.build(), tape, root, LoopOptions(start_ns=start_ns))
    assert 0 <= done.report.start_ns - start_ns < 2_000_000_000
    assert done.timings["start_ns"][0] >= start_ns


@pytest.mark.parametrize("direct", [False, True])
def test_the_kernel_sees_each_sync_after_the_completion_of_its_writes(
    tape: Tape, tmp_path: Path, direct: bool
) -> None:
    """The kernel may run a sync before writes submitted earlier: it must be held back."""
    built = two_saves(direct).build()
    with kernel_events("io_uring/io_uring_submit_req", "io_uring/io_uring_complete") as events:
        run(UringExecutor(), built, tape, tmp_path, LoopOptions(queue_depth=8))
    submitted = [text for name, text in events.seen if name == "io_uring_submit_req"]
    opcodes = [re.search(r"opcode (\w+)", text)[1] for text in submitted]
    assert sum("WRITE" in opcode for opcode in opcodes) == 50
    assert opcodes.count("FSYNC") == 4
    # Requests are told apart by file only in the job; what holds for all of both files is
    # that at the first sync of a file its 24 writes, and at the second its 25, are complete.
    writes_of: dict[str, int] = {}
    complete, syncs = 0, []
    for name, text in events.seen:
        request = re.search(r"req (\w+)", text)[1]
        if name == "io_uring_submit_req":
            writes_of[request] = int("WRITE" in text)
            if "FSYNC" in text:
                syncs.append(complete)
        else:
            complete += writes_of.pop(request, 0)
    assert all(done >= at_least for done, at_least in zip(syncs, (24, 24, 25, 25), strict=True))
    assert syncs[-1] >= 49


@pytest.mark.parametrize("depth", [1, 8])
def test_the_kernel_sees_the_jobs_own_direct_requests(
    tape: Tape, tmp_path: Path, depth: int
) -> None:
    """Same offsets, same lengths, same order: a replay is exact or it proves nothing."""
    (tmp_path / "a").write_bytes(bytes(32 * MIB))
    os.sync()
    job = JobBuilder()
    handle = job.open("a", os.O_RDWR | os.O_DIRECT)
    extents = [(i * 37 % 200 * 128 * 1024, (i % 5 + 1) * 4096) for i in range(200)]
    for i, (offset, length) in enumerate(extents):
        (job.read if i % 3 else job.write)(handle, offset, length)
    job.close(handle)
    with kernel_events("iomap/iomap_dio_rw_begin") as events:
        options = LoopOptions(queue_depth=depth)
        done = run(UringExecutor(), job.build(), tape, tmp_path, options)
    assert done.report.first_error is None
    inode = f"ino 0x{(tmp_path / 'a').stat().st_ino:x} "
    # The kernel tries some requests twice: without waiting, then in a worker.
    seen = dict.fromkeys(
        tuple(int(number, 16) for number in re.findall(r"(?:offset|length) 0x(\w+)", text))
        for _, text in events.seen
        if inode in text
    )
    if not seen:
        pytest.skip("this file system's direct I/O does not go through iomap")
    assert sorted(seen) == sorted(extents)
    if depth == 1:
        assert list(seen) == extents


STRACED = """
from pathlib import Path
from iotrace.replay.executors.executor import LoopOptions
from iotrace.replay.executors.posix import PosixExecutor
from iotrace.replay.loop import Tape
from tests.replay.job_builder import run
from tests.replay.test_loop_order import exact_job
options = LoopOptions(queue_depth={depth})
run(PosixExecutor(), exact_job().build(), Tape(3 << 20), Path("{root}"), options)
"""


def exact_job() -> JobBuilder:
    """Return writes of all sizes, read back, with syncs between."""
    job = JobBuilder()
    handle = job.open("a")
    for i in range(60):
        job.write(handle, i * 5000, i * 83 + 1)
        if i % 20 == 19:
            job.sync(handle)
    for i in range(60):
        job.read(handle, i * 5000, i * 83 + 1)
    job.close(handle)
    return job


def straced_calls(log: Path, name: str) -> Iterator[tuple[str, int, int, int]]:
    """Yield call, offset, length and the number of other calls under way when it began."""
    begun: dict[str, tuple[str, int]] = {}
    for line in log.read_text().splitlines():
        thread, text = line.split(maxsplit=1)
        if "<unfinished" in text:
            begun[thread] = (text.split("<unfinished")[0], len(begun))
            continue
        others = len(begun)
        if text.startswith("<..."):
            start, others = begun.pop(thread)
            text = start + text.split("resumed>")[1]
        if match := re.match(rf"(\w+)\(\d+<{re.escape(name)}>(?:.*, (\d+), (\d+))? *\) +=", text):
            yield match[1], int(match[3] or 0), int(match[2] or 0), others


@pytest.mark.parametrize("depth", [1, 6])
def test_the_kernel_sees_the_jobs_own_calls(tmp_path: Path, depth: int) -> None:
    """Same calls, same arguments; a sync only when every write before it has returned."""
    (tmp_path / "root").mkdir()
    log = tmp_path / "log"
    script = STRACED.format(root=tmp_path / "root", depth=depth)
    tracer = [
        "strace",
        "-f",
        "--seccomp-bpf",
        "-y",
        "-s",
        "0",
        "-e",
        "trace=pread64,pwrite64,fsync",
    ]
    job = [sys.executable, "-c", script]
    subprocess.run([*tracer, "-o", str(log), *job], check=True, cwd=PROJECT)
    seen = list(straced_calls(log, str(tmp_path / "root" / "a")))
    names = {Op.WRITE: "pwrite64", Op.READ: "pread64", Op.SYNC: "fsync"}
    expected = [
        (names[Op(row["op"])], int(row["offset"]), int(row["length"]))
        for row in exact_job().build().requests
        if row["op"] in names
    ]
    calls = [call[:3] for call in seen]
    assert sorted(calls) == sorted(expected)
    if depth == 1:
        assert calls == expected
    assert [others for call, _, _, others in seen if call == "fsync"] == [0, 0, 0]


def test_what_is_queued_does_not_wait_for_a_call_of_another_stream(
    tape: Tape, tmp_path: Path
) -> None:
    """A thread that opens files slowly keeps no other thread's write from the storage."""
    job = JobBuilder()
    written = job.open("a")
    job.open("b", stream=1)
    job.write(written, 0, 4096)
    job.add(Op.UNLINK, file=1, path=job.path("b"), stream=1, fence=Fence.FILE)
    parent = f"parent {tmp_path.stat().st_ino}"
    with kernel_events("io_uring/io_uring_submit_req", "ext4/ext4_unlink_enter") as events:
        done = run(UringExecutor(), job.build(), tape, tmp_path, LoopOptions())
    assert done.report.first_error is None
    names = [name for name, text in events.seen if "WRITE" in text or parent in text]
    if "ext4_unlink_enter" not in names:
        pytest.skip("not on ext4")
    assert names == ["io_uring_submit_req", "ext4_unlink_enter"]
