"""All that is known of why the saves and loads of a trace took as long as they did."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from iotrace.traces.checkpoint_steps import checkpoint_steps
from iotrace.traces.counters import EXIT_READ, SpanCounters, counters_of_spans, last_counters
from iotrace.traces.paging import Paging, paging, was_in_memory
from iotrace.traces.phases import Phase
from iotrace.traces.requests import Requests
from iotrace.traces.schema import COLUMNS
from iotrace.traces.trace import Trace
from iotrace.traces.verdict.amplification import Amplification, amplification
from iotrace.traces.verdict.background import Background, background
from iotrace.traces.verdict.durability import Durability, durability
from iotrace.traces.verdict.episodes import Episode, find_episodes, read_spans
from iotrace.traces.verdict.failures import Failures, find_failures
from iotrace.traces.verdict.memory import Memory, memory
from iotrace.traces.verdict.shape import Shape, shape_of
from iotrace.traces.verdict.slowest import Slowest, find_slowest
from iotrace.traces.verdict.split import RankSplit, slowest, split

# All that a verdict is made of; the rest of a large trace need not be in memory.
VERDICT_COLUMNS = tuple(
    name for name in COLUMNS if name not in ("api", "offset_source", "address", "device")
)
SHAPED_OPS = ("write", "read", "sync")


@dataclass(frozen=True, eq=False)
class Finding:
    """What is known of one save or load.

    Attributes:
        split: wall time of each process.
        slowest_rank: the one that the others wait for.
        shapes: of its requests, by op; an op that does not occur is missing.
        durability, background: of a save only.
        ops: how often each op occurs.
        memory: what it left there, where that was counted.
        paging: what came in through mapped files, where these had page faults.
        is_in_memory: whether all that a load mapped was in the page cache before.
    """

    episode: Episode
    split: tuple[RankSplit, ...]
    slowest_rank: RankSplit
    shapes: Mapping[str, Shape]
    amplification: Amplification
    slowest: Slowest
    durability: Durability | None
    background: Background | None
    ops: Mapping[str, int]
    memory: Memory | None
    paging: Paging | None
    is_in_memory: bool

    @property
    def seconds(self) -> float:
        """Wall time of it; of an asynchronous save, without the time that the job went on."""
        behind = self.background is not None and self.background.asynchronous
        return self.slowest_rank.seconds if behind else self.episode.seconds

    @property
    def away_seconds(self) -> float:
        """How much of it the slowest rank was in no call of the engine and had nothing in flight.

        It began later than another, or the job went on with its own work: between calls, or until
        it used the last of what the load had mapped.
        """
        return max(0.0, self.seconds - self.slowest_rank.seconds)

    @property
    def data(self) -> Shape | None:
        """The shape of the requests that move its data."""
        return self.shapes.get("write" if self.episode.phase == Phase.SAVE else "read")

    @property
    def moved_bytes(self) -> int:
        """Bytes of its requests, and those that page faults on mapped files read."""
        paged = self.paging.read_bytes if self.paging else None
        return self.episode.moved_bytes + (paged or 0)

    @property
    def imbalance(self) -> float | None:
        """Most bytes of a rank over the mean of all; `None` for one process."""
        sizes = [one.bytes for one in self.split]
        mean = sum(sizes) / len(sizes)
        return max(sizes) / mean if len(sizes) > 1 and mean else None


@dataclass(frozen=True, eq=False)
class Verdict:
    """Why a job's checkpoints took as long as they did.

    Attributes:
        requests: of the whole trace; `findings` one per save and load, in order of start.
        is_replay: whether they are replayed ones: no engine issued them.
        processes, ranks: how many have rows; no ranks outside a launcher.
        failures: what went wrong, over the whole trace.
        problems: what the trace is known to lack; figures are then lower bounds.
        cached_read_share: least part of the bytes read that came from the page cache, by the
            kernel's count of bytes fetched from storage; `None` where that is known of no process.
        mapped_only: files that were mapped, whose reads may not have been seen.
        counters: last value of each counter, added over processes.
    """

    requests: Requests
    is_replay: bool
    processes: int
    ranks: int
    findings: tuple[Finding, ...]
    failures: Failures
    problems: tuple[str, ...]
    cached_read_share: float | None
    mapped_only: int
    counters: Mapping[str, int]

    def of(self, phase: Phase) -> tuple[Finding, ...]:
        """Return the saves, or the loads."""
        return tuple(f for f in self.findings if f.episode.phase == phase)


def examine(trace: Trace) -> Verdict:
    """Return the verdict on `trace`; it needs `VERDICT_COLUMNS`."""
    requests = Requests.of(trace)
    steps = checkpoint_steps(trace, requests.phase, requests.step, requests.rank, requests.moved)
    episodes = find_episodes(requests, read_spans(trace), steps)
    counters = last_counters(trace)
    exits = counters.get(EXIT_READ, {})
    around: defaultdict[tuple[str, int], list[SpanCounters]] = defaultdict(list)
    for one in counters_of_spans(trace):
        around[one.op, one.step].append(one)
    tensors = trace.layer("tensor")  # each episode looks through them
    return Verdict(
        requests=requests,
        processes=len(trace.distinct("process")),
        ranks=len(trace.distinct("rank")),
        is_replay=bool(len(requests)) and not trace.row_mask(layer="request").any(),
        findings=tuple(
            _finding(episode, tensors, around.get((episode.name, episode.step), ()), exits)
            for episode in episodes
        ),
        failures=find_failures(requests, tensors),
        problems=tuple(trace.metadata.completeness.problems()),
        cached_read_share=_cached_read_share(requests, exits),
        mapped_only=_mapped_only(requests),
        counters=MappingProxyType({name: sum(own.values()) for name, own in counters.items()}),
    )


def _finding(
    episode: Episode,
    tensors: Trace,
    counters: Sequence[SpanCounters],
    exits: Mapping[int, int],
) -> Finding:
    splits = split(episode, tensors, counters)
    requests = episode.requests
    shapes = {op: found for op in SHAPED_OPS if (found := shape_of(requests, op))}
    is_save = episode.phase == Phase.SAVE
    counts = np.bincount(requests.op[requests.op >= 0], minlength=len(requests.ops)).tolist()
    ops = {op: count for op, count in zip(requests.ops, counts, strict=True) if count}
    return Finding(
        episode=episode,
        split=splits,
        slowest_rank=slowest(splits),
        shapes=MappingProxyType(shapes),
        amplification=amplification(episode, tensors),
        slowest=find_slowest(episode, tensors),
        durability=durability(episode) if is_save else None,
        background=background(episode) if is_save else None,
        ops=MappingProxyType(dict(sorted(ops.items(), key=lambda item: -item[1]))),
        memory=memory(counters, tensors.metadata),
        paging=None if is_save else paging(requests, counters, exits),
        is_in_memory=not is_save and was_in_memory(requests, counters),
    )


def _cached_read_share(requests: Requests, fetched: Mapping[int, int]) -> float | None:
    """Return the part of the reads that storage cannot have served.

    The count of storage reads, by process, is of all of it, its libraries included, and of a
    process that was killed there is none: the part is a lower bound.
    """
    reads = requests.is_op("read")
    moved, process = requests.moved[reads], requests.process[reads]
    total = int(moved.sum())
    if not fetched or not total:
        return None
    processes, owner = np.unique(process, return_inverse=True)
    own = zip(processes.tolist(), np.bincount(owner, weights=moved).tolist(), strict=True)
    return float(sum(max(0.0, size - fetched.get(one, size)) for one, size in own)) / total


def _mapped_only(requests: Requests) -> int:
    seen = np.unique(requests.file[requests.is_op("read", "fault")])
    unseen = requests.is_op("map") & ~np.isin(requests.file, seen) & (requests.file >= 0)
    return len(np.unique(requests.identity[unseen]))
