"""Where the wall time of a save or load goes: requests, syncs, other ranks, and the rest."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from iotrace.traces.columns import IntArray
from iotrace.traces.counters import SpanCounters
from iotrace.traces.intervals import Intervals
from iotrace.traces.requests import Requests
from iotrace.traces.trace import Trace
from iotrace.traces.verdict.episodes import Episode, Span, processes_of

_WAITING_SPANS = ("barrier",)
_CPU = ("user_cpu_ns", "system_cpu_ns")
_QUEUED = "processor_wait_ns"


@dataclass(frozen=True)
class RankSplit:
    """How one process spent its part of a save or load. The five times add up to `seconds`.

    Attributes:
        rank: -1 outside a launcher.
        process: index into the metadata's processes.
        seconds: in calls of the engine or with a request in flight; where no call was seen, from
            the first request to the end of the last.
        io_seconds: at least one request in flight that is no sync.
        sync_seconds: only syncs in flight.
        rank_seconds: nothing in flight, and another rank is not as far: before the last rank
            has begun, or after this one's last data while another still has some to move.
        fault_seconds: nothing in flight and not sure to have been on a processor, in calls of the
            engine that had page faults and brought something in from storage: at most so long it
            waited for these pages, and for what was read ahead. No single fault tells how long
            it took.
        between_seconds: nothing in flight, otherwise.
        computing_seconds: how much of these two the process was on a processor, at least and at
            most: the kernel counts all its threads, and the requests' own time too; `None`: not
            known.
        queued_seconds: how much more of them no processor was free, at most; 0 where not known.
        gap_seconds: longest part of that at one time, and `gap_before` the request that ended it.
        requests: how many of its requests `io_seconds` and `sync_seconds` are the time of.
        bytes: written by a save, read by a load.
        last_data_ns: end of its last request on a file that holds tensors (on any, where none
            is known to); its start where it has none.
        window: its first start and last end, in ns.
    """

    rank: int
    process: int
    seconds: float
    io_seconds: float
    sync_seconds: float
    rank_seconds: float
    fault_seconds: float
    between_seconds: float
    computing_seconds: tuple[float, float] | None
    queued_seconds: float
    gap_seconds: float
    gap_before: str | None
    requests: int
    bytes: int
    last_data_ns: int
    window: tuple[int, int]

    @property
    def waiting_seconds(self) -> float:
        """What is sure to have been a wait for something else than storage or a processor."""
        if self.computing_seconds is None:
            return 0.0
        return max(0.0, self.between_seconds - self.computing_seconds[1] - self.queued_seconds)

    @property
    def name(self) -> str:
        """Return `rank 3`, or `process 3` outside a launcher."""
        return f"rank {self.rank}" if self.rank >= 0 else f"process {self.process}"


def split(
    episode: Episode, trace: Trace, counters: Sequence[SpanCounters] = ()
) -> tuple[RankSplit, ...]:
    """Return the split of each process of an episode, in order of process.

    What a coordinator writes when all data are there (a manifest) must not make it look as if it
    had worked until then: `trace` tells which files hold tensors. `counters` are those around
    the episode's spans.
    """
    own = _own(episode)
    processes = list(own)
    timed: defaultdict[int, list[SpanCounters]] = defaultdict(list)
    for one in counters:
        if all(name in one.before and name in one.after for name in _CPU):
            timed[one.process].append(one)
    starts = {p: _first_ns(requests, spans) for p, (requests, spans) in own.items()}
    last_begin_ns = max(starts.values())
    data_files = _files_with_tensors(episode, trace)
    lasts = {p: _last_ns(own[p][0], data_files, starts[p]) for p in processes}
    return tuple(
        _split_one(
            episode,
            process,
            own[process],
            begun_ns=starts[process],
            all_begun_ns=last_begin_ns,
            last_ns=lasts[process],
            others_last_ns=max((lasts[p] for p in processes if p != process), default=0),
            counters=timed.get(process, ()),
        )
        for process in processes
    )


def slowest(splits: tuple[RankSplit, ...]) -> RankSplit:
    """Return the process that the others have to wait for: the last to end its data."""
    return max(splits, key=lambda one: one.last_data_ns)


def _own(episode: Episode) -> dict[int, tuple[Requests, list[Span]]]:
    """Return the requests and the spans of each process, in order of process."""
    requests = episode.requests
    spans: defaultdict[int, list[Span]] = defaultdict(list)
    for span in episode.spans:
        spans[span.process].append(span)
    processes = processes_of(episode)
    order = np.argsort(requests.process, kind="stable")  # of each process in order of time
    parts = np.split(order, np.searchsorted(requests.process[order], processes[1:]))
    return {
        process: (requests.where(rows), spans[process])
        for process, rows in zip(processes.tolist(), parts, strict=True)
    }


def _first_ns(requests: Requests, spans: list[Span]) -> int:
    starts = [span.start_ns for span in spans]
    starts += [int(requests.start_ns[0])] if len(requests) else []
    return min(starts)


def _files_with_tensors(episode: Episode, trace: Trace) -> IntArray:
    """Return the codes of the paths that hold tensors of the episode."""
    tensors = trace.where(trace.row_mask(layer="tensor", op=episode.name))
    codes, texts = tensors.codes("path")
    holding = {texts[code] for code in np.unique(codes[codes >= 0]).tolist()}
    places = [i for i, path in enumerate(episode.requests.homes) if path in holding]
    return np.array(places, np.int64)


def _last_ns(requests: Requests, data_files: IntArray, begin_ns: int) -> int:
    lasting = ~requests.is_op("unmap", "close")
    of_data = lasting & np.isin(requests.home, data_files)
    chosen = of_data if of_data.any() else lasting
    return int(requests.end_ns[chosen].max(initial=begin_ns))


def _split_one(
    episode: Episode,
    process: int,
    own: tuple[Requests, list[Span]],
    *,
    begun_ns: int,
    all_begun_ns: int,
    last_ns: int,
    others_last_ns: int,
    counters: Sequence[SpanCounters],
) -> RankSplit:
    requests, spans = own
    used = _used(counters)
    lasting = ~requests.is_op("unmap", "close")
    ends = [int(requests.end_ns[lasting].max(initial=begun_ns)), *(s.end_ns for s in spans)]
    end_ns = min(max(ends), episode.end_ns)
    window = Intervals.single(begun_ns, end_ns)
    if spans:  # what the job does between an asynchronous save and the wait for it is its own
        called = Intervals.of(
            np.array([span.start_ns for span in spans], np.int64),
            np.array([span.end_ns for span in spans], np.int64),
        )
        window = called.also(Intervals.of(requests.start_ns, requests.end_ns)).within(window)
    syncs = requests.is_op("sync")
    io = Intervals.of(requests.start_ns[~syncs], requests.end_ns[~syncs]).within(window)
    sync = Intervals.of(requests.start_ns[syncs], requests.end_ns[syncs]).within(window)
    sync = sync.without(io)
    idle = window.without(io).without(sync)
    first_ns = int(requests.start_ns[0]) if len(requests) else end_ns
    waiting = Intervals.single(begun_ns, min(first_ns, all_begun_ns))
    waiting = waiting.also(Intervals.single(last_ns, others_last_ns))
    barriers = [span for span in spans if span.op in _WAITING_SPANS]
    waiting = waiting.also(
        Intervals.of(
            np.array([span.start_ns for span in barriers], np.int64),
            np.array([span.end_ns for span in barriers], np.int64),
        )
    )
    rank_wait = idle.within(waiting)
    gap_ns, gap_before = _longest_gap(idle.without(rank_wait), requests)
    op = "write" if episode.name == "save" else "read"
    ranks = {*requests.rank.tolist(), *(span.rank for span in spans)}
    between = (idle.total - rank_wait.total) / 1e9
    computing = None if used is None else _computing(between, used, io.total / 1e9)
    queued = faulted = 0.0
    if used is not None and computing is not None:
        queued = min(used[2], between - computing[1])
        if any(one.was_fetched for one in counters) and _faults_within(requests, spans):
            faulted = between - computing[0]
    return RankSplit(
        rank=max(ranks, default=-1),
        process=process,
        seconds=window.total / 1e9,
        io_seconds=io.total / 1e9,
        sync_seconds=sync.total / 1e9,
        rank_seconds=rank_wait.total / 1e9,
        fault_seconds=faulted,
        between_seconds=between - faulted,
        computing_seconds=computing,
        queued_seconds=queued,
        gap_seconds=gap_ns / 1e9,
        gap_before=gap_before,
        requests=int((requests.start_ns < end_ns).sum()),
        bytes=int(requests.moved[requests.is_op(op)].sum()),
        last_data_ns=last_ns,
        window=(begun_ns, end_ns),
    )


def _faults_within(requests: Requests, spans: list[Span]) -> bool:
    """Return whether a page of a mapped file was missing while a call went on."""
    at_ns = requests.start_ns[requests.is_op("fault")]
    return any(((at_ns >= one.start_ns) & (at_ns <= one.end_ns)).any() for one in spans)


def _used(own: Sequence[SpanCounters]) -> tuple[float, float, float] | None:
    """Return seconds on a processor in the engine's calls (own, kernel) and waiting for one."""
    if not own:
        return None
    user, system = (sum(one.after[name] - one.before[name] for one in own) / 1e9 for name in _CPU)
    queued = sum(one.after.get(_QUEUED, 0) - one.before.get(_QUEUED, 0) for one in own) / 1e9
    return user, system, max(0.0, queued)


def _computing(
    between: float, used: tuple[float, float, float], io_seconds: float
) -> tuple[float, float]:
    """Return the least and the most of the time between requests that was spent computing."""
    user, system, _ = used
    # The kernel's time in requests: between none (they waited) and all of theirs (they copied).
    return min(between, user + max(0.0, system - io_seconds)), min(between, user + system)


def _longest_gap(idle: Intervals, requests: Requests) -> tuple[int, str | None]:
    """Return the longest interval in ns, and in words the request that begins at its end."""
    if not len(idle.starts):
        return 0, None
    place = int((idle.ends - idle.starts).argmax())
    row = int(np.searchsorted(requests.start_ns, idle.ends[place]))
    length = int(idle.ends[place] - idle.starts[place])
    if row >= len(requests):
        return length, None
    path = requests.path_of(row)
    name = path.rpartition("/")[2] if path else ""
    return length, f"{requests.ops[int(requests.op[row])]} {name}".rstrip()
