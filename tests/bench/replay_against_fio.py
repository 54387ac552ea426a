"""The executor against fio: the same list of requests, in alternating pairs.

    python -m tests.bench.replay_against_fio [DIRECTORY] [--pairs 3] [--json FILE]

Both write or read the same file, from first byte to last, at one queue depth, past the page cache
or through it; reads find it full of data, and not in the page cache. Reported are the median over
the pairs of the ratio of bandwidths (ours over fio's; above 1 we are faster) and the CPU seconds
each side spends per GiB. What we wrote and read is compared with the payload, off the clock; a run
with a wrong byte ends the comparison. `--other "fio, registered"` gives fio our registered buffers
and files.

By default fio tells the kernel that it reads in order, which doubles how far a file is read ahead,
and empties the page cache first. A replay gives no advice that was not recorded, nor does fio
here; `--other "fio, as it comes"` lets it. What the advice does to the device: 256 MiB in requests
of 64 KiB with read_ahead_kb at 128 were 1,025 device reads with it and 2,048 without, in the stat
file of a loop device; ours, submitted in batches that the kernel merges, were about 400. It is no
reason to be slower: in 30 rounds of 128 MiB on ext4 we had 1.20 times the bandwidth of fio without
advice and 1.08 times that of fio as it comes (medians of the ratios, on a busy machine whose
quartiles were a factor of two apart: fewer rounds there tell nothing).
"""

import argparse
import itertools
import json
import os
import resource
import statistics
import subprocess
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from iotrace.replay.executors.executor import LoopOptions
from iotrace.replay.executors.uring import UringExecutor
from iotrace.replay.job import PIECE, REQUEST, Fence, Job, Op, fence_counts
from iotrace.replay.loop import Tape, check_file, fill_file

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
SIZES = {
    4 * KIB: 64 * MIB,
    64 * KIB: 256 * MIB,
    MIB: 512 * MIB,
    8 * MIB: 512 * MIB,
}  # request: file
FIO_WAYS = {
    "fio": [],
    "fio, registered": ["--fixedbufs=1", "--registerfiles=1"],
    "fio, hinting": ["--fadvise_hint=1"],  # POSIX_FADV_SEQUENTIAL, its default
    "fio, invalidating": ["--invalidate=1"],  # its default
    "fio, as it comes": ["--invalidate=1", "--fadvise_hint=1"],
}
SETTLE_S = 0.1  # between runs, so that the device's clean-up does not fall into the next


@dataclass(frozen=True)
class Measure:
    """One run: bandwidth, and CPU time per GiB."""

    bytes_per_s: float
    cpu_s_per_gib: float


@dataclass(frozen=True)
class Work:
    """One kind of requests."""

    request_bytes: int
    op: str
    direct: bool


@dataclass(frozen=True)
class Comparison:
    """All pairs of one kind of requests and one way of fio."""

    work: Work
    file_state: str
    other: str
    ours: tuple[Measure, ...]
    theirs: tuple[Measure, ...]

    @property
    def ratio(self) -> float:
        """Median over the pairs of our bandwidth over theirs."""
        pairs = zip(self.ours, self.theirs, strict=True)
        return statistics.median(a.bytes_per_s / b.bytes_per_s for a, b in pairs)


def job_of(work: Work) -> Job:
    """Return open, sequential requests and close, as the loop runs them."""
    request_bytes, file_bytes = work.request_bytes, SIZES[work.request_bytes]
    count = file_bytes // request_bytes
    requests = np.zeros(count + 2, REQUEST)
    for name in ("path", "target", "source_row", "step"):
        requests[name] = -1
    requests["op"][[0, -1]] = Op.OPEN, Op.CLOSE
    requests["fence"][[0, -1]] = Fence.FILE
    requests["path"][0] = 0
    requests["flags"][0] = os.O_RDWR | os.O_CREAT | (os.O_DIRECT if work.direct else 0)
    requests["mode"][0] = 0o644
    writes = requests[1:-1]
    writes["op"] = Op.READ if work.op == "read" else Op.WRITE
    writes["offset"] = np.arange(count) * request_bytes
    writes["length"] = request_bytes
    writes["first_piece"] = np.arange(count)
    writes["piece_count"] = 1
    counts = fence_counts(requests)
    requests["file_before"], requests["file_fences"], requests["global_fences"] = counts
    pieces = np.zeros(count, PIECE)
    pieces["offset"], pieces["length"] = writes["offset"], writes["length"]
    order = np.arange(len(requests), dtype=np.int64)
    ends = np.array([0, len(requests)], np.int64)
    return Job(requests, pieces, order, ends, ("data",), handle_count=1, file_count=1)


