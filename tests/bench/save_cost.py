"""What capture adds to a torch.save: bare and captured take turns, each in a process of its own.

    python -m tests.bench.save_cost [PAIRS [GIB]]

On a memory file system (/dev/shm) and on the disk of build/. The time is that of the save alone, by
the job's own clock, and of its second: what the first has freed is then the memory that the file
takes, where a first save gets what is free, at a price that varies. Which of a pair goes first
alternates, the file is removed and the disk synced before each. Reported are the median of the
pairs' ratios and its interval; at 2 GiB and 20 pairs it is to be 1.01 at most, on a machine
without other work.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from iotrace.capture.session import CaptureOptions, remove_raw_dir, watch
from iotrace.replay.statistics import estimate

ROOT = Path(__file__).parents[2]
# Two tensors of half the size each; the pages of memory are there before the clock starts.
JOB = """
import sys, time, torch
path, result, half_bytes = sys.argv[1], sys.argv[2], int(sys.argv[3])
state = {name: torch.ones(half_bytes // 4) for name in ("weights", "moments")}
torch.save(state, path)
start = time.perf_counter()
torch.save(state, path)
open(result, "w").write(str(time.perf_counter() - start))
"""


def seconds(folder: Path, gib: float, captured: bool) -> float:
    """Return how long one save takes."""
    for name in ("x.pt", "seconds"):
        (folder / name).unlink(missing_ok=True)
    os.sync()
    half_bytes = str(int(gib * (1 << 29)))
    command = [sys.executable, "-c", JOB, *map(str, (folder / "x.pt", folder / "seconds"))]
    command.append(half_bytes)
    if captured:
        job = watch(command, CaptureOptions(folder / "raw"))
        remove_raw_dir(job.raw_dir)
        assert job.status == 0
    else:
        subprocess.run(command, check=True)
    return float((folder / "seconds").read_text())


def main(pairs: int, gib: float) -> None:
    """Print the ratios, captured over bare, of each place."""
    (ROOT / "build").mkdir(exist_ok=True)
    for place, parent in (("memory", Path("/dev/shm")), ("disk", ROOT / "build")):
        ratios, bare = [], []
        with tempfile.TemporaryDirectory(dir=parent) as name:
            for pair in range(pairs):
                order = (False, True) if pair % 2 == 0 else (True, False)
                times = {captured: seconds(Path(name), gib, captured) for captured in order}
                ratios.append(times[True] / times[False])
                bare.append(times[False])
        ratio, alone = estimate(ratios), estimate(bare)
        print(
            f"torch.save of {gib:g} GiB, {place:6}: {alone.median:.2f} s bare; captured "
            f"{ratio.median:.4f} times that, {ratio.low:.4f} to {ratio.high:.4f}, {pairs} pairs",
            flush=True,
        )


if __name__ == "__main__":
    arguments = (sys.argv[1:] + ["20", "2"][len(sys.argv) - 1 :])[:2]
    main(int(arguments[0]), float(arguments[1]))
