"""Print what the preload library adds to one pwrite on a memory file system.

Run by hand: `python tests/bench/capture_overhead.py [ROUNDS [CALLS]]`. The bare and the captured
loop take turns, so that a slow spell of the machine meets both. strace is there for comparison.
"""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

LIBRARY = Path(__file__).parents[2] / "capture" / "libiotrace_capture.so"
SOURCE = Path(__file__).parent / "csrc" / "pwrite_loop.c"
REQUEST_BYTES = 4096
STRACE_CALLS = 20_000
STRACE = ("strace", "-f", "-o", "/dev/null", "-e", "trace=pwrite64")


def compile_loop(folder: Path) -> Path:
    program = folder / "pwrite_loop"
    subprocess.run(["gcc", "-O2", str(SOURCE), "-o", str(program)], check=True)
    return program


def time_ns(command: Sequence[str], extra: Mapping[str, str]) -> float:
    """Run the loop once and return the mean time of its pwrites."""
    done = subprocess.run(
        command, env={**os.environ, **extra}, check=True, capture_output=True, text=True
    )
    return float(done.stdout)


def main(rounds: int, calls: int) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        folder = Path(name)
        program = compile_loop(folder)
        logs = folder / "logs"
        captured_by = {"LD_PRELOAD": str(LIBRARY), "IOTRACE_LOG_DIR": str(logs)}
        loop = [str(program), str(folder / "data"), str(calls), str(REQUEST_BYTES)]
        bare, captured = [], []
        for _ in range(rounds):
            logs.mkdir()
            bare.append(time_ns(loop, {}))
            captured.append(time_ns(loop, captured_by))
            shutil.rmtree(logs)
        differences = [b - a for a, b in zip(bare, captured, strict=True)]
        print(f"pwrite of {REQUEST_BYTES} bytes on {folder.parent}, {rounds} rounds of {calls}:")
        print(f"  bare      {statistics.median(bare):8.0f} ns per call")
        print(f"  captured  {statistics.median(captured):8.0f} ns per call")
        print(f"  capture adds {statistics.median(differences):5.0f} ns (median of the pairs)")
        print(f"  capture adds {min(captured) - min(bare):5.0f} ns (fastest of each)")
        if shutil.which("strace"):
            loop[2] = str(STRACE_CALLS)
            straced = time_ns([*STRACE, *loop], {})
            print(f"  strace    {straced:8.0f} ns per call")


if __name__ == "__main__":
    main(*(int(argument) for argument in (sys.argv[1:] + ["11", "300000"][len(sys.argv) - 1 :])))
