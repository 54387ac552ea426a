"""How like the recording a replay was, request by request."""

from dataclasses import dataclass

import numpy as np

from iotrace.replay.job import DATA_OPS, is_op
from iotrace.replay.pieces import Ints, Rows
from iotrace.replay.plan import Plan
from iotrace.replay.statistics import latency_us
from iotrace.traces.phases import ends_ns
from iotrace.traces.trace import Trace

# These leave every request what it was.
_KEEPING = ("recorded", "select", "buffered")


@dataclass(frozen=True)
class Pair:
    """One figure of the recording and of the replay."""

    recorded: dict[str, float]
    replayed: dict[str, float]


@dataclass(frozen=True)
class Fidelity:
    """A replay beside its recording; percentiles are in microseconds.

    Attributes:
        requests: that were compared: all that have a row in the recording.
        order_inversions: requests that started before one that was recorded to start earlier.
        result_mismatches: reads and writes that moved another number of bytes.
        inter_arrival_us: time from one start to the next, over all ranks.
        latency_us: of reads and writes.
        in_flight: reads and writes in flight while there were any, mean and most.
    """

    requests: int
    order_inversions: int
    result_mismatches: int
    inter_arrival_us: Pair
    latency_us: Pair
    in_flight: Pair


def compare_requests(plan: Plan, timings: Rows, recording: Trace) -> Fidelity | None:
    """Return how like `recording` a run of `plan` was; None when it was not meant to be.

    Args:
        plan: made of `recording`; a transformed one has other requests.
        timings: TIMING rows of the plan's requests.
        recording: with all columns.
    """
    if any(applied.name not in _KEEPING for applied in plan.history):
        return None
    source = plan.requests["source_row"]
    used = (source >= 0) & (timings["start_ns"] > 0)
    row, done = source[used], timings[used]
    op = plan.requests["op"][used]
    data = is_op(op, DATA_OPS)
    start_ns, end_ns = recording.ints("start_ns")[row], ends_ns(recording)[row]
    known = recording.valid("end_ns")[row] & data
    in_order = np.argsort(start_ns, kind="stable")
    told = recording.valid("result")[row] & data
    moved = recording.ints("result", null=0)[row]
    return Fidelity(
        requests=int(used.sum()),
        order_inversions=_inversions(done["start_ns"][in_order]),
        result_mismatches=int((told & (moved != done["result"])).sum()),
        inter_arrival_us=Pair(_gaps(start_ns), _gaps(done["start_ns"])),
        latency_us=Pair(
            latency_us((end_ns - start_ns)[known]),
            latency_us((done["end_ns"] - done["start_ns"])[data]),
        ),
        in_flight=Pair(
            _in_flight(start_ns[known], end_ns[known]),
            _in_flight(done["start_ns"][data], done["end_ns"][data]),
        ),
    )


def _inversions(start_ns: Ints) -> int:
    """Return how many of the starts, given in recorded order, lie before one given earlier."""
    return int((start_ns < np.maximum.accumulate(start_ns)).sum())


def _gaps(start_ns: Ints) -> dict[str, float]:
    in_order = np.sort(start_ns)
    return latency_us(in_order[1:] - in_order[:-1])


def _in_flight(start_ns: Ints, end_ns: Ints) -> dict[str, float]:
    """Return the mean while any, and the most, of the intervals that overlap."""
    if not len(start_ns):
        return {"mean": 0.0, "max": 0}
    times = np.concatenate([end_ns, start_ns])  # of equal times, ends count first
    order = np.argsort(times, kind="stable")
    count = np.cumsum(np.where(order < len(end_ns), -1, 1))
    spans = np.diff(times[order]).astype(np.float64)
    busy = count[:-1] > 0
    busy_ns = float(spans[busy].sum())
    used_ns = float((spans * count[:-1])[busy].sum())
    return {"mean": used_ns / busy_ns if busy_ns else 1.0, "max": max(1, int(count.max()))}