def run_ours(folder: Path, job: Job, tape: Tape, depth: int) -> Measure:
    """Run the job through io_uring."""
    root_fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        done = UringExecutor().run(job, tape, root_fd, LoopOptions(queue_depth=depth))
    finally:
        os.close(root_fd)
    if done.report.first_error is not None:
        raise SystemExit(f"our run failed: {done.timings['result'].min()}")
    seconds = (done.timings["end_ns"].max() - done.timings["start_ns"].min()) / 1e9
    moved = int(done.timings["result"].sum())
    cpu_s = (done.report.cpu_user_ns + done.report.cpu_system_ns) / 1e9
    return Measure(moved / seconds, cpu_s / (moved / GIB))


def check_ours(folder: Path, work: Work, job: Job, tape: Tape) -> None:
    """Compare what was written with the payload, or read it all once more and compare that."""
    root_fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if work.op == "read":
            options = LoopOptions(queue_depth=8, check_reads=True)
            wrong = UringExecutor().run(job, tape, root_fd, options).report.mismatched_bytes
        else:
            fd = os.open("data", os.O_RDONLY, dir_fd=root_fd)
            wrong = check_file(tape, fd, 0, SIZES[work.request_bytes], 0, 0)
            os.close(fd)
    finally:
        os.close(root_fd)
    if wrong:
        raise SystemExit(f"{wrong} bytes are wrong after {work}")


def run_fio(
    folder: Path, work: Work, depth: int, ways: Sequence[str], idle_cpu_s: float
) -> Measure:
    """Run the same list through fio's io_uring engine."""
    size = SIZES[work.request_bytes]
    command = [
        "fio",
        "--name=pair",
        f"--filename={folder / 'data'}",
        "--ioengine=io_uring",
        f"--rw={work.op}",
        f"--bs={work.request_bytes}",
        f"--size={size}",
        f"--iodepth={depth}",
        f"--direct={int(work.direct)}",
        "--invalidate=0",
        "--fadvise_hint=0",  # we give the kernel no hint either
        "--fallocate=none",
        "--overwrite=0",
        "--output-format=json",
        *ways,
    ]
    before = children_cpu_s()
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    cpu_s = children_cpu_s() - before - idle_cpu_s
    result = json.loads(done.stdout[done.stdout.index("{") :])["jobs"][0]
    return Measure(size / (result[work.op]["runtime"] / 1e3), cpu_s / (size / GIB))


