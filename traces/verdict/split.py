"""Where the wall time of a save or load goes: requests, syncs, other ranks, and the rest."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from iotrace.traces.columns import IntArray
from iotrace.traces.counters import SpanCounters
from iotrace.traces.intervals import Intervals
from iotrace.traces.lanes import Lanes
from iotrace.traces.requests import Requests
from iotrace.traces.trace import Trace
from iotrace.traces.verdict.episodes import Episode
from iotrace.traces.verdict.members import Members

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
        outer_faults: page faults while no call went on: what was mapped was used later.
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
    outer_faults: int
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


@dataclass(frozen=True, eq=False)
class _Times:
    """When each process began, issued its first request, moved its last data, and ended, in ns.

    `others_last` is when the last of the other processes moved its last data.
    """

    begun: IntArray
    first: IntArray
    last: IntArray
    others_last: IntArray
    end: IntArray


@dataclass(frozen=True, eq=False)
class _Parts:
    """How long each process did what, in ns, and its longest time of nothing.

    `gap_row` is the request that ended this, -1 without one. `inner_faults` counts the pages of
    mapped files that were missing while a call went on, `outer_faults` the others.
    """

    window: IntArray
    io: IntArray
    sync: IntArray
    rank_wait: IntArray
    gap: IntArray
    gap_row: IntArray
    inner_faults: IntArray
    outer_faults: IntArray


def split(
    episode: Episode, trace: Trace, counters: Sequence[SpanCounters] = ()
) -> tuple[RankSplit, ...]:
    """Return the split of each process of an episode, in order of process.

    What a coordinator writes when all data are there (a manifest) must not make it look as if it
    had worked until then: `trace` tells which files hold tensors. `counters` are those around
    the episode's spans.
    """
    timed: defaultdict[int, list[SpanCounters]] = defaultdict(list)
    for one in counters:
        if all(name in one.before and name in one.after for name in _CPU):
            timed[one.process].append(one)
    members = Members.of(episode)
    times = _times(members, _files_with_tensors(episode, trace), episode.end_ns)
    parts = _parts(members, times)
    requests = members.requests
    counts = members.counted(requests.start_ns < times.end[members.of_request])
    sizes = members.moved_bytes("write" if episode.name == "save" else "read")
    found = []
    for i, process in enumerate(members.processes.tolist()):
        own = timed.get(process, ())
        used = _used(own)
        io_seconds = int(parts.io[i]) / 1e9
        idle_ns = int(parts.window[i] - parts.io[i] - parts.sync[i])
        between = (idle_ns - int(parts.rank_wait[i])) / 1e9
        computing = None if used is None else _computing(between, used, io_seconds)
        queued = faulted = 0.0
        if used is not None and computing is not None:
            queued = min(used[2], between - computing[1])
            if any(one.was_fetched for one in own) and parts.inner_faults[i]:
                faulted = between - computing[0]
        found.append(
            RankSplit(
                rank=int(members.ranks[i]),
                process=process,
                seconds=int(parts.window[i]) / 1e9,
                io_seconds=io_seconds,
                sync_seconds=int(parts.sync[i]) / 1e9,
                rank_seconds=int(parts.rank_wait[i]) / 1e9,
                fault_seconds=faulted,
                between_seconds=between - faulted,
                computing_seconds=computing,
                queued_seconds=queued,
                gap_seconds=int(parts.gap[i]) / 1e9,
                gap_before=_named(requests, int(parts.gap_row[i])),
                outer_faults=int(parts.outer_faults[i]),
                requests=int(counts[i]),
                bytes=int(sizes[i]),
                last_data_ns=int(times.last[i]),
                window=(int(times.begun[i]), int(times.end[i])),
            )
        )
    return tuple(found)


def slowest(splits: tuple[RankSplit, ...]) -> RankSplit:
    """Return the process that the others have to wait for: the last to end its data."""
    return max(splits, key=lambda one: one.last_data_ns)


def _files_with_tensors(episode: Episode, trace: Trace) -> IntArray:
    """Return the codes of the paths that hold tensors of the episode."""
    tensors = trace.where(trace.row_mask(layer="tensor", op=episode.name))
    codes, texts = tensors.codes("path")
    holding = {texts[code] for code in np.unique(codes[codes >= 0]).tolist()}
    places = [i for i, path in enumerate(episode.requests.homes) if path in holding]
    return np.array(places, np.int64)


def _times(members: Members, data_files: IntArray, episode_end_ns: int) -> _Times:
    requests, of_request = members.requests, members.of_request
    begun = members.begun_ns()
    lasting = ~requests.is_op("unmap", "close")
    of_data = lasting & np.isin(requests.home, data_files)
    has_data = members.counted(of_data) > 0
    last = members.ended_ns(of_data | (lasting & ~has_data[of_request]), begun)
    end = members.ended_ns(lasting, begun)
    np.maximum.at(end, members.of_span, members.span_end_ns)
    end = np.minimum(end, episode_end_ns)
    has_any = np.bincount(of_request, minlength=len(members)) > 0
    first = end.copy()
    rows = np.searchsorted(of_request, np.flatnonzero(has_any))
    first[has_any] = requests.start_ns[rows]
    others_last = np.zeros(len(members), np.int64)
    if len(members) > 1:
        top = int(last.argmax())
        others_last[:] = last[top]
        others_last[top] = np.delete(last, top).max()
    return _Times(begun, first, last, others_last, end)


def _parts(members: Members, times: _Times) -> _Parts:
    requests, of_request = members.requests, members.of_request
    of_span, span_start, span_end = members.of_span, members.span_start_ns, members.span_end_ns
    each = np.arange(len(members))
    awaited = np.minimum(times.first, times.begun.max())
    lanes = Lanes.of(
        len(members),
        *(requests.start_ns, requests.end_ns, span_start, span_end),
        *(times.begun, times.last, times.others_last, times.end, awaited),
    )
    # What the job does between an asynchronous save and the wait for it is its own.
    is_called = np.bincount(of_span, minlength=len(members)) > 0
    called = is_called[of_request]
    window = lanes.intervals(
        np.r_[of_span, of_request[called]],
        np.r_[span_start, requests.start_ns[called]],
        np.r_[span_end, requests.end_ns[called]],
    ).within(lanes.intervals(each, times.begun, times.end))
    alone = ~is_called
    window = window.also(lanes.intervals(each[alone], times.begun[alone], times.end[alone]))
    syncs = requests.is_op("sync")
    io, sync = (
        lanes.intervals(of_request[chosen], requests.start_ns[chosen], requests.end_ns[chosen])
        for chosen in (~syncs, syncs)
    )
    io = io.within(window)
    sync = sync.within(window).without(io)
    idle = window.without(io).without(sync)
    barrier = members.is_span("barrier")
    waiting = lanes.intervals(
        np.r_[each, each, of_span[barrier]],
        np.r_[times.begun, times.last, span_start[barrier]],
        np.r_[awaited, times.others_last, span_end[barrier]],
    )
    rank_wait = idle.within(waiting)
    gap, gap_row = _longest_gaps(lanes, idle.without(rank_wait), members)
    faults = np.flatnonzero(requests.is_op("fault"))
    # A call's last instant is in it.
    calls = Intervals.of(lanes.at(of_span, span_start), lanes.at(of_span, span_end) + 1)
    in_call = calls.contains(lanes.at(of_request[faults], requests.start_ns[faults]))
    inner, outer = (
        np.bincount(of_request[faults[chosen]], minlength=len(members))
        for chosen in (in_call, ~in_call)
    )
    return _Parts(
        window=lanes.totals_ns(window),
        io=lanes.totals_ns(io),
        sync=lanes.totals_ns(sync),
        rank_wait=lanes.totals_ns(rank_wait),
        gap=gap,
        gap_row=gap_row,
        inner_faults=inner,
        outer_faults=outer,
    )


def _longest_gaps(lanes: Lanes, idle: Intervals, members: Members) -> tuple[IntArray, IntArray]:
    """Return the longest interval of each process in ns, and the request at its end, or -1."""
    gap, gap_row = np.zeros(len(members), np.int64), np.full(len(members), -1)
    lane, length = lanes.lane_of(idle), lanes.lengths_ns(idle)
    by_length = np.lexsort((-length, lane))
    longest = by_length[np.diff(lane[by_length], prepend=-1) > 0]
    gap[lane[longest]] = length[longest]
    starts = lanes.at(members.of_request, members.requests.start_ns)
    row = np.searchsorted(starts, idle.ends[longest])
    is_own = np.append(members.of_request, -1)[row] == lane[longest]
    gap_row[lane[longest[is_own]]] = row[is_own]
    return gap, gap_row


def _named(requests: Requests, row: int) -> str | None:
    """Return a request in words, `write model.pt`; none for row -1."""
    if row < 0:
        return None
    path = requests.path_of(row)
    name = path.rpartition("/")[2] if path else ""
    return f"{requests.ops[int(requests.op[row])]} {name}".rstrip()


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
