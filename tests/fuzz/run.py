"""Fuzz with coverage as the guide; keep every input that crashed, hung or ate memory.

What reaches new code stays in FINDINGS/corpus, and the next run begins with it.

Usage: python -m tests.fuzz.run [--executions N] [--seconds S] [--seed N] [--findings DIR]
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from array import array
from pathlib import Path

from tests.fuzz import seeds, trial

HANG_SECONDS = 5
AGAIN_SECONDS = 60
# Where even a child that holds all that it may stays below, and an input that takes more is ended.
BACKSTOP_MIB = trial.MEMORY_BYTES + 2 * trial.GROWN_BYTES >> 20
ROUND = 25_000  # executions of one child: a leak shows within
INPUT_BYTES = 1 << 14
ENVIRONMENT = {**os.environ, "PYTHONHASHSEED": "0"}  # an input does the same each time it is tried
MOST_FINDINGS = 50
_STATUS = re.compile(r"cov: (\d+) ft: (\d+) corp: (\d+)")


def write_seeds(folder: Path) -> None:
    """Write what a fuzzer begins with, one file each."""
    inputs = {
        "trace": seeds.traces(),
        "rows": seeds.rows(),
        "sweep": iter([seeds.SWEEP.read_bytes()]),
    }
    inputs |= {name: iter(texts) for name, texts in seeds.IMPORTED.items()}
    for name, contents in inputs.items():
        for number, content in enumerate(c for c in contents if len(c) < INPUT_BYTES):
            (folder / f"{name}-{number}").write_bytes(trial.selector(name) + content)


def confirmed(artifact: Path) -> str | None:
    """Try a finding again, alone; return what went wrong, None if nothing did.

    A busy machine makes inputs look slow: what counts is the time of the processor.
    """
    command = [sys.executable, "-m", "tests.fuzz.child", "--again", str(artifact)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=AGAIN_SECONDS, env=ENVIRONMENT
        )
    except subprocess.TimeoutExpired:
        return f"more than {AGAIN_SECONDS} s"
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    if done.returncode:
        return f"status {done.returncode}\n{done.stderr[-5000:]}"
    if artifact.name.startswith("timeout") and seconds < HANG_SECONDS:
        return None
    return f"{artifact.name}, {seconds:.1f} s"


def main() -> int:
    """Run children until the executions or the seconds are used up."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--executions", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--findings", type=Path, default=Path("build/fuzz"))
    given = parser.parse_args()
    corpus = given.findings / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    findings, seed = 0, given.seed
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(dir=memory) as name:
        folder = Path(name)
        counts, begun_with, work = (folder / part for part in ("counts", "seeds", "work"))
        counts.write_bytes(bytes(8 * len(trial.NAMES) + 8))
        begun_with.mkdir()
        work.mkdir()
        write_seeds(begun_with)
        done = 0
        while done < given.executions and findings < MOST_FINDINGS:
            left = given.seconds - (time.monotonic() - began)
            if left <= 1:
                break
            options = {
                "runs": min(ROUND, given.executions - done),
                "seed": seed,
                "timeout": HANG_SECONDS,
                "rss_limit_mb": BACKSTOP_MIB,
                "max_len": INPUT_BYTES,
                "len_control": 0,
                "artifact_prefix": f"{given.findings}/",
                **({"max_total_time": int(left)} if left < 1e9 else {}),
            }
            command = [sys.executable, "-m", "tests.fuzz.child", str(counts), str(work)]
            command += [f"-{key}={value}" for key, value in options.items()]
            command += [str(corpus), str(begun_with)]
            before = set(given.findings.iterdir())
            ended = subprocess.run(
                command, capture_output=True, text=True, errors="replace", env=ENVIRONMENT
            )
            tried = array("q", counts.read_bytes())
            most_bytes = tried.pop()
            done = sum(tried)
            found = sorted(set(given.findings.iterdir()) - before)
            for path in found:
                cause = confirmed(path)
                if cause is None:
                    path.unlink()
                    continue
                findings += 1
                path.with_name(f"{path.name}.txt").write_text(f"{cause}\n{ended.stderr[-9000:]}")
                print(f"finding: {path}", flush=True)
            reached = _STATUS.findall(ended.stderr)
            seconds = time.monotonic() - began
            line = f"{done} executions, {findings} findings, {seconds:.0f} s"
            if reached:
                line += "; edges {}, features {}, corpus {}".format(*reached[-1])
            line += f"; at most {most_bytes >> 20} MiB, by {given.findings}/heaviest"
            print(line, flush=True)
            if (work / "heaviest").exists():
                shutil.move(work / "heaviest", given.findings / "heaviest")
            if ended.returncode and not found:
                print(ended.stderr[-3000:], file=sys.stderr)
                print(f"the child ended with status {ended.returncode}", file=sys.stderr)
                return 1
            seed += 1
        print(", ".join(f"{n} {count}" for n, count in zip(trial.NAMES, tried, strict=True)))
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
