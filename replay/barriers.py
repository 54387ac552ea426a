"""Where all ranks waited for each other: what came before is done before what came after begins."""

import numpy as np

from iotrace.replay.pieces import Ints
from iotrace.replay.recorded import Recorded
from iotrace.replay.requests import Requests
from iotrace.traces.phases import ends_ns
from iotrace.traces.trace import Trace

OVERTAKEN = "barriers of all ranks not kept, for requests in flight meanwhile"


def find_barriers(trace: Trace, recorded: Recorded) -> tuple[Ints, int]:
    """Return when barriers of all ranks were passed, and how many are not kept.

    A barrier is one `barrier` span of each rank that has requests, all of them overlapping. It is
    passed when the last rank comes to it. One that requests were in flight across ordered only
    some of the threads, and the trace does not tell which.

    Args:
        trace: whose spans they are.
        recorded: its requests.

    Returns:
        Times since the trace's epoch, ascending, in ns, and a number.
    """
    none = np.zeros(0, np.int64)
    spans = trace.where(trace.row_mask(layer="span", op="barrier"))
    if not len(spans):
        return none, 0
    ranks = np.unique(recorded["rank"])
    ranks = ranks[ranks >= 0]
    if len(ranks) < 2:
        return none, 0
    rank, start, end = spans.ints("rank"), spans.ints("start_ns"), ends_ns(spans)
    own = [np.flatnonzero(rank == one) for one in ranks.tolist()]
    fewest = min(own, key=len)
    passed, met = start[fewest].copy(), np.ones(len(fewest), np.bool_)
    for rows in own:
        if not len(rows):
            return none, 0
        last = np.searchsorted(start[rows], end[fewest], side="right") - 1
        theirs = rows[last.clip(0)]
        met &= (last >= 0) & (end[theirs] >= start[fewest])
        passed = np.maximum(passed, start[theirs])
    passed = np.unique(passed[met])
    # In flight at a time: begun before it, and not ended by then.
    begun = np.searchsorted(recorded["start_ns"], passed)
    ended = np.searchsorted(np.sort(recorded["end_ns"]), passed, side="right")
    return passed[begun <= ended], int((begun > ended).sum())


def places_of(barriers_ns: Ints, requests: Requests) -> Ints:
    """Return the first request after each barrier, ascending; a barrier behind all has none.

    Args:
        barriers_ns: times of barriers, as the `due_ns` of requests count.
        requests: in order of issue.
    """
    if not len(barriers_ns):
        return np.zeros(0, np.int64)
    due_ns = np.maximum.accumulate(requests["due_ns"])
    places = np.unique(np.searchsorted(due_ns, barriers_ns))
    return places[(places > 0) & (places < len(requests))]
