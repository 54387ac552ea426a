"""What capture adds to a torch.save: a bare and a captured process take turns.

    python -m tests.bench.save_cost [PAIRS [GIB]]
    python -m tests.bench.save_cost small

On a memory file system (/dev/shm) and on the disk of build/. Both processes save the same tensors
under the same name, one after the other, and wait meanwhile: what lies between the two saves of a
pair is a moment, and which of them comes first alternates. The file is removed before each, off the
clock, so that nothing is ever written back: the time is that of the call alone, by the job's own
clock. After a few pairs both processes begin anew, as each has its own luck with its memory; the
first save of a process is not counted. Reported are the medians of the pairs' ratios and their
intervals; at 2 GiB and 20 pairs that of the time is to be 1.01 at most, on a machine without other
work. The time on the processors is told beside it: what other work there is disturbs it less.

`small` tells what is added to a save of 2 KiB, whose own time is short: 60 pairs in memory, with a
pause before each save as between a job's steps, the medians in milliseconds.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

from iotrace.replay.statistics import estimate

ROOT = Path(__file__).parents[2]
PAIRS_OF_A_PROCESS = 5
SMALL_PAIRS, SMALL_GIB, PAUSE_S = 60, 2**-19, 0.05
# Two tensors of half the size each; the pages of memory are there before the clock starts.
JOB = """
import os, sys, time, torch
path, half_bytes = sys.argv[1], int(sys.argv[2])
state = {name: torch.ones(half_bytes // 4) for name in ("weights", "moments")}
for turn in sys.stdin:
    if os.path.exists(path):
        os.unlink(path)
    start, start_cpu = time.perf_counter(), time.process_time()
    torch.save(state, path)
    print(time.perf_counter() - start, time.process_time() - start_cpu, flush=True)
"""
Saver = subprocess.Popen[str]
Seconds = tuple[float, float]  # elapsed, on the processors


@contextmanager
def saver(folder: Path, gib: float, captured: bool) -> Iterator[Saver]:
    """Start a process that saves whenever it is told to, and end it."""
    command = [sys.executable, "-c", JOB, str(folder / "x.pt"), str(int(gib * (1 << 29)))]
    if captured:
        iotrace = str(Path(sys.executable).with_name("iotrace"))
        output = ("--force", "-o", str(folder / "trace.parquet"))
        command = [iotrace, "capture", *output, "--", *command]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        yield process
        _, told = process.communicate()
        assert process.returncode == 0, told


def save(process: Saver, pause_s: float = 0.0) -> Seconds:
    """Let a process save once, after a pause; return how long that took."""
    assert process.stdin and process.stdout
    time.sleep(pause_s)
    process.stdin.write("\n")
    process.stdin.flush()
    elapsed, cpu = map(float, process.stdout.readline().split())
    return elapsed, cpu


def pairs_of(
    folder: Path, gib: float, pairs: int, pause_s: float = 0.0
) -> Iterator[tuple[Seconds, Seconds]]:
    """Yield what a bare and a captured save took, of two processes in turn."""
    with ExitStack() as stack:
        both = [stack.enter_context(saver(folder, gib, captured)) for captured in (False, True)]
        for process in both:
            save(process)
        for pair in range(pairs):
            order = (0, 1) if pair % 2 == 0 else (1, 0)
            took = {which: save(both[which], pause_s) for which in order}
            yield took[0], took[1]


def main(pairs: int, gib: float) -> None:
    """Print the ratios, captured over bare, of each place."""
    (ROOT / "build").mkdir(exist_ok=True)
    for place, parent in (("memory", Path("/dev/shm")), ("disk", ROOT / "build")):
        taken: list[tuple[Seconds, Seconds]] = []
        with tempfile.TemporaryDirectory(dir=parent) as name:
            while len(taken) < pairs:
                count = min(PAIRS_OF_A_PROCESS, pairs - len(taken))
                taken += pairs_of(Path(name), gib, count)
        for what, which in (("elapsed", 0), ("CPU", 1)):
            ratio = estimate([captured[which] / bare[which] for bare, captured in taken])
            alone = estimate([bare[which] for bare, _ in taken])
            print(
                f"torch.save of {gib:g} GiB, {place}, {what}: {alone.median:.2f} s bare; captured "
                f"{ratio.median:.4f} times that, {ratio.low:.4f} to {ratio.high:.4f}",
                flush=True,
            )


def small() -> None:
    """Print what a small save takes, bare and captured, and the median of what a pair adds."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        taken = list(pairs_of(Path(name), SMALL_GIB, SMALL_PAIRS, PAUSE_S))
    for what, which in (("elapsed", 0), ("CPU", 1)):
        alone, captured, added = (
            1000 * median(seconds)
            for seconds in (
                [bare[which] for bare, _ in taken],
                [captured[which] for _, captured in taken],
                [captured[which] - bare[which] for bare, captured in taken],
            )
        )
        print(
            f"torch.save of 2 KiB, {what}: {alone:.2f} ms bare, {captured:.2f} ms captured; "
            f"{added:.2f} ms more",
            flush=True,
        )


if __name__ == "__main__":
    if sys.argv[1:] == ["small"]:
        small()
    else:
        arguments = (sys.argv[1:] + ["20", "2"][len(sys.argv) - 1 :])[:2]
        main(int(arguments[0]), float(arguments[1]))
