"""The study of docs/study.md: engines, their replays and fio, in alternation on one machine.

    python -m tests.bench.study [FOLDER] [--minutes 16] [--rows build/study.csv] [--keep-memory]

For each engine that can be imported, on a state of 513 MiB:

- `fio`: its best request size, depth, file and path, each varied with the others fixed;
- `depth`, `size`: the replay that puts all into one file per rank, coalesced and direct, the
  depth varied at requests of 8 MiB, then the size at the best depth;
- `align`: the same at the best depth and size, with extents moved to blocks and without;
- `pairs`: the engine's own save; the best transform and fio, each into new files and over the
  blocks of older ones; and the save under capture with replays as recorded, each the third in a
  row, so that it gets the memory of the one before; in random order within each turn;
- `memory`: a save or replay without others before it, and after a pause in which a hypervisor
  takes free memory back;
- `kept`: the save under capture and replays as recorded, as in `pairs`, while the kernel gives no
  free page to the hypervisor: with --keep-memory, which asks that of it meanwhile (as root);
- `save`, `restore`: replays of the same trace, factor by factor.

Turns that do not fit into the minutes are left out, the last parts first; each row tells its turn.
`python -m tests.bench.study.tables` makes the tables of the rows.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from iotrace.tools.shape import Shape

from .engine import ENGINES, Saves, capture_once, is_there
from .fio import Fio
from .replayed import Replays
from .rows import Clock, Row, Side, fastest_side, take_turns, write_rows

KIB, MIB = 1 << 10, 1 << 20
DEPTHS = (1, 2, 4, 8, 16, 32)
SIZES = (256 * KIB, MIB, 8 * MIB, 32 * MIB)
SMALL = 64 * KIB
OTHER_TURNS = 5  # of the parts whose ratios nothing is concluded from
PAUSE_SECONDS = 5.0  # free memory is taken back two seconds after it was freed, and in bits
FACTORS = ("torch.save", "dcp", "torchsnapshot")  # engines whose factors are told apart
MEMORY = ("torch.save", "safetensors")  # engines that write from one thread
REPORTING = Path("/sys/module/page_reporting/parameters/page_reporting_order")
NO_ORDER = "11"  # the smallest block that is given back; there is none larger than of order 10
WARMUPS = 2  # saves and replays whose memory the next one gets
BEST = Shape(op="write", aggregate="rank", coalesce_bytes=8 * MIB, direct=True)


@dataclass(frozen=True, eq=False)
class Study:
    """What the parts share.

    Attributes:
        folder: to work in.
        large: tensors of 8 MiB per state.
        turns: of the pairs; of the other parts at most OTHER_TURNS.
        clock: when to stop.
        traces: replays of each engine's trace.
    """

    folder: Path
    large: int
    turns: int
    clock: Clock
    traces: Mapping[str, Replays]

    def take(self, part: str, engine: str, sides: Mapping[str, Side]) -> list[Row]:
        """Run sides in turns."""
        turns = self.turns if part == "pairs" else min(self.turns, OTHER_TURNS)
        return take_turns(part, engine, sides, turns, self.clock)

    def vary_fio(self) -> tuple[Fio, list[Row]]:
        """Return fio's best way, found by one factor after the other, and the rows."""
        best = Fio(self.folder, self.large * 8 * MIB)
        rows: list[Row] = []
        factors: tuple[tuple[str, tuple[Any, ...]], ...] = (
            ("depth", DEPTHS),
            ("request_bytes", SIZES),
            ("overwrite", (True, False)),
            ("registered", (False, True)),
            ("direct", (True, False)),
        )
        for name, values in factors:
            ways = [replace(best, **{name: value}) for value in values]
            found = self.take(f"fio {name}", "", {way.name: way for way in ways})
            fastest = fastest_side(found)
            best = next(way for way in ways if way.name == fastest)
            rows += found
        return best, rows

    def vary_replay(self, engine: str) -> tuple[dict[str, Side], list[Row]]:
        """Return the best transform of an engine's saves as sides of `pair`, and the rows."""
        side = self.traces[engine].side
        by_depth = {str(depth): side(sized(BEST, 8 * MIB), depth) for depth in DEPTHS}
        rows = self.take("depth", engine, by_depth)
        depth = int(fastest_side(rows))
        by_size = {str(size): side(sized(BEST, size), depth) for size in SIZES}
        found = self.take("size", engine, by_size)
        size = int(fastest_side(found))
        shapes = {
            "as they lie": sized(BEST, size),
            "aligned": replace(sized(BEST, size), align=True),
        }
        rows += found
        found = self.take("align", engine, {name: side(shapes[name], depth) for name in shapes})
        kind = fastest_side(found)
        self.clock.say(engine, f"best: depth {depth}, {size // KIB} KiB, {kind}")
        best = {
            "best": side(shapes[kind], depth),
            "best, over old": side(replace(shapes[kind], overwrite=True), depth),
        }
        return best, rows + found

    def saves(self, engine: str, name: str, *, captured: bool) -> Saves:
        """Return a job that saves in a folder of its own."""
        return Saves(engine, self.folder / f"{engine}-{name}", self.large, captured=captured)

    def as_recorded(self, engine: str, job: Saves) -> dict[str, Side]:
        """Return a captured job and replays of its requests, each with the memory of the last."""
        side, write = self.traces[engine].side, Shape(op="write")
        return {
            "captured": lambda: job.save(warmup=WARMUPS),
            "as recorded": side(write, warmup=WARMUPS),
            "with pauses": side(write, warmup=WARMUPS, executor="posix", timing="think"),
        }

    def pair(self, engine: str, best: Mapping[str, Side], fio: Fio) -> list[Row]:
        """Let an engine, its replays and fio take turns."""
        with ExitStack() as stack:
            bare = stack.enter_context(self.saves(engine, "bare", captured=False))
            captured = stack.enter_context(self.saves(engine, "captured", captured=True))
            sides: dict[str, Side] = {
                "engine": bare.save,
                **self.as_recorded(engine, captured),
                **best,
                "fio": fio,
                "fio, new file": replace(fio, overwrite=False),
            }
            rows = self.take("pairs", engine, sides)
            return list(with_io(rows, captured))

    def keep(self, engine: str) -> list[Row]:
        """Let saves and replays take turns while no memory is taken away."""
        with kept_memory(), self.saves(engine, "kept", captured=True) as job:
            sides = self.as_recorded(engine, job)
            rows = take_turns("kept", engine, sides, self.turns, self.clock)
            return list(with_io(rows, job))

    def lend(self, engine: str) -> list[Row]:
        """Let saves and replays take turns, with whatever memory is free and after a pause."""
        side, write = self.traces[engine].side, Shape(op="write")
        rows: list[Row] = []
        for part, pause_seconds in (("memory", 0.0), ("memory pause", PAUSE_SECONDS)):
            with self.saves(engine, part, captured=True) as job:
                sides: dict[str, Side] = {
                    "captured": partial(job.save, pause_seconds),
                    "as recorded": side(write, pause_seconds=pause_seconds),
                }
                rows += with_io(self.take(part, engine, sides), job)
        return rows

    def factors(self, engine: str) -> list[Row]:
        """Replay the save and the restore with one factor changed after the other."""
        side = self.traces[engine].side
        rows: list[Row] = []
        for part, op in (("save", "write"), ("restore", "read")):
            plain, joined = Shape(op=op), Shape(op=op, coalesce_bytes=8 * MIB)
            small = replace(plain, split_bytes=SMALL)
            aligned = replace(small, align=True, direct=True)
            warm = int(op == "write")
            sides = {
                "as recorded": side(plain, warmup=warm),
                "coalesced": side(joined, warmup=warm),
                "direct": side(replace(plain, direct=True)),
                "direct, depth 8": side(replace(plain, direct=True), 8),
                "coalesced, direct, depth 8": side(replace(joined, direct=True), 8),
                "64 KiB": side(small, warmup=warm),
                "64 KiB, direct": side(aligned),
                "64 KiB, direct, depth 8": side(aligned, 8),
            }
            if op == "write":
                sides["one file, coalesced, direct, depth 8"] = side(BEST, 8)
            else:
                sides["as recorded, fresh memory"] = side(plain, allocate="fresh")
            rows += self.take(part, engine, sides)
        return rows


