"""From a plan to a job: fences, times, and the evictions that make reads cold."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from iotrace.replay.barriers import places_of
from iotrace.replay.evictions import find_evictions
from iotrace.replay.fences import find_fences
from iotrace.replay.grouping import grouped
from iotrace.replay.job import Fence, Job, Op, fence_counts
from iotrace.replay.pieces import HOLE, Ints, Pieces, pieces_in_place
from iotrace.replay.plan import Plan
from iotrace.replay.requests import Requests
from iotrace.traces.errors import PlanError

TIMINGS = ("asap", "think", "recorded")

_ZEROS, _UNCHECKED = -1, -2  # `file` of a piece without payload, as the loop knows them


@dataclass(frozen=True, eq=False)
class Schedule:
    """A job, and where its requests come from.

    Attributes:
        job: what an executor runs.
        origin: per request of the job, the plan's request; -1: an eviction, or the sync before it.
        requests: the same by columns, on the plan's files.
    """

    job: Job
    origin: Ints
    requests: Requests


def schedule(
    plan: Plan,
    queue_depth: int = 1,
    timing: str = "asap",
    time_scale: float = 1.0,
    warm: bool = False,
    checked: bool = False,
    cache: Ints | None = None,
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
        cache: per stream, the number of the page cache that its requests go through; None: there
            is one.

    Raises:
        PlanError: there is no such timing.
    """
    if timing not in TIMINGS:
        raise PlanError(f"no timing {timing!r}; choose one of {', '.join(TIMINGS)}")
    planned, origin, barrier, paths = _with_evictions(plan, warm, cache)
    barrier[np.flatnonzero(origin >= 0)[places_of(plan.barriers_ns, plan.requests)]] = True
    domain, fence = find_fences(planned, plan.pieces, len(plan.files), queue_depth)
    planned, pieces = _with_pieces(planned, plan, checked)
    times = {"due_ns": "recorded", "think_ns": "think"}
    requests = planned.having(
        file=domain,
        **{
            name: (planned[name] * time_scale).astype(np.int64) if timing == mode else 0
            for name, mode in times.items()
        },
    ).lowered()
    requests["fence"] = np.where(barrier, Fence.ALL, fence)
    counts = fence_counts(requests)
    for name, column in zip(("file_before", "file_fences", "global_fences"), counts, strict=True):
        requests[name] = column
    order = grouped(requests["stream"])
    starts = np.searchsorted(requests["stream"][order], np.arange(len(plan.streams) + 1))
    leads = np.array([stream.leads for stream in plan.streams], np.int32)
    job = Job(
        requests=requests,
        pieces=pieces.lowered(),
        stream_order=order,
        stream_starts=starts.astype(np.int64),
        paths=paths,
        handle_count=plan.handle_count,
        file_count=int(domain.max(initial=-1)) + 1,
        stream_leads=leads if leads.max(initial=-1) >= 0 else None,
    )
    return Schedule(job, origin, planned)


def _with_evictions(
    plan: Plan, warm: bool, cache: Ints | None
) -> tuple[Requests, Ints, npt.NDArray[np.bool_], tuple[str, ...]]:
    """Return the requests with evictions among them, origins, which are barriers, and paths."""
    count = len(plan.requests)
    cache = np.zeros(len(plan.streams), np.int64) if cache is None else cache
    evictions = None if warm else find_evictions(plan.requests, plan.paths, cache)
    if evictions is None or not len(evictions.requests):
        return plan.requests, np.arange(count), np.zeros(count, np.bool_), plan.paths
    origin = np.insert(np.arange(count), evictions.place, -1)
    own = np.flatnonzero(origin < 0)
    requests = Requests.placed(
        [evictions.requests, plan.requests], [own, np.flatnonzero(origin >= 0)]
    )
    barrier = np.zeros(len(origin), np.bool_)
    barrier[own] = evictions.is_barrier
    return requests, origin, barrier, evictions.paths


def _with_pieces(requests: Requests, plan: Plan, checked: bool) -> tuple[Requests, Pieces]:
    """Return requests and pieces as the loop takes them: payload, zeros, and unchecked bytes."""
    line, owner, place = pieces_in_place(requests, plan.pieces)
    if plan.payload_is_placed:
        payload = line["file"] >= 0
        file = requests["file"][owner[payload]]
        line = line.having_at(payload, offset=place[payload], file=file)
    of_read = (requests["op"] == Op.READ)[owner]
    if not checked:
        owner, line = _absorb(owner, line, of_read)
    else:
        kind = line["file"]
        unseen = (kind < 0) & of_read & (kind != HOLE)
        line = line.having(file=np.where(unseen, _UNCHECKED, kind.clip(-1)))
    counts = np.bincount(owner, minlength=len(requests))
    return requests.having(piece_count=counts, first_piece=np.cumsum(counts) - counts), line


def _absorb(owner: Ints, line: Pieces, of_read: Ints) -> tuple[Ints, Pieces]:
    """Let a read's bytes without payload land beside its payload: a piece more is a copy more.

    Only where bytes land depends on it; what lies before a payload piece goes before it.
    """
    if not len(line):
        return owner, line
    file, offset, length = (line[name] for name in ("file", "offset", "length"))
    payload = file >= 0
    new_request = np.concatenate([[True], owner[1:] != owner[:-1]])
    if new_request.all():
        return owner, line.having_at(~payload, file=_ZEROS, offset=0)
    seen = np.cumsum(payload & of_read)
    seen_before = seen - (payload & of_read)
    at_start = np.maximum.accumulate(np.where(new_request, seen_before, 0))
    # Pieces before a request's first payload join it; the others join the payload they follow.
    begins = new_request | ~of_read | (payload & (seen_before > at_start))
    first = np.flatnonzero(begins)
    group = np.cumsum(begins) - 1
    source, at = file[first].clip(_ZEROS), np.where(payload[first], offset[first], 0)
    leading = np.flatnonzero(payload & ~begins)
    if len(leading):
        before = np.cumsum(length) - length
        ahead = before[leading] - before[first[group[leading]]]
        source[group[leading]] = file[leading]
        at[group[leading]] = (offset[leading] - ahead).clip(0)
    joined = Pieces.of(len(first), file=source, offset=at, length=np.add.reduceat(length, first))
    return owner[first], joined
