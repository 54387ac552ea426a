"""Which bytes a job read that it had not written: they were there before, or are holes."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from iotrace.replay.intervals import Coverage, Ints
from iotrace.traces.intervals import Intervals

READ, WRITE, CUT, ZERO = 0, 1, 2, 3

EVENT = np.dtype(
    [("index", "<i8"), ("file", "<i8"), ("kind", "<i8"), ("start", "<i8"), ("end", "<i8")]
)
Hole = tuple[int, int, int]  # index of the event's request, start, end


@dataclass(frozen=True, eq=False)
class Unwritten:
    """What reads found without a write before them.

    Attributes:
        initial_bytes: per file, the least size it must have had before.
        holes: parts of reads that found zeros: the file had been emptied, cut or punched there.
    """

    initial_bytes: Ints
    holes: tuple[Hole, ...]


def make_events(
    index: Ints, file: npt.ArrayLike, kind: npt.ArrayLike, start: npt.ArrayLike, end: npt.ArrayLike
) -> npt.NDArray[np.void]:
    """Return EVENT rows; the `end` of a CUT is the file's new size."""
    events = np.zeros(len(index), EVENT)
    events["index"], events["file"], events["kind"] = index, file, kind
    events["start"], events["end"] = start, end
    return events


def find_unwritten(events: npt.NDArray[np.void], file_count: int) -> Unwritten:
    """Return what the reads found that no earlier write explains.

    Args:
        events: EVENT rows in order of time.
        file_count: number of files.
    """
    initial_bytes = np.zeros(file_count, np.int64)
    holes: list[Hole] = []
    order = np.argsort(events["file"], kind="stable")
    events = events.take(order)
    starts = np.flatnonzero(np.concatenate([[True], np.diff(events["file"]) != 0]))
    reads = np.add.reduceat(events["kind"] == READ, starts) if len(events) else starts
    bounds = np.concatenate([starts, [len(events)]])
    for group in np.flatnonzero(reads).tolist():
        own = events[bounds[group] : bounds[group + 1]]
        file = int(own["file"][0])
        known = _all_initial(own)
        if known is None and not _all_written(own):
            known, found = _walk(own)
            holes += found
        initial_bytes[file] = known or 0
    return Unwritten(initial_bytes, tuple(holes))


def _all_initial(events: npt.NDArray[np.void]) -> int | None:
    """Return the size to have been there, of a file that is only read."""
    only_reads = bool(np.all(events["kind"] == READ))
    return int(events["end"].max()) if only_reads else None


def _all_written(events: npt.NDArray[np.void]) -> bool:
    """Return whether the file was written first, and then read as far as it was written."""
    reads = events["kind"] == READ
    first_read = int(np.argmax(reads))
    if not reads[first_read:].all():
        return False
    if np.any(events["kind"] == ZERO):
        return False
    cuts = np.flatnonzero(events["kind"] == CUT)
    if np.any(events["end"][cuts] > 0):
        return False
    written = events[cuts[-1] + 1 if len(cuts) else 0 : first_read]
    covered = Intervals.of(written["start"], written["end"])
    asked = Intervals.of(events["start"][reads], events["end"][reads])
    return not asked.without(covered).total


def _walk(events: npt.NDArray[np.void]) -> tuple[int, list[Hole]]:
    """Follow one file through time."""
    written, zeroed = Coverage(), Coverage()
    initial = 0
    limit = int(np.iinfo(np.int64).max)  # what was there before ends here at the latest
    holes: list[Hole] = []
    columns = (events[name].tolist() for name in ("index", "kind", "start", "end"))
    for index, kind, start, end in zip(*columns, strict=True):
        if kind == WRITE:
            written.add(start, end)
            zeroed.remove(start, end)
        elif kind == CUT:
            written.cut_to(end)
            zeroed.cut_to(end)
            limit = min(limit, end)
        elif kind == ZERO:  # of what was there, or had been written, still the size counts
            zeroed.add(start, end)
        else:
            empty = Coverage()
            for low, high in zeroed.parts(start, end):
                empty.add(low, high)
            for low, high in written.missing(start, end):
                if low < limit:
                    initial = max(initial, min(high, limit))
                if high > limit:
                    empty.add(max(low, limit), high)
            holes += [(index, low, high) for low, high in empty.parts(start, end)]
    return initial, holes
