"""The tables of docs/study.md, from the rows of a study.

    python -m tests.bench.study.tables ROWS [DOCUMENT]

Prints them, or puts each in its place in the document: between `<!-- NAME -->` and `<!-- end -->`.
Times are medians in seconds with the least and the most. Ratios are medians over the turns of the
ratio within a turn, with a 95 % bootstrap interval (of fewer than 6 turns, the least and the most,
and how many they are); of sides that took no turns, the ratio of the medians.
"""

from __future__ import annotations

import re
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path

from iotrace.replay.statistics import INTERVAL_RUNS, estimate
from iotrace.traces.words import plural

from .engine import ENGINES
from .rows import Row, fastest_side, read_rows

Number = Callable[[Row], float]


def durable(row: Row) -> float:
    """Seconds until durable."""
    return row.durable_seconds


def requests(row: Row) -> float:
    """Seconds in which a request was under way."""
    return row.io_seconds


def kernel(row: Row) -> float:
    """Seconds that the kernel worked."""
    return row.system_seconds


@dataclass(frozen=True)
class Rows:
    """Rows to ask of."""

    rows: tuple[Row, ...]

    def of(self, part: str, engine: str = "", side: str = "") -> list[Row]:
        """Return the rows of a part, in the order of turns."""
        return [
            row
            for row in self.rows
            if (row.part, row.engine) == (part, engine) and side in ("", row.side)
        ]

    def sides(self, part: str, engine: str = "") -> list[str]:
        """Return the sides of a part."""
        return list(dict.fromkeys(row.side for row in self.of(part, engine)))

    def engines(self, part: str) -> list[str]:
        """Return the engines of a part, in the study's order."""
        there = {row.engine for row in self.rows if row.part == part}
        return [engine for engine in ENGINES if engine in there]

    def time(self, part: str, engine: str, side: str, number: Number = durable) -> str:
        """Return a median with its range, as a cell."""
        values = [number(row) for row in self.of(part, engine, side)]
        if not values:
            return "-"
        return f"{statistics.median(values):.3f} [{min(values):.3f}, {max(values):.3f}]"

    def ratio(
        self, part: str, engine: str, above: str, below: str, number: Number = durable
    ) -> str:
        """Return the ratio of two sides with its interval, as a cell."""
        ratios = self.ratios(part, engine, above, below, number)
        if not ratios:
            return "-"
        found = estimate(ratios)
        return f"{found.median:.2f} [{found.low:.2f}, {found.high:.2f}]{_few(ratios)}"

    def ratios(self, part: str, engine: str, above: str, below: str, number: Number) -> list[float]:
        """Return the ratios of two sides within each turn; none where one was not run."""
        over, under = self.of(part, engine, above), self.of(part, engine, below)
        pairs = zip(over, under, strict=True) if over and under else ()
        return [number(a) / number(b) for a, b in pairs if number(b)]

    def share_of_call(self, part: str, engine: str) -> str:
        """Return the requests' share of the captured calls, as a cell."""
        own = self.of(part, engine, "captured")
        if not own:
            return "-"
        shares = [row.io_seconds / row.seconds for row in own]
        share = statistics.median(shares)
        return f"{share:.0%}" if share <= 1 else "-"  # the call did not wait for them


