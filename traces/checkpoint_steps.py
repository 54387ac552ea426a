"""Which saves and loads a trace holds: what every command counts."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from iotrace.traces.columns import IntArray
from iotrace.traces.phases import Phase, PhaseArray
from iotrace.traces.trace import Trace

# Spans and tensors of each; a copy before an asynchronous save is of its step.
MARKS = {
    Phase.SAVE: ("save", "stage", "commit", "wait"),
    Phase.LOAD: ("load", "allocate"),
}
NO_STEP = -1  # I/O of no engine: all that a job saves, or loads, is one
# Such I/O beside an engine's, or of a launcher: below this share of the bytes it is no checkpoint.
_NOTEWORTHY_SHARE = 0.01


def checkpoint_steps(
    trace: Trace, phase: PhaseArray, step: IntArray, rank: IntArray, moved: IntArray
) -> Mapping[Phase, tuple[int, ...]]:
    """Return the steps of the saves and of the loads, sorted.

    They are those that spans and tensors name, or else requests do. Requests without a step are
    one more (`NO_STEP`), if no engine is seen at all, or if they move a noteworthy share of the
    bytes.

    Args:
        trace: with the spans and tensors.
        phase, step, rank, moved: of each request; -1 where unknown, and the bytes it moved.
    """
    marks = trace.row_mask(layer=("span", "tensor")) & trace.valid("step")
    is_marked = bool(marks.any())
    is_engine_seen = is_marked or bool((step >= 0).any())
    has_ranks, total = bool((rank >= 0).any()), int(moved.sum())
    found = {}
    for one, ops in MARKS.items():
        own = phase == one
        if is_marked:
            steps = trace.ints("step")[marks & trace.row_mask(op=ops)]
        else:
            steps = step[own & (step >= 0)]
        listed = np.unique(steps).tolist()
        rest = own & (step < 0)
        beside = is_engine_seen or (has_ranks and not (rank[rest] >= 0).any())
        if rest.any() and not (beside and moved[rest].sum() <= _NOTEWORTHY_SHARE * total):
            listed.insert(0, NO_STEP)
        found[one] = tuple(listed)
    return found