def children_cpu_s() -> float:
    """Return the CPU time of all child processes so far, the kernel's workers included."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def fio_idle_cpu_s() -> float:
    """Return what fio costs before and after its writes."""
    before = children_cpu_s()
    for _ in range(5):
        command = ["fio", "--name=idle", "--ioengine=null", "--size=4k", "--output-format=json"]
        subprocess.run(command, capture_output=True, check=True)
    return (children_cpu_s() - before) / 5


def prepare(path: Path, size: int, state: str, tape: Tape) -> None:
    """Bring the file into the state both sides start from."""
    if state == "written" and path.exists() and path.stat().st_size == size:
        fd = os.open(path, os.O_RDONLY)
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)
        return
    path.unlink(missing_ok=True)
    if state == "new":
        return
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        os.posix_fallocate(fd, 0, size)
        if state == "written":
            fill_file(tape, fd, 0, size, 0, 0)
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(fd)


def compare(
    folder: Path, tape: Tape, work: Work, state: str, other: str, pairs: int, depth: int
) -> Comparison:
    """Run the pairs, each in the other order than the one before; the first is a warm-up."""
    size, idle_cpu_s = SIZES[work.request_bytes], fio_idle_cpu_s()
    job = job_of(work)
    ours: list[Measure] = []
    theirs: list[Measure] = []
    for pair in range(pairs + 1):
        for turn in (pair, pair + 1):
            prepare(folder / "data", size, state, tape)
            time.sleep(SETTLE_S)
            if turn % 2:
                ours.append(run_ours(folder, job, tape, depth))
                if not pair or (work.op == "write" and pair == pairs):
                    check_ours(folder, work, job, tape)
            else:
                theirs.append(run_fio(folder, work, depth, FIO_WAYS[other], idle_cpu_s))
                if work.op == "write":  # its bytes are others: a read needs ours
                    (folder / "data").unlink()
    (folder / "data").unlink(missing_ok=True)
    return Comparison(work, state, other, tuple(ours[1:]), tuple(theirs[1:]))


def as_json(comparison: Comparison) -> dict[str, object]:
    """Return a comparison with its ratio, ready for JSON."""
    return asdict(comparison) | {"ratio": comparison.ratio}


def table_row(comparison: Comparison) -> str:
    """Return one line of the table."""
    ours, theirs = comparison.ours, comparison.theirs

    def median(measures: Sequence[Measure], name: str) -> float:
        return float(statistics.median(getattr(measure, name) for measure in measures))

    ratios = [a.bytes_per_s / b.bytes_per_s for a, b in zip(ours, theirs, strict=True)]
    return (
        f"{comparison.work.request_bytes // KIB:>5} KiB {comparison.work.op:<5} "
        f"{'direct' if comparison.work.direct else 'buffered':<8}  {comparison.ratio:5.2f}"
        f"  [{min(ratios):.2f}, {max(ratios):.2f}]"
        f" {median(ours, 'bytes_per_s') / GIB:7.2f} {median(theirs, 'bytes_per_s') / GIB:7.2f}"
        f" {median(ours, 'cpu_s_per_gib'):7.3f} {median(theirs, 'cpu_s_per_gib'):7.3f}"
    )


def main() -> None:
    """Run the comparisons asked for and print them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "directory",
        type=Path,
        nargs="?",
        default=Path(),
        help="folder on the device to measure (default: this one)",
    )
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--depth", type=int, default=32, help="queue depth")
    parser.add_argument(
        "--size", type=int, action="append", choices=SIZES, help="bytes per request"
    )
    parser.add_argument(
        "--file",
        action="append",
        choices=("written", "allocated", "new"),
        help="the file before each run: full of data, allocated only, or absent",
    )
    parser.add_argument("--op", action="append", choices=("write", "read"))
    parser.add_argument("--mode", action="append", choices=("direct", "buffered"))
    parser.add_argument("--other", choices=FIO_WAYS, default="fio")
    parser.add_argument("--json", type=Path, help="also write the measures here")
    asked = parser.parse_args()
    folder = asked.directory / f"replay-against-fio-{os.getpid()}"
    folder.mkdir()
    results = []
    print("                          ratio  [min, max]       GiB/s            CPU s/GiB")
    print("request                    ours/fio              ours     fio    ours     fio")
    try:
        with Tape() as tape:
            kinds = itertools.product(
                asked.file or ["written"],
                asked.op or ["write", "read"],
                asked.mode or ["direct", "buffered"],
                asked.size or SIZES,
            )
            for state, op, mode, request_bytes in kinds:
                work = Work(request_bytes, op, mode == "direct")
                result = compare(folder, tape, work, state, asked.other, asked.pairs, asked.depth)
                results.append(result)
                print(table_row(result), flush=True)
    finally:
        (folder / "data").unlink(missing_ok=True)
        folder.rmdir()
    if asked.json:
        asked.json.write_text(json.dumps([as_json(result) for result in results], indent=1))


if __name__ == "__main__":
    main()
