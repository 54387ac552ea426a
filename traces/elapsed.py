"""How long saving or loading took: one definition for what was recorded and what is replayed."""

import numpy as np

from iotrace.traces.columns import IntArray, Mask
from iotrace.traces.intervals import Intervals

# Of requests that no engine's save or load holds together: longer, and the job did something else.
PAUSE_NS = 100_000_000
NONE = Intervals(np.empty(0, np.int64), np.empty(0, np.int64))


def steps_seconds(
    step: IntArray, start_ns: IntArray, end_ns: IntArray, lingers: Mask, others: Intervals = NONE
) -> float:
    """Return the time that requests took, in seconds.

    Each step counts from the first start to the last end of its requests, over all its processes,
    whatever the engine did between them; the times of steps are added. What closes or unmaps a
    file later than that counts by itself: it is when the job lets go of the data. Requests without
    a step count with the gaps between them up to `PAUSE_NS`: a log's may be hours apart. What
    others did in such a gap, from first to last, is none of it: reading went on, and not saving.

    Args:
        step: number of the checkpoint; negative: none.
        start_ns, end_ns: of the requests, at one clock; an end is no earlier than its start.
        lingers: which requests close or unmap a file.
        others: when requests of the other direction were in flight, see `timed`.

    >>> step, start_ns = np.array([0, 0, 0, -1]), np.array([0, 5, 90, 500])
    >>> end_ns, lingers = np.array([9, 7, 92, 501]), np.array([0, 0, 1, 0], bool)
    >>> round(steps_seconds(step, start_ns, end_ns, lingers) * 1e9)
    12
    """
    held = (step >= 0) & ~lingers
    names, group = np.unique(step, return_inverse=True)
    first_ns = np.full(len(names), np.iinfo(np.int64).max)
    last_ns = np.full(len(names), np.iinfo(np.int64).min)
    np.minimum.at(first_ns, group[held], start_ns[held])
    np.maximum.at(last_ns, group[held], end_ns[held])
    seen = last_ns >= first_ns
    windows_ns = float((last_ns[seen].astype(np.float64) - first_ns[seen]).sum())
    after = (step >= 0) & lingers & (end_ns > last_ns[group])
    after_ns = busy_ns(np.maximum(start_ns, last_ns[group])[after], end_ns[after])
    outside = step < 0
    outside_ns = busy_ns(start_ns[outside], end_ns[outside], PAUSE_NS)
    if len(others.starts) and outside.any():
        outside_ns -= _others_ns(start_ns[outside], end_ns[outside], others)
    return (windows_ns + after_ns + outside_ns) / 1e9


def directed_seconds(
    saves: Mask,
    reads: Mask,
    *,
    reading: bool,
    step: IntArray,
    start_ns: IntArray,
    end_ns: IntArray,
    lingers: Mask,
) -> float:
    """Return how long writing or reading took, see `steps_seconds`, in seconds.

    A read is one whatever it serves: those of a save count with the reads, by the time that they
    take, and writing is what the rest of the save takes.

    Args:
        saves: which requests are of saving; the rest are of loading.
        reads: which requests read.
        reading: whether the time of reading is asked for.
        step, start_ns, end_ns, lingers: of each.
    """
    read = ~saves | reads
    own, other = (read, ~read) if reading else (~read, read)
    return steps_seconds(
        np.where(saves & reads, -1, step)[own],
        start_ns[own],
        end_ns[own],
        lingers[own],
        Intervals.of(start_ns[other], end_ns[other]),
    )


def _others_ns(start_ns: IntArray, end_ns: IntArray, others: Intervals) -> int:
    """Return how long others were at it in the gaps that count: in each from first to last."""
    order = np.argsort(start_ns, kind="stable")
    begin, end = np.maximum.accumulate(end_ns[order])[:-1], start_ns[order][1:]
    gap_ns = end.astype(np.float64) - begin
    begin, end = (bound[(gap_ns > 0) & (gap_ns <= PAUSE_NS)] for bound in (begin, end))
    first = np.searchsorted(others.ends, begin, "right")
    last = np.searchsorted(others.starts, end, "left") - 1
    begin, end, first, last = (each[first <= last] for each in (begin, end, first, last))
    spent = np.minimum(others.ends[last], end) - np.maximum(others.starts[first], begin)
    return int(spent.sum())


def busy_ns(start_ns: IntArray, end_ns: IntArray, pause_ns: int = 0) -> float:
    """Return how long any interval lasted, overlaps counted once, in nanoseconds.

    Args:
        start_ns, end_ns: the intervals, in any order.
        pause_ns: gaps up to this long count too.
    """
    if not len(start_ns):
        return 0.0
    order = np.argsort(start_ns, kind="stable")
    start_ns, end_ns = start_ns[order], np.maximum.accumulate(end_ns[order])
    gaps_ns = start_ns[1:].astype(np.float64) - end_ns[:-1]
    return float(end_ns[-1]) - float(start_ns[0]) - float(gaps_ns[gaps_ns > pause_ns].sum())
