"""Requests at recorded times: 20,000 writes, one every 100 us, and how late each starts.

    python -m tests.bench.recorded_timing [--requests 20000] [--gap-us 100]

Printed per executor: how much longer the run took than the recording, the median and the 99th
percentile of the lateness, and the drift: the median lateness of the last tenth of the requests
over that of the first. Exit status 1 when the run took more than 1 % longer; how late single
requests start is the scheduler's doing on a busy machine.
"""

import argparse
import os
import sys
import tempfile

import numpy as np

from iotrace.replay.executors.executor import LoopOptions
from iotrace.replay.executors.posix import PosixExecutor
from iotrace.replay.executors.uring import UringExecutor
from iotrace.replay.job import PIECE, REQUEST, Fence, Job, Op, fence_counts
from iotrace.replay.loop import Tape

WRITE_BYTES = 4096
FILE_WRITES = 1000  # after so many the writes begin anew: the disk is not what is measured


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


def main() -> int:
    """Run both executors and print their lateness."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--gap-us", type=float, default=100)
    asked = parser.parse_args()
    gap_ns = round(asked.gap_us * 1e3)
    job = timed_job(asked.requests, gap_ns)
    due_ns = job.requests["due_ns"][1:]
    status = 0
    print(
        f"{'executor':10}{'longer':>9}{'late p50':>11}{'late p99':>11}{'late max':>11}{'drift':>9}"
    )
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder, Tape(1 << 23) as tape:
        root_fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        for executor in (UringExecutor(), PosixExecutor()):
            done = executor.run(job, tape, root_fd, LoopOptions())
            late_us = (done.timings["start_ns"][1:] - done.report.start_ns - due_ns) / 1e3
            took = done.timings["end_ns"][-1] - done.report.start_ns
            longer = took / due_ns[-1] - 1
            tenth = max(len(late_us) // 10, 1)
            drift = np.median(late_us[-tenth:]) - np.median(late_us[:tenth])
            p50, p99 = np.percentile(late_us, [50, 99])
            print(
                f"{executor.name:10}{longer:>8.2%}{p50:>9.1f}us{p99:>9.1f}us"
                f"{late_us.max():>9.0f}us{drift:>7.1f}us"
            )
            if done.report.first_error is not None or longer > 0.01:
                status = 1
        os.close(root_fd)
    return status


if __name__ == "__main__":
    sys.exit(main())
