"""How fast a plan is made and transformed, and what memory it takes: make bench, or alone.

Prints seconds and bytes per request of each stage, for a trace of RANKS ranks that write FILES
files each in requests of 4 KiB. What is at most to be taken: AIM_SECONDS for ten million requests
aggregated and coalesced (--requests 10000000; of less, what ten million would take), AIM_BYTES for
each in any of the plans, and AIM_NULL_BYTES for all of fifty million through the null executor
(--null --requests 50000000).
"""

import argparse
import multiprocessing
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow.parquet as pq

from iotrace.replay.build import plan_from_trace
from iotrace.replay.pieces import Ints
from iotrace.replay.plan import Plan
from iotrace.replay.transforms.aggregate import Aggregate
from iotrace.replay.transforms.coalesce import Coalesce
from iotrace.traces.columns import Strings
from iotrace.traces.metadata import Metadata
from iotrace.traces.reader import read_trace
from iotrace.traces.schema import METADATA_KEY, SCHEMA, TEXT_COLUMNS
from iotrace.traces.trace import Trace
from iotrace.traces.writer import ROWS_PER_GROUP

RANKS, FILES, LENGTH = 8, 100, 4096
AIM_SECONDS, AIM_BYTES, AIM_NULL_BYTES = 5.0, 64, 10**9
Given = TypeVar("Given")
Made = TypeVar("Made")


def write_recording(count: int, path: Path, rows_per_group: int = ROWS_PER_GROUP) -> None:
    """Write a trace of about `count` writes, the ranks taking turns; little of it is in memory."""
    files = RANKS * FILES
    each = count // files + 2  # of a file: its open, its writes, its close
    columns = [field.name for field in SCHEMA if field.name in TEXT_COLUMNS]
    with pq.ParquetWriter(
        path, SCHEMA, compression="zstd", use_dictionary=columns, store_schema=False
    ) as writer:
        writer.add_key_value_metadata({METADATA_KEY: Metadata().to_json()})
        for first in range(0, files * each, rows_per_group):
            place = np.arange(first, min(first + rows_per_group, files * each))
            writer.write_table(recording(place, each).table, row_group_size=rows_per_group)


def recording(place: Ints, each: int) -> Trace:
    """Return some rows of the trace, by their places in it; `each` file has so many."""
    rank = place % RANKS
    file = rank * FILES + place // RANKS // each
    step = place // RANKS % each
    op = np.where(step == 0, 0, np.where(step == each - 1, 2, 1)).astype(np.int32)
    names = [f"/run/rank-{number // FILES}/{number % FILES}" for number in range(RANKS * FILES)]
    moved = np.where(op == 1, LENGTH, 0)
    columns: dict[str, Ints | Strings] = {
        "layer": Strings.constant("request", len(place)),
        "op": Strings(op, ("open", "write", "close")),
        "path": Strings(file.astype(np.int32), names),
        "seq": place // RANKS,
        "start_ns": place * 1000,
        "end_ns": place * 1000 + 500,
        "rank": rank,
        "process": rank,
        "file": file,
        "offset": np.where(op == 1, (step - 1) * LENGTH, 0),
        "length": moved,
        "result": moved,
        "flags": np.where(op == 0, os.O_WRONLY | os.O_CREAT, 0),
    }
    return Trace.from_columns(columns, Metadata())


# Run by a process of its own: one that is started counts what the one that starts it has, too.
_MEASURE = """
import os, sys
_, status, usage = os.wait4(os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ), 0)
print(status, usage.ru_utime, usage.ru_maxrss * 1024)
"""


def dry_run(path: Path) -> int:
    """Replay a trace by the null executor, apart; return the most memory that took, in bytes."""
    started = time.monotonic()
    python = [sys.executable, "-S", "-c", _MEASURE]
    replay = [sys.executable, "-m", "iotrace.tools", "replay", str(path), "--executor", "null"]
    done = subprocess.run([*python, *replay], stdout=subprocess.PIPE, text=True, check=True)
    *told, measured = done.stdout.splitlines()
    print(*told, sep="\n")
    status, user_seconds, most_bytes = measured.split()
    if status != "0":
        raise SystemExit("the dry run failed")
    print(f"{time.monotonic() - started:.0f} s, user {float(user_seconds):.0f} s")
    return int(most_bytes)


@dataclass
class Stages:
    """Runs stages over `count` requests and prints what each took.

    A busy machine shows most in the seconds on the wall, and least in those of the process itself
    (`user`). The peak is that of all stages so far, with all that is held besides.
    """

    count: int

    def run(self, name: str, stage: Callable[[Given], Made], given: Given) -> tuple[Made, float]:
        """Return what a stage gives, and its seconds of user time."""
        wall, before = time.monotonic(), os.times()
        made = stage(given)
        wall, after = time.monotonic() - wall, os.times()
        user, system = after.user - before.user, after.system - before.system
        line = f"{name:<10}{wall:7.2f} s, user {user:6.2f} s, system {system:5.2f} s"
        line += f", peak {peak_bytes() / self.count:4.0f} B each"
        if isinstance(made, Plan):
            kept_bytes = made.requests.nbytes + made.pieces.nbytes
            line += f", kept {kept_bytes / self.count:3.0f}"
        print(line, flush=True)
        return made, user


def peak_bytes() -> int:
    """Return the most memory the process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main() -> None:
    """Print a line per stage."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--null", action="store_true", help="only the dry run")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "trace.parquet")
        writer = multiprocessing.Process(target=write_recording, args=(chosen.requests, path))
        writer.start()  # apart: its memory is not that of a plan
        writer.join()
        stages = Stages(chosen.requests)
        if chosen.null:
            most_bytes = dry_run(path)
            print(f"{most_bytes:,} B in all (aim for 50 million: {AIM_NULL_BYTES:,})")
            return
        trace, _ = stages.run("read", read_trace, path)
    plan, _ = stages.run("made", plan_from_trace, trace)
    del trace
    plan, first = stages.run("aggregate", Aggregate("rank"), plan)
    plan, second = stages.run("coalesce", Coalesce(), plan)
    per_aim = (first + second) * 1e7 / chosen.requests
    print(
        f"{per_aim:.1f} s of user time for both, per 10 million (aim: {AIM_SECONDS:.0f}); "
        f"kept at most: {AIM_BYTES} B each"
    )


if __name__ == "__main__":
    main()
