"""From a plan to a job: fences, times, and the evictions that make reads cold."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from iotrace.replay.barriers import places_of
from iotrace.replay.evictions import find_evictions
from iotrace.replay.fences import find_fences
from iotrace.replay.grouping import grouped
from iotrace.replay.job import PIECE, Fence, Job, Op, fence_counts
from iotrace.replay.pieces import (
    HOLE,
    Ints,
    Rows,
    pieces_in_place,
    request_index,
    spread,
)
from iotrace.replay.plan import Plan
from iotrace.replay.rows import ROW, lowered
from iotrace.traces.errors import PlanError

TIMINGS = ("asap", "think", "recorded")

_ZEROS, _UNCHECKED = -1, -2  # `file` of a piece without payload, as the loop knows them


@dataclass(frozen=True, eq=False)
class Schedule:
    """A job, and where its requests come from.

    Attributes:
        job: what an executor runs.
        origin: per request of the job, the plan's request; -1: an eviction.
    """

    job: Job
    origin: Ints


def schedule(
    plan: Plan,
    queue_depth: int = 1,
    timing: str = "asap",
    time_scale: float = 1.0,
    warm: bool = False,
    checked: bool = False,
) -> Schedule:
    """Return the job of a plan.

    Args:
        plan: a valid plan.
        queue_depth: requests in flight per stream that the job is meant for.
        timing: `asap`: each request as soon as it may; `think`: after the recorded pause;
            `recorded`: not before its recorded time.
        time_scale: recorded pauses and times are multiplied by it.
        warm: leave in the page cache what it holds; else files are evicted before a load.
        checked: keep unwanted bytes of reads apart, so that a comparison leaves them out.

    Raises:
        PlanError: there is no such timing.
    """
    if timing not in TIMINGS:
        raise PlanError(f"no timing {timing!r}; choose one of {', '.join(TIMINGS)}")
    requests, origin, barrier, paths = _with_evictions(plan, warm)
    barrier[np.flatnonzero(origin >= 0)[places_of(plan.barriers_ns, plan.requests)]] = True
    for name, mode in (("due_ns", "recorded"), ("think_ns", "think")):
        requests[name] = requests[name] * time_scale if timing == mode else 0
    domain, fence = find_fences(requests, plan.pieces, len(plan.files), queue_depth)
    requests, pieces = _with_pieces(requests, plan, checked)
    requests["file"] = domain
    requests["fence"] = np.where(barrier, Fence.ALL, fence)
    counts = fence_counts(requests)
    for name, column in zip(("file_before", "file_fences", "global_fences"), counts, strict=True):
        requests[name] = column
    order = grouped(requests["stream"])
    starts = np.searchsorted(requests["stream"][order], np.arange(len(plan.streams) + 1))
    leads = np.array([stream.leads for stream in plan.streams], np.int32)
    job = Job(
        requests=requests,
        pieces=pieces,
        stream_order=order,
        stream_starts=starts.astype(np.int64),
        paths=paths,
        handle_count=plan.handle_count,
        file_count=int(domain.max(initial=-1)) + 1,
        stream_leads=leads if leads.max(initial=-1) >= 0 else None,
    )
    return Schedule(job, origin)


def _with_evictions(
    plan: Plan, warm: bool
) -> tuple[Rows, Ints, npt.NDArray[np.bool_], tuple[str, ...]]:
    """Return the requests with evictions among them, origins, which are barriers, and paths."""
    count = len(plan.requests)
    if warm:
        return lowered(plan.requests), np.arange(count), np.zeros(count, np.bool_), plan.paths
    evictions = find_evictions(plan.requests, plan.paths)
    added = len(evictions.requests)
    if not added:
        return lowered(plan.requests), np.arange(count), np.zeros(count, np.bool_), plan.paths
    origin = np.insert(np.arange(count), evictions.place, -1)
    rows = np.empty(count + added, ROW)
    rows.put(np.flatnonzero(origin < 0), evictions.requests)
    rows.put(np.flatnonzero(origin >= 0), plan.requests)
    barrier = np.zeros(len(origin), np.bool_)
    barrier[origin < 0] = evictions.is_barrier
    return lowered(rows), origin, barrier, evictions.paths


def _with_pieces(requests: Rows, plan: Plan, checked: bool) -> tuple[Rows, Rows]:
    """Return requests and pieces as the loop takes them: payload, zeros, and unchecked bytes."""
    counts = requests["piece_count"].astype(np.int64)
    line = plan.pieces.take(spread(requests["first_piece"], counts))
    owner = request_index(requests)
    if plan.payload_is_placed:
        _number_by_place(requests, plan.pieces, line, owner)
    of_read = (requests["op"] == Op.READ)[owner]
    if not checked:
        owner, line = _absorb(owner, line, of_read)
    else:
        kind = line["file"]
        line["file"] = np.where((kind < 0) & of_read & (kind != HOLE), _UNCHECKED, kind.clip(-1))
    requests["piece_count"] = np.bincount(owner, minlength=len(requests))
    requests["first_piece"] = np.cumsum(requests["piece_count"]) - requests["piece_count"]
    return requests, line


def _number_by_place(requests: Rows, pieces: Rows, line: Rows, owner: Ints) -> None:
    payload = line["file"] >= 0
    line["offset"][payload] = pieces_in_place(requests, pieces)[2][payload]
    line["file"][payload] = requests["file"][owner[payload]]


def _absorb(owner: Ints, line: Rows, of_read: Ints) -> tuple[Ints, Rows]:
    """Let a read's bytes without payload land beside its payload: a piece more is a copy more.

    Only where bytes land depends on it; what lies before a payload piece goes before it.
    """
    if not len(line):
        return owner, line
    payload = line["file"] >= 0
    new_request = np.concatenate([[True], owner[1:] != owner[:-1]])
    if new_request.all():
        line["file"][~payload], line["offset"][~payload] = _ZEROS, 0
        return owner, line
    seen = np.cumsum(payload & of_read)
    seen_before = seen - (payload & of_read)
    at_start = np.maximum.accumulate(np.where(new_request, seen_before, 0))
    # Pieces before a request's first payload join it; the others join the payload they follow.
    begins = new_request | ~of_read | (payload & (seen_before > at_start))
    first = np.flatnonzero(begins)
    group = np.cumsum(begins) - 1
    joined = np.zeros(len(first), PIECE)
    joined["length"] = np.add.reduceat(line["length"], first)
    joined["file"] = np.where(line["file"][first] < 0, _ZEROS, line["file"][first])
    joined["offset"] = np.where(payload[first], line["offset"][first], 0)
    leading = np.flatnonzero(payload & ~begins)
    if len(leading):
        before = np.cumsum(line["length"]) - line["length"]
        ahead = before[leading] - before[first[group[leading]]]
        joined["file"][group[leading]] = line["file"][leading]
        joined["offset"][group[leading]] = (line["offset"][leading] - ahead).clip(0)
    return owner[first], joined
