"""How fast a plan is made and transformed, and what memory it takes: make bench, or alone.

Prints seconds and bytes per request of each stage, for a plan of RANKS ranks that write FILES
files each in requests of 4 KiB.
"""

import argparse
import os
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from iotrace.replay.executors.executor import LoopOptions
from iotrace.replay.executors.null import NullExecutor
from iotrace.replay.files import describe_files
from iotrace.replay.job import Op
from iotrace.replay.loop import Tape
from iotrace.replay.pieces import make_pieces
from iotrace.replay.plan import Applied, Plan, Stream
from iotrace.replay.relocation import Relocation
from iotrace.replay.rows import ROW
from iotrace.replay.schedule import schedule
from iotrace.replay.transforms.aggregate import Aggregate
from iotrace.replay.transforms.coalesce import Coalesce
from iotrace.traces.phases import Phase

RANKS, FILES, LENGTH = 8, 100, 4096


@dataclass(frozen=True)
class Stage:
    """What is timed."""

    name: str
    run: Callable[[Plan], Plan]


def make_plan(count: int) -> Plan:
    """Return a plan of about `count` writes, the ranks taking turns."""
    files = RANKS * FILES
    each = count // files + 2  # of a file: its open, its writes, its close
    rows = np.zeros(files * each, ROW)
    place = np.arange(len(rows))
    rank = place % RANKS
    within = place // RANKS
    file = rank * FILES + within // each
    step = within % each
    op = np.where(step == 0, int(Op.OPEN), np.where(step == each - 1, int(Op.CLOSE), int(Op.WRITE)))
    writes = op == Op.WRITE
    rows["op"], rows["file"], rows["handle"], rows["stream"] = op, file, file, rank
    rows["path"] = np.where(op == Op.OPEN, file, -1)
    rows["target"] = -1
    rows["flags"] = np.where(op == Op.OPEN, os.O_WRONLY | os.O_CREAT, 0)
    rows["mode"] = np.where(op == Op.OPEN, 0o644, 0)
    rows["offset"] = np.where(writes, (step - 1) * LENGTH, 0)
    rows["length"] = np.where(writes, LENGTH, 0)
    rows["phase"], rows["source_row"] = Phase.SAVE, place
    rows["piece_count"] = writes
    rows["first_piece"] = np.cumsum(writes) - writes
    pieces = make_pieces(file[writes], rows["offset"][writes], LENGTH)
    paths = tuple(f"rank-{number // FILES}/{number % FILES}" for number in range(files))
    before = np.zeros(files, np.int64)
    return Plan(
        files=describe_files(rows, paths, before, Relocation()),
        paths=paths,
        streams=tuple(Stream(number, 0, number) for number in range(RANKS)),
        requests=rows,
        pieces=pieces,
        relocation=Relocation(),
        history=(Applied("made"),),
    )


def run_null(plan: Plan) -> Plan:
    """Schedule and count a plan, as a dry run does."""
    with Tape(4 << 20) as tape:
        NullExecutor().run(schedule(plan).job, tape, -1, LoopOptions())
    return plan


@dataclass(frozen=True)
class Clock:
    """Seconds on the wall and of the processors; a busy machine shows in the first alone."""

    wall: float
    cpu: float

    @classmethod
    def now(cls) -> "Clock":
        return cls(time.monotonic(), time.process_time())


def print_stage(name: str, begun: Clock, count: int) -> None:
    """Print what a stage over `count` requests took since `begun`."""
    now = Clock.now()
    print(
        f"{name:<12}{now.wall - begun.wall:8.2f} s{now.cpu - begun.cpu:8.2f} s of CPU"
        f"   peak {peak_bytes() / count:6.0f} B each"
    )


def peak_bytes() -> int:
    """Return the most memory the process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main() -> None:
    """Print a line per stage."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--null", action="store_true", help="only schedule, and run nothing")
    chosen = parser.parse_args()
    begun = Clock.now()
    plan = make_plan(chosen.requests)
    count = len(plan.requests)
    size = plan.requests.nbytes + plan.pieces.nbytes
    print(f"{count:,} requests, {size / count:.0f} bytes each in the plan")
    print_stage("made", begun, count)
    stages = [Stage("aggregate", Aggregate("rank")), Stage("coalesce", Coalesce())]
    for stage in [Stage("null", run_null)] if chosen.null else stages:
        begun = Clock.now()
        plan = stage.run(plan)
        print_stage(stage.name, begun, count)


if __name__ == "__main__":
    main()
