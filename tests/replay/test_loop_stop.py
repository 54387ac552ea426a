"""A replay can be ended while it runs."""

import os
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from iotrace.replay.executors.executor import Executor, LoopOptions
from iotrace.replay.executors.posix import PosixExecutor
from iotrace.replay.executors.uring import UringExecutor
from iotrace.replay.job import PIECE, REQUEST, Fence, Job, Op, fence_counts
from iotrace.replay.loop import Tape

GAP_NS = 10_000_000


def slow_job(requests: int) -> Job:
    """One file, one write of 4 KiB every 10 ms."""
    rows = np.zeros(requests + 1, REQUEST)
    rows["path"] = rows["target"] = -1
    rows["op"] = Op.WRITE
    rows["length"] = 4096
    rows["offset"] = rows["first_piece"] = np.arange(requests + 1) - 1
    rows["offset"] *= 4096
    rows["piece_count"] = 1
    rows["due_ns"] = np.arange(requests + 1) * GAP_NS
    for name, value in (("op", Op.OPEN), ("flags", os.O_CREAT | os.O_WRONLY), ("mode", 0o600)):
        rows[name][0] = value
    for name in ("offset", "length", "first_piece", "piece_count", "path"):
        rows[name][0] = 0
    pieces = np.zeros(requests, PIECE)
    pieces["offset"], pieces["length"] = np.arange(requests) * 4096, 4096
    order = np.arange(requests + 1)
    starts = np.array([0, requests + 1])
    rows["fence"][0] = Fence.FILE
    rows["file_before"], rows["file_fences"], rows["global_fences"] = fence_counts(rows)
    return Job(rows, pieces, order, starts, ("slow",), 1, 1)


def threads() -> int:
    """Return how many threads this process has, the kernel's own workers for io_uring left out."""
    return sum(
        not Path("/proc/self/task", task, "comm").read_text().startswith("iou-")
        for task in os.listdir("/proc/self/task")
    )


def await_threads(count: int, within_seconds: float) -> None:
    """Wait until no more than `count` threads are left."""
    begin = time.monotonic()
    while True:
        with suppress(FileNotFoundError):  # a thread that ended while being looked at
            if threads() <= count:
                return
        assert time.monotonic() - begin < within_seconds
        time.sleep(0.001)


@pytest.mark.parametrize("restarts", [False, True], ids=["", "restarts"])
@pytest.mark.parametrize("executor", [UringExecutor(), PosixExecutor()], ids=lambda e: e.name)
def test_an_interrupt_ends_the_run_at_once(
    executor: Executor, restarts: bool, tmp_path: Path
) -> None:
    """Ctrl-C in a replay of an hour must not take the hour, nor leave the loop running.

    Nor where a library that was imported has the signal restart calls, as polars does.
    """
    signal.siginterrupt(signal.SIGINT, not restarts)
    root_fd = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    before = threads()
    with Tape(1 << 22, span_bytes=1 << 20) as tape:
        begin = time.monotonic()
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            executor.run(slow_job(6000), tape, root_fd, LoopOptions())
        assert time.monotonic() - begin < 30
        timer.join()
        await_threads(before, 30)
    signal.siginterrupt(signal.SIGINT, True)
    os.close(root_fd)
    written = (tmp_path / "slow").stat().st_size // 4096
    assert 0 < written < 6000


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_at_any_moment_of_the_start_ends_the_run(tmp_path: Path) -> None:
    """While its thread is being made, too: the run would otherwise go on without anybody."""
    root_fd = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    job = slow_job(1000)
    before = threads()

    def interrupt(number: int, frame: object) -> None:
        raise InterruptedError

    handler = signal.signal(signal.SIGALRM, interrupt)
    try:
        with Tape(1 << 22, span_bytes=1 << 20) as tape:
            for microseconds in range(100, 3100, 75):
                # Again half a second later: Python drops what is raised in a destructor.
                with pytest.raises(InterruptedError):
                    signal.setitimer(signal.ITIMER_REAL, microseconds / 1e6, 0.5)
                    try:
                        PosixExecutor().run(job, tape, root_fd, LoopOptions())
                    finally:
                        signal.setitimer(signal.ITIMER_REAL, 0)
                await_threads(before, 30)
    finally:
        signal.signal(signal.SIGALRM, handler)
        os.close(root_fd)
