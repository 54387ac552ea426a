"""What the preload library adds to a small read through io_uring: make bench, or alone.

The bare and the captured job take turns; each prints the processor time of its reads over their
number. Jobs use rings because a system call per request was too much for them.
"""

import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from iotrace.capture.rawlog import read_raw_log
from tests.capture.preload_job import capture_environment, compile_program

REQUESTS = 100_000
PAIRS = 11


def time_ns(command: Sequence[str | Path], environment: Mapping[str, str]) -> float:
    """Run the job once; return the processor time of one read."""
    done = subprocess.run(command, env=environment, check=True, capture_output=True)
    return float(done.stdout)


def main(pairs: int = PAIRS) -> None:
    """Print the nanoseconds that capture adds to each read."""
    bare: list[float] = []
    captured: list[float] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program = compile_program(folder, "uring_rings.c", "-O2", "-luring", "-pthread")
        command: list[str | Path] = [program, folder, "many", str(REQUESTS)]
        for pair in range(pairs):
            logs = folder / f"logs{pair}"
            logs.mkdir()
            bare.append(time_ns(command, {}))
            captured.append(time_ns(command, capture_environment(logs)))
            (path,) = logs.glob("*.raw")
            if len(read_raw_log(path).rows("read")) != REQUESTS:
                sys.exit("not all of it was captured: the time tells nothing")
    added = statistics.median(b - a for a, b in zip(bare, captured, strict=True))
    print(f"{statistics.median(bare):.0f} ns bare, {statistics.median(captured):.0f} ns captured")
    print(f"adds {added:.0f} ns to a read of 512 bytes (median of {pairs} pairs)")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