@contextmanager
def kept_memory() -> Iterator[None]:
    """Let the kernel give no free page to the hypervisor meanwhile."""
    before = REPORTING.read_text()
    REPORTING.write_text(NO_ORDER)
    try:
        yield
    finally:
        REPORTING.write_text(before)


def sized(shape: Shape, size: int) -> Shape:
    """Return the shape with requests of at most `size`."""
    return replace(shape, coalesce_bytes=size, split_bytes=size)


def with_io(rows: Sequence[Row], job: Saves) -> Iterator[Row]:
    """End the captured job; yield all rows, its own with the time of their requests."""
    known = iter(job.with_io([row for row in rows if row.side == "captured"]))
    for row in rows:
        yield next(known) if row.side == "captured" else row


def parts(study: Study, keeps_memory: bool) -> Iterator[list[Row]]:
    """Yield the rows of each part as it ends, what matters most first."""
    fio, rows = study.vary_fio()
    study.clock.say("fio at its best:", fio.name)
    yield rows
    for engine in study.traces:
        best, rows = study.vary_replay(engine)
        yield rows
        yield study.pair(engine, best, fio)
    for engine in study.traces if keeps_memory else ():
        yield study.keep(engine)
    for engine in MEMORY:
        if engine in study.traces:
            yield study.lend(engine)
    for engine in FACTORS:
        if engine in study.traces:
            yield study.factors(engine)


def main() -> None:
    """Run all parts and write their rows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?", default=Path("build"))
    parser.add_argument("--minutes", type=float, default=16.0)
    parser.add_argument("--turns", type=int, default=7, help="of engines, replays and fio")
    parser.add_argument("--large", type=int, default=64, help="tensors of 8 MiB, at least 4")
    parser.add_argument("--engine", action="append", choices=ENGINES, help="default: all there")
    parser.add_argument("--keep-memory", action="store_true", help="has the part `kept` too")
    parser.add_argument("--rows", type=Path, default=Path("build/study.csv"))
    asked = parser.parse_args()
    keeps_memory = asked.keep_memory and os.access(REPORTING, os.W_OK)
    if keeps_memory != asked.keep_memory:
        print(f"without the part `kept`: {REPORTING} may not be written here", file=sys.stderr)
    asked.folder.mkdir(parents=True, exist_ok=True)
    clock = Clock(asked.minutes)
    engines = [engine for engine in asked.engine or ENGINES if is_there(engine)]
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="study-", dir=asked.folder) as name:
        folder = Path(name)
        traces = {}
        for engine in engines:
            traces[engine] = Replays.of(capture_once(engine, folder, asked.large), folder)
            clock.say("captured", engine)
        study = Study(folder, asked.large, asked.turns, clock, traces)
        for found in parts(study, keeps_memory):
            rows += found
            write_rows(asked.rows, rows)


if __name__ == "__main__":
    main()
