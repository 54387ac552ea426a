"""Requests at recorded times: 20,000 writes, one every 100 us, and how late each starts.

    python -m tests.bench.recorded_timing [--requests 20000] [--gap-us 100]

Printed per executor: how much longer the run took than the recording, percentiles of the
lateness, and the drift: the median lateness of the last tenth of the requests over that of the
first. Beside them a loop that does nothing but sleep until each time: what it is late, no replay
on this machine, as busy as it is, can avoid. Exit status 1 when a run took more than 1 % longer.
"""

import argparse
import ctypes
import os
import sys
import tempfile
import time

import numpy as np
import numpy.typing as npt

from iotrace.replay.executors.executor import LoopOptions
from iotrace.replay.executors.posix import PosixExecutor
from iotrace.replay.executors.uring import UringExecutor
from iotrace.replay.job import PIECE, REQUEST, Fence, Job, Op, fence_counts
from iotrace.replay.loop import Tape

Ints = npt.NDArray[np.int64]

WRITE_BYTES = 4096
FILE_WRITES = 1000  # after so many the writes begin anew: the disk is not what is measured

PERCENTILES = (50, 99, 99.9, 100)
OVER_US = 200
PR_SET_TIMERSLACK = 29


def timed_job(requests: int, gap_ns: int) -> Job:
    """Return an open, and writes at multiples of the gap."""
    rows = np.zeros(requests + 1, REQUEST)
    rows["path"] = rows["target"] = -1
    writes = rows[1:]
    writes["op"], writes["length"], writes["piece_count"] = Op.WRITE, WRITE_BYTES, 1
    writes["offset"] = np.arange(requests) % FILE_WRITES * WRITE_BYTES
    writes["first_piece"] = np.arange(requests)
    writes["due_ns"] = (np.arange(requests) + 1) * gap_ns
    rows[0]["op"], rows[0]["flags"], rows[0]["mode"] = Op.OPEN, os.O_CREAT | os.O_WRONLY, 0o600
    rows[0]["path"], rows[0]["fence"] = 0, Fence.FILE
    rows["file_before"], rows["file_fences"], rows["global_fences"] = fence_counts(rows)
    pieces = np.zeros(requests, PIECE)
    pieces["offset"], pieces["length"] = writes["offset"], WRITE_BYTES
    order, starts = np.arange(requests + 1), np.array([0, requests + 1])
    return Job(rows, pieces, order, starts, ("timed",), 1, 1)


def slept(job: Job) -> Ints:
    """Sleep until each time of the job, do nothing, and return when that was, in ns."""
    ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 1)  # as the replay does
    start_ns = time.monotonic_ns()
    woken = []
    for due_ns in job.requests["due_ns"][1:].tolist():
        pause_ns = start_ns + due_ns - time.monotonic_ns()
        if pause_ns > 0:
            time.sleep(pause_ns / 1e9)
        woken.append(time.monotonic_ns() - start_ns)
    return np.array(woken)


def print_lateness(name: str, started_ns: Ints, due_ns: Ints) -> None:
    """Print a line on requests that started at `started_ns` after the run did."""
    late_us = (started_ns - due_ns) / 1e3
    longer = started_ns[-1] / due_ns[-1] - 1
    tenth = max(len(late_us) // 10, 1)
    drift = np.median(late_us[-tenth:]) - np.median(late_us[:tenth])
    columns = "".join(f"{late:>9.1f}us" for late in np.percentile(late_us, PERCENTILES))
    over = np.mean(late_us > OVER_US)
    print(f"{name:10}{longer:>8.2%}{columns}{over:>9.2%}{drift:>7.1f}us")


def main() -> int:
    """Run both executors and print their lateness."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--gap-us", type=float, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    job = timed_job(asked.requests, round(asked.gap_us * 1e3))
    due_ns = job.requests["due_ns"][1:]
    status = 0
    heads = "".join(f"{f'late p{percent:g}':>11}" for percent in PERCENTILES)
    print(f"{'':10}{'longer':>8}{heads}{f'>{OVER_US} us':>9}{'drift':>9}")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder, Tape(1 << 23) as tape:
        root_fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        for _ in range(asked.rounds):
            print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
            print_lateness("a sleep", slept(job), due_ns)
            for executor in (UringExecutor(), PosixExecutor()):
                done = executor.run(job, tape, root_fd, LoopOptions())
                print_lateness(
                    executor.name, done.timings["start_ns"][1:] - done.report.start_ns, due_ns
                )
                took_ns = done.timings["end_ns"][-1] - done.report.start_ns
                if done.report.first_error is not None or took_ns > 1.01 * due_ns[-1]:
                    status = 1
        os.close(root_fd)
    return status


if __name__ == "__main__":
    sys.exit(main())
