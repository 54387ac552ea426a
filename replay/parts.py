"""A recording in parts, each small enough for a plan of its own."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from iotrace.replay.quiet_points import QuietPoints
from iotrace.traces.batches import Batches
from iotrace.traces.merge import merge_traces
from iotrace.traces.reader import read_trace
from iotrace.traces.trace import Trace

LEAST_ROWS = 200_000  # a plan of so many takes some 60 MB
_AT_A_TIME = 1 << 18  # rows that are looked through: they take several times what they are
# All that a plan and the totals of a recording are made of.
_COLUMNS = ("end_ns", "path", "target", "file", "offset", "length", "result", "flags", "step")

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, eq=False)
class Part:
    """Rows that follow each other.

    Attributes:
        rows: of the recording.
        before: how many rows of it lie before these.
        folders: see `plan_from_trace`.
    """

    rows: Trace
    before: int = 0
    folders: frozenset[str] = frozenset()


def parts_of(
    location: str | Path,
    least_rows: int = LEAST_ROWS,
    progress: Progress = lambda stage, done, total: None,
) -> Iterator[Part]:
    """Yield a recording in parts that can be planned one by one, with the same sums.

    A part ends at the first quiet point, see `QuietPoints`, behind `least_rows`. There is one part
    alone, as `read_trace` gives it, of a short recording, of several files, hosts or clocks, of
    ranks that waited for each other at barriers, and of one that is not in order.

    Args:
        location: as of `read_trace`.
        least_rows: of each part but the last.
        progress: called with a stage, the rows that it has done, and how many there are.

    Raises:
        TraceFormatError: as `read_trace`.
        PlanError: there are numbers no file could have.
    """
    batches = Batches(location, _COLUMNS)
    known = batches.metadata
    cuts: list[int] = []
    end = 0
    folders: frozenset[str] = frozenset()
    if batches.is_whole and batches.rows > least_rows and len(known.hosts) < 2 > known.clocks:
        points = QuietPoints()
        for rows in batches:
            for first in range(0, len(rows), _AT_A_TIME):
                points.add(rows.between(first, min(first + _AT_A_TIME, len(rows))))
            progress("look", points.rows, batches.rows)
            if points.size_bytes > batches.limit_bytes:
                break  # the reader knows what to say of so much
        else:
            cuts, folders, end = points.cuts(least_rows), points.folders, points.rows
        del points
    if not cuts:
        yield Part(read_trace(location, _COLUMNS))
        return
    for before, rows in _cut(batches, [*cuts, end]):
        yield Part(rows, before, folders)
        progress("plan", before + len(rows), end)


def _cut(batches: Batches, cuts: list[int]) -> Iterator[tuple[int, Trace]]:
    """Yield the rows before each cut, and how many lie before these; the last is behind all."""
    held: list[Trace] = []
    begin = read = 0
    ends = iter(cuts)
    end = next(ends, None)
    for rows in batches:
        first = 0
        while end is not None and read + len(rows) >= end:
            held.append(rows.between(first, end - read))
            yield begin, merge_traces(held)
            first, held, begin, end = end - read, [], end, next(ends, None)
        held.append(rows.between(first, len(rows)))
        batches.refuse_over(sum(one.size_bytes for one in held))
        read += len(rows)
