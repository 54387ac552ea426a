"""Which worker runs which streams: one per recorded rank, or several ranks folded onto fewer."""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from iotrace.replay.job import Job
from iotrace.replay.pieces import Ints
from iotrace.replay.plan import Stream
from iotrace.replay.requests import Requests
from iotrace.traces.errors import PlanError
from iotrace.traces.words import plural

# Unasked: processes beyond this cost the machine more than they tell about its storage.
MAX_WORKERS = 256
MOST_RANKS = 1 << 14  # of 100,000, folding and starting took half a minute without a word


@dataclass(frozen=True, eq=False)
class Fold:
    """A map from streams to workers.

    Attributes:
        worker: per stream, its worker; -1: the stream is empty.
        names: per worker, whose requests it runs, such as `rank 3`.
        degraded: what is done otherwise than asked, in words.
    """

    worker: Ints
    names: tuple[str, ...]
    degraded: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        """Number of workers."""
        return len(self.names)

    def share(self, job: Job, worker: int) -> Job:
        """Return the part of `job` that is left to one worker: the other streams are empty."""
        own = self.worker == worker
        lengths = np.where(own, np.diff(job.stream_starts), 0)
        order = job.stream_order[np.repeat(own, np.diff(job.stream_starts))]
        starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        return replace(job, stream_order=order, stream_starts=starts)


def fold(streams: Sequence[Stream], requests: Requests, workers: int | None = None) -> Fold:
    """Return which worker runs which stream.

    The streams of a rank, or of a process outside any launcher, stay together, and so do ranks
    that use one open file: a descriptor cannot be in two processes.

    Args:
        streams: of the plan.
        requests: of the plan, in order of issue.
        workers: how many to use at most; None: one per rank, and processes outside any launcher
            one after the other in as few as never run two that did overlap.

    Raises:
        PlanError: there are too many ranks, and nobody said how many workers may run them.
    """
    owners = [(stream.rank, -1) if stream.rank >= 0 else (-1, stream.process) for stream in streams]
    used = np.unique(requests["stream"]).tolist()
    groups = sorted({owners[stream] for stream in used}, key=lambda o: (o[0] < 0, o))
    number = {owner: i for i, owner in enumerate(groups)}
    group = np.array([number.get(owner, -1) for owner in owners], np.int64)
    ranks = sum(rank >= 0 for rank, _ in groups)
    label = _joined_by_handles(requests, group, len(groups))
    parts, part = np.unique(label, return_inverse=True)
    wanted = len(parts)
    degraded = []
    if wanted < len(groups):
        degraded.append(
            f"{plural(len(groups) - wanted, 'worker')} less than ranks: "
            "ranks that share an open file run in one process"
        )
    limit = MAX_WORKERS if workers is None else workers
    if workers is None:
        part = _one_after_the_other(part[group[requests["stream"]]], parts < ranks)[part]
        wanted = int(part.max(initial=-1)) + 1
        if wanted > MOST_RANKS:
            raise PlanError(
                f"{wanted:,} ranks are more than one machine should replay unasked; say how many "
                f"workers they share, such as --workers {MAX_WORKERS}"
            )
        if wanted > limit:
            degraded.append(
                f"{wanted} ranks run in {limit} workers; ask for as many with --workers"
            )
    count = min(limit, wanted)
    place = part * count // max(wanted, 1)
    members: list[list[tuple[int, int]]] = [[] for _ in range(count)]
    for owner, worker in zip(groups, place.tolist(), strict=True):
        members[worker].append(owner)
    worker = np.where(group >= 0, np.append(place, -1)[group], -1)
    empty = ~np.isin(np.arange(len(streams)), used)
    worker[empty] = -1
    return Fold(worker, tuple(map(_name, members)), tuple(degraded))


def _one_after_the_other(part: Ints, is_rank: npt.NDArray[np.bool_]) -> Ints:
    """Return a worker for each part: a rank's is its own, others take turns in one.

    Args:
        part: per request, whose it is.
        is_rank: per part.
    """
    first, last = np.full(len(is_rank), len(part)), np.full(len(is_rank), -1)
    place = np.arange(len(part))
    np.minimum.at(first, part, place)
    np.maximum.at(last, part, place)
    worker = np.cumsum(is_rank) - 1
    count = int(is_rank.sum())
    busy: list[tuple[int, int]] = []  # the last request of each worker's, and the worker
    for number in np.flatnonzero(~is_rank)[np.argsort(first[~is_rank])].tolist():
        if busy and busy[0][0] < first[number]:
            worker[number] = heapq.heapreplace(busy, (int(last[number]), busy[0][1]))[1]
        else:
            worker[number] = count
            heapq.heappush(busy, (int(last[number]), count))
            count += 1
    return worker


def _joined_by_handles(requests: Requests, group: Ints, count: int) -> Ints:
    """Return the lowest group that each group shares open files with, over any number of them."""
    label = np.arange(count)
    by_handle = requests["handle"] >= 0
    handle, owner = requests["handle"][by_handle], group[requests["stream"][by_handle]]
    handles = int(handle.max(initial=-1)) + 1
    least, most = np.full(handles, count), np.full(handles, -1)
    np.minimum.at(least, handle, owner)
    np.maximum.at(most, handle, owner)
    shared = (most >= 0) & (least < most)
    chosen = shared[handle]
    pairs = np.unique(np.stack([least[handle[chosen]], owner[chosen]]), axis=1)
    while True:
        lowest = label.copy()
        np.minimum.at(lowest, pairs[1], label[pairs[0]])
        np.minimum.at(lowest, pairs[0], label[pairs[1]])
        lowest = lowest[lowest]
        if np.array_equal(lowest, label):
            return label
        label = lowest


def _name(owners: list[tuple[int, int]]) -> str:
    """Return `rank 3`, `ranks 0 to 3`, `process 2` or `process 2 and 7 others`."""
    ranks = [rank for rank, _ in owners if rank >= 0]
    kind, numbers = ("rank", ranks) if ranks else ("process", [process for _, process in owners])
    if len(numbers) == 1:
        return f"{kind} {numbers[0]}"
    if numbers[-1] - numbers[0] >= len(numbers):
        return f"{kind} {numbers[0]} and {plural(len(numbers) - 1, 'other')}"
    return f"{kind}{'es' if kind == 'process' else 's'} {numbers[0]} to {numbers[-1]}"
