"""Run many trials in child processes; keep every input that crashed, hung or ate memory.

Usage: python -m tests.fuzz.run [--executions N] [--seconds S] [--seed N] [--findings DIR]
"""

from __future__ import annotations

import argparse
import faulthandler
import random
import resource
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

from tests.fuzz.mutations import damage, wild
from tests.fuzz.trial import attempt

CORPUS = Path(__file__).parents[2] / "traces" / "corpus"
HANG_SECONDS = 5
MEMORY_BYTES = 1 << 30
ROUND = 5000  # executions of one child; a leak shows within, a crash costs no more than one


def child(seed: int, executions: int, folder: Path) -> None:
    """Try inputs of `seed`; the one at work lies in `folder`/input.parquet."""
    rng = random.Random(seed)
    seeds = [path.read_bytes() for path in sorted(CORPUS.glob("*.parquet"))]
    seeds += [wild(rng) for _ in range(20)]
    place = folder / "input.parquet"
    count: Counter[str] = Counter()
    for _ in range(executions):
        content = wild(rng) if rng.random() < 0.3 else damage(rng.choice(seeds), rng, seeds)
        place.write_bytes(content)
        faulthandler.dump_traceback_later(HANG_SECONDS, exit=True)
        came = attempt(place)
        faulthandler.cancel_dump_traceback_later()
        count[came] += 1
        if came != "refused" and len(seeds) < 500 and rng.random() < 0.05:
            seeds.append(content)  # what is still read is worth damaging further
        if resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 > MEMORY_BYTES:
            raise MemoryError("the reader took more than a gigabyte")
        (folder / "count").write_text(str(sum(count.values())))
    print(dict(count))


def main() -> int:
    """Run rounds until the executions or the seconds are used up."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--executions", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--findings", type=Path, default=Path("build/fuzz"))
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        try:
            child(given.seed, given.executions, given.child)
        except Exception:
            traceback.print_exc()
            return 1
        return 0
    given.findings.mkdir(parents=True, exist_ok=True)
    done = findings = 0
    began = time.monotonic()
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as name:
        folder = Path(name)
        seed = given.seed
        while done < given.executions and time.monotonic() - began < given.seconds:
            (folder / "count").write_text("0")
            left = min(ROUND, given.executions - done)
            command = [sys.executable, "-m", "tests.fuzz.run", "--child", name]
            command += ["--seed", str(seed), "--executions", str(left)]
            ended = subprocess.run(command, capture_output=True, text=True)
            done += int((folder / "count").read_text() or 0)
            if ended.returncode:
                findings += 1
                kept = given.findings / f"seed-{seed}.parquet"
                if (folder / "input.parquet").exists():
                    kept.write_bytes((folder / "input.parquet").read_bytes())
                kept.with_suffix(".txt").write_text(f"{ended.returncode}\n{ended.stderr}")
                print(f"finding: {kept}", flush=True)
            seconds = time.monotonic() - began
            print(f"{done} executions, {findings} findings, {seconds:.0f} s", flush=True)
            seed += 1
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
