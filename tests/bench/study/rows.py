"""What the study measures: one row per run, as a CSV file."""

from __future__ import annotations

import csv
import os
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path


@dataclass(frozen=True)
class Row:
    """One run.

    Attributes:
        part: of the study.
        engine: whose checkpoint it is.
        side: what was run, in words.
        turn: of the alternation; rows of one turn are neighbours in time.
        seconds: until the call returned, or the last request was complete.
        durable_seconds: until all of it was on storage.
        io_seconds: how long at least one request was under way.
        system_seconds: how long the kernel worked for it.
        allocate_seconds: of taking the memory that loads read into.
        load: average of the machine.
    """

    part: str = ""
    engine: str = ""
    side: str = ""
    turn: int = 0
    seconds: float = 0.0
    durable_seconds: float = 0.0
    io_seconds: float = 0.0
    system_seconds: float = 0.0
    allocate_seconds: float = 0.0
    load: float = 0.0


Side = Callable[[], Row]


class Clock:
    """When the study is to end: turns are left out rather than time overrun.

    Args:
        minutes: from now.
    """

    def __init__(self, minutes: float) -> None:
        self._begin = time.monotonic()
        self._end = self._begin + 60 * minutes

    def is_over(self) -> bool:
        """Whether nothing more is to be started that can be left out."""
        return time.monotonic() > self._end

    def say(self, *words: object) -> None:
        """Tell of the progress."""
        print(f"{time.monotonic() - self._begin:6.0f} s ", *words, file=sys.stderr, flush=True)


def take_turns(
    part: str, engine: str, sides: Mapping[str, Side], turns: int, clock: Clock
) -> list[Row]:
    """Run every side once per turn, in random order; at least two turns, then while there is time.

    Args:
        part, engine: of the rows.
        sides: what to run, by its name in the rows.
        turns: how many.
        clock: when to stop.
    """
    rows: list[Row] = []
    order = list(sides)
    begin = time.monotonic()
    done = 0
    for turn in range(turns):
        if turn >= min(2, turns) and clock.is_over():
            break
        random.shuffle(order)
        found = {}
        for side in order:
            found[side] = replace(
                sides[side](),
                part=part,
                engine=engine,
                side=side,
                turn=turn,
                load=os.getloadavg()[0],
            )
        rows += [found[side] for side in sides]
        done += 1
    each = (time.monotonic() - begin) / max(done, 1)
    clock.say(part, engine, f"{done} turns of {len(sides)} runs, {each:.1f} s each")
    return rows


def fastest_side(rows: Sequence[Row]) -> str:
    """Return the side whose median time until durable is least; of equals the first."""
    return min(
        dict.fromkeys(row.side for row in rows),
        key=lambda s: statistics.median(r.durable_seconds for r in rows if r.side == s),
    )


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    """Write rows; what was there goes."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Row)], lineterminator="\n")
        writer.writeheader()
        for row in rows:
            values = asdict(row)
            shown = {k: f"{v:.6f}" if isinstance(v, float) else v for k, v in values.items()}
            writer.writerow(shown)


def read_rows(path: Path) -> list[Row]:
    """Return the rows that were written."""
    kinds = {name: type(default) for name, default in asdict(Row()).items()}
    with path.open(newline="") as file:
        return [
            Row(**{name: kinds[name](value) for name, value in line.items()})
            for line in csv.DictReader(file)
        ]