def table(heads: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Return a table."""
    rule = "|".join("---" for _ in heads)
    return "\n".join(f"| {' | '.join(line)} |" for line in (heads, *lines)).replace(
        "\n", f"\n|{rule}|\n", 1
    )


def engines_table(rows: Rows) -> str:
    """Engines against the best transform."""
    return table(
        ("engine", "call returns", "durable", "best transform", "engine / best"),
        (
            (
                engine,
                rows.time("pairs", engine, "engine", lambda row: row.seconds),
                *(rows.time("pairs", engine, side) for side in ("engine", "best")),
                rows.ratio("pairs", engine, "engine", "best"),
            )
            for engine in rows.engines("pairs")
        ),
    )


def blocks_table(rows: Rows) -> str:
    """The best transform against fio, each into new files and over old blocks."""
    pairs = (("best", "fio, new file"), ("best, over old", "fio"))
    return table(
        (
            *("engine", "best, new files", "fio, new file", "fio / best"),
            *("best, over old blocks", "fio, over old blocks", "fio / best"),
        ),
        (
            (
                engine,
                *(
                    cell
                    for best, fio in pairs
                    for cell in (
                        rows.time("pairs", engine, best),
                        rows.time("pairs", engine, fio),
                        rows.ratio("pairs", engine, fio, best),
                    )
                ),
            )
            for engine in rows.engines("pairs")
        ),
    )


def limits_table(rows: Rows) -> str:
    """What was to be reached, by engine, and whether it was."""
    old, new, near = "over old blocks", "into new files", "within 15 %"
    plain, paused = ("as recorded", "captured", requests), ("with pauses", "captured", requests)
    aims: tuple[tuple[str, str, str, str, Number, float, float], ...] = (
        (f"{old} at 0.95 of fio's rate", "pairs", "fio", "best, over old", durable, 0.95, inf),
        (f"{new} at 0.95 of fio's rate", "pairs", "fio, new file", "best", durable, 0.95, inf),
        (f"replay {near}", "pairs", *plain, 0.85, 1.15),
        (f"replay with pauses {near}", "pairs", *paused, 0.85, 1.15),
        (f"replay {near}, memory kept", "kept", *plain, 0.85, 1.15),
        (f"replay with pauses {near}, memory kept", "kept", *paused, 0.85, 1.15),
    )
    engines = rows.engines("pairs")
    return table(
        ("reached, by the median of the turns' ratios", *engines),
        (
            (
                name,
                *(
                    _reached(rows.ratios(part, engine, above, below, number), least, most)
                    for engine in engines
                ),
            )
            for name, part, above, below, number, least, most in aims
        ),
    )


def _reached(ratios: Sequence[float], least: float, most: float) -> str:
    if not ratios:
        return "-"
    median = statistics.median(ratios)
    return f"{'yes' if least <= median <= most else 'no'}, {median:.2f}{_few(ratios)}"


def _few(ratios: Sequence[float]) -> str:
    """Return of how many turns ratios are where an interval cannot be told of them."""
    return f", {plural(len(ratios), 'turn')}" if len(ratios) < INTERVAL_RUNS else ""


def recorded_table(rows: Rows, part: str) -> str:
    """Replays as recorded against the requests' time in the capture."""
    sides = ("captured", "as recorded", "with pauses")
    heads = (
        *("engine", "of its call", "its requests", "replay", "with pauses"),
        *("replay / engine", "with pauses / engine"),
    )
    return table(
        heads,
        (
            (
                engine,
                rows.share_of_call(part, engine),
                *(rows.time(part, engine, side, requests) for side in sides),
                *(rows.ratio(part, engine, side, "captured", requests) for side in sides[1:]),
            )
            for engine in rows.engines(part)
        ),
    )


def memory_table(rows: Rows) -> str:
    """Saves and replays that find memory of the last, whatever is free, and what was taken back."""
    save, again = "captured", "as recorded"
    return table(
        (
            *("engine", "free memory", "its requests", "replay", "kernel, save", "kernel, replay"),
            *("replay / engine", "of the kernel's time"),
        ),
        (
            (
                *(engine, state),
                *(
                    rows.time(part, engine, side, number)
                    for number in (requests, kernel)
                    for side in (save, again)
                ),
                *(rows.ratio(part, engine, again, save, number) for number in (requests, kernel)),
            )
            for engine in rows.engines("memory pause")
            for part, state in (
                ("pairs", "of the one before"),
                ("memory", "as it comes"),
                ("memory pause", "after a pause"),
            )
        ),
    )


def fio_table(rows: Rows) -> str:
    """What each factor does for fio."""
    parts = list(dict.fromkeys(row.part for row in rows.rows if row.part.startswith("fio ")))
    return table(
        ("varied", "fio", "until durable"),
        (
            (part.removeprefix("fio ").replace("_", " "), side, rows.time(part, "", side))
            for part in parts
            for side in rows.sides(part)
        ),
    )


def varied_table(rows: Rows, part: str) -> str:
    """Depths at one size, sizes at one depth, or places at both."""
    sides = [side for engine in rows.engines(part)[:1] for side in rows.sides(part, engine)]
    names = [f"{int(side) >> 10} KiB" for side in sides] if part == "size" else sides
    depth = ("depth",) if part == "size" else ()
    return table(
        ("engine", *depth, *names),
        (
            (
                engine,
                *(fastest_side(rows.of("depth", engine)) for _ in depth),
                *(rows.time(part, engine, side) for side in sides),
            )
            for engine in rows.engines(part)
        ),
    )


def factors_table(rows: Rows, part: str) -> str:
    """Replays, factor by factor."""
    engines = rows.engines(part)
    sides = rows.sides(part, engines[0]) if engines else []
    lines = [[side, *(rows.time(part, engine, side) for engine in engines)] for side in sides]
    if part == "restore":
        fresh = "as recorded, fresh memory"
        cells = (
            rows.time(part, engine, fresh, lambda row: row.allocate_seconds) for engine in engines
        )
        lines.append(["getting that memory", *cells])
    return table((part, *engines), lines)


def loads_table(rows: Rows) -> str:
    """The load average of each part, and the turns of what has fewest of them and most."""
    parts = dict.fromkeys(row.part.split()[0] for row in rows.rows)
    return table(
        ("part", "turns", "load"),
        (
            (
                part,
                _range(Counter((row.part, row.engine, row.side) for row in own).values()),
                f"{min(row.load for row in own):.1f} to {max(row.load for row in own):.1f}",
            )
            for part in parts
            for own in [[row for row in rows.rows if row.part.split()[0] == part]]
        ),
    )


def _range(counts: Collection[int]) -> str:
    least, most = min(counts), max(counts)
    return f"{least}" if least == most else f"{least} to {most}"


TABLES: dict[str, Callable[[Rows], str]] = {
    "engines": engines_table,
    "blocks": blocks_table,
    "limits": limits_table,
    "recorded": lambda rows: recorded_table(rows, "pairs"),
    "kept": lambda rows: recorded_table(rows, "kept"),
    "memory": memory_table,
    "fio": fio_table,
    "depth": lambda rows: varied_table(rows, "depth"),
    "size": lambda rows: varied_table(rows, "size"),
    "align": lambda rows: varied_table(rows, "align"),
    "save": lambda rows: factors_table(rows, "save"),
    "restore": lambda rows: factors_table(rows, "restore"),
    "load": loads_table,
}


def filled(document: str, rows: Rows) -> str:
    """Return a document with its tables made anew."""

    def made(place: re.Match[str]) -> str:
        return f"<!-- {place[1]} -->\n{TABLES[place[1]](rows)}\n<!-- end -->"

    return re.sub(r"<!-- (\w+) -->\n.*?<!-- end -->", made, document, flags=re.DOTALL)


def main() -> None:
    """Print the tables, or fill a document."""
    rows = Rows(tuple(read_rows(Path(sys.argv[1]))))
    if len(sys.argv) > 2:
        path = Path(sys.argv[2])
        path.write_text(filled(path.read_text(), rows))
        return
    for name, make in TABLES.items():
        print(f"{name}:\n\n{make(rows)}\n")


if __name__ == "__main__":
    main()
