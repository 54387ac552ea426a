"""Print what the preload library adds to a pwrite on a memory file system, and what a trace costs.

Run by hand: `python tests/bench/capture_overhead.py [ROUNDS [CALLS]]`. The bare and the captured
loop take turns, so that a slow spell of the machine meets both. strace is there for comparison.
"""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from iotrace.capture.collector import collect
from iotrace.traces.writer import write_trace

ROOT = Path(__file__).parents[2]
LIBRARY = ROOT / "capture" / "libiotrace_capture.so"
SOURCE = ROOT / "tests" / "capture" / "csrc" / "million.c"
REQUEST_BYTES = 4096
STRACE_CALLS = 20_000
STRACE = ("strace", "-f", "-o", "/dev/null", "-e", "trace=pwrite64")
THREADS = (1, 8)


def compile_loop(folder: Path) -> Path:
    program = folder / "million"
    subprocess.run(["gcc", "-O2", "-pthread", str(SOURCE), "-o", str(program)], check=True)
    return program


def time_ns(command: Sequence[str], extra: Mapping[str, str]) -> tuple[float, float]:
    """Run the loop once; return the time and the CPU time of all its pwrites over their number."""
    done = subprocess.run(
        command, env={**os.environ, **extra}, check=True, capture_output=True, text=True
    )
    elapsed, cpu = map(float, done.stdout.split())
    return elapsed, cpu


def compare(folder: Path, loop: Sequence[str], rounds: int) -> None:
    logs = folder / "logs"
    captured_by = {"LD_PRELOAD": str(LIBRARY), "IOTRACE_LOG_DIR": str(logs)}
    bare, captured = [], []
    for _ in range(rounds):
        logs.mkdir()
        bare.append(time_ns(loop, {}))
        captured.append(time_ns(loop, captured_by))
        shutil.rmtree(logs)
    for what, place in (("elapsed", 0), ("CPU", 1)):
        without, with_ours = ([run[place] for run in runs] for runs in (bare, captured))
        added = [b - a for a, b in zip(without, with_ours, strict=True)]
        medians = statistics.median(without), statistics.median(with_ours)
        print(f"  {what:8} {medians[0]:6.0f} ns bare, {medians[1]:6.0f} ns captured")
        print(f"    adds   {statistics.median(added):6.0f} ns (median of the pairs)")
        print(f"    adds   {min(with_ours) - min(without):6.0f} ns (fastest of each)")


def collect_once(folder: Path, loop: Sequence[str]) -> None:
    """Print how fast the raw logs become a trace, and what a record takes in it."""
    logs, trace = folder / "logs", folder / "trace.parquet"
    logs.mkdir()
    time_ns(loop, {"LD_PRELOAD": str(LIBRARY), "IOTRACE_LOG_DIR": str(logs)})
    start = time.process_time()
    found = collect(logs, [])
    seconds = time.process_time() - start
    write_trace(found, trace, force=True)
    whole = time.process_time() - start
    rows = len(found)
    print(f"  collected {rows / seconds / 1e6:8.2f} M records per CPU second ({rows:,} records)")
    print(f"  written   {rows / whole / 1e6:8.2f} M records per CPU second, with the Parquet file")
    print(f"  trace     {trace.stat().st_size / rows:8.2f} bytes per record")
    shutil.rmtree(logs)


def main(rounds: int, calls: int) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        folder = Path(name)
        program = compile_loop(folder)
        for threads in THREADS:
            loop = [str(program), str(folder / "data"), str(threads), str(calls)]
            print(
                f"pwrite of {REQUEST_BYTES} bytes, {threads} threads, {rounds} rounds of {calls}:"
            )
            compare(folder, loop, rounds)
            collect_once(folder, loop)
        if shutil.which("strace"):
            loop = [str(program), str(folder / "data"), "1", str(STRACE_CALLS)]
            print(f"  strace    {time_ns([*STRACE, *loop], {})[0]:8.0f} ns elapsed")


if __name__ == "__main__":
    main(*(int(argument) for argument in (sys.argv[1:] + ["11", "1000000"][len(sys.argv) - 1 :])))
