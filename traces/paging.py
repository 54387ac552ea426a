"""What page faults brought into memory of mapped files: bytes that no request tells.

A row of a fault is where and when a page was missing. The kernel reads more than that page, and
what it has read ahead makes no fault: how much came is told by counters alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from iotrace.traces.columns import CodeArray, ends_of
from iotrace.traces.counters import (
    DEVICE_READ,
    EXIT_READ,
    SpanCounters,
    counters_of_spans,
    last_counters,
)
from iotrace.traces.grouping import number_groups
from iotrace.traces.intervals import Intervals
from iotrace.traces.phases import Phase
from iotrace.traces.requests import Requests
from iotrace.traces.trace import Trace
from iotrace.traces.words import plural, sized

_AHEAD = 1.5  # times the pages that faulted, from which on more was read than these
_CACHED = "cached_bytes"

_Call = tuple[int, int, list[SpanCounters]]  # first and last fault in ns, and what was counted


@dataclass(frozen=True)
class Paging:
    """What loads through mapped files brought in, over all processes.

    Attributes:
        files: that had page faults; `mapped_bytes` how many different bytes of them were mapped.
        faults: major page faults on them, and `fault_bytes` the pages of these alone.
        read_bytes: that the kernel read from storage for the processes meanwhile, whatever for.
            Where it counts less for a process than its faults, as with FUSE: how much more of
            the files that it loaded is in the page cache afterwards, once for all processes of a
            host. `None`: nobody counted them.
        at_most: whether that counts until the end of a process, or from its start, as faults came
            when no engine's call was on its way, or before the counters of that call were read.
    """

    files: int
    mapped_bytes: int
    faults: int
    fault_bytes: int
    read_bytes: int | None
    at_most: bool

    def __str__(self) -> str:
        """Return `244 MiB mapped, 22 page faults: 257 MiB read from storage by read-ahead`."""
        text = f"{sized(self.mapped_bytes)} mapped, {plural(self.faults, 'page fault')}: "
        if self.read_bytes is None:
            return text + "what these read was not counted"
        if self.at_most:
            return text + f"at most {sized(self.read_bytes)} read from storage"
        ahead = " by read-ahead" if self.read_bytes > _AHEAD * self.fault_bytes else ""
        return text + f"{sized(self.read_bytes)} read from storage{ahead}"


@dataclass(frozen=True)
class _Own:
    """What one process counted around its faults.

    Attributes:
        read_bytes: for it; `None`: not counted.
        is_loose: whether that is an upper bound, as the counters of its calls lie not around all of
            its faults: it counts from the start of the process, or until its end.
        is_short: whether its faults alone are more.
        loads: counters around its calls.
    """

    read_bytes: int | None
    is_loose: bool
    is_short: bool
    loads: Sequence[SpanCounters]


def paging_of(trace: Trace) -> Paging | None:
    """Return what came in by page faults in a whole trace; `None` without any."""
    if not trace.row_mask(op="fault").any():
        return None
    rows = trace.row_mask(layer="request", op=("open", "map", "fault", "rename", "link"))
    requests = Requests.of(trace.where(rows))
    exits = last_counters(trace).get(EXIT_READ, {})
    return paging(requests.where(requests.phase == Phase.LOAD), counters_of_spans(trace), exits)


def paging(
    requests: Requests, counters: Sequence[SpanCounters], exits: Mapping[int, int]
) -> Paging | None:
    """Return what came in by the page faults among the requests of loads; `None` without any.

    Args:
        requests: of loads.
        counters: around their spans; those of saves are not looked at.
        exits: what was read from storage for each process whose end was seen.
    """
    faults = requests.where(requests.is_op("fault"))
    if not len(faults):
        return None
    homes = np.unique(faults.home)
    found = _owns(faults, counters, exits)
    read_bytes = _read_bytes(found)
    return Paging(
        files=len(homes),
        mapped_bytes=_mapped_bytes(requests, homes),
        faults=len(faults),
        fault_bytes=int(faults.length.sum()),
        read_bytes=read_bytes,
        at_most=read_bytes is not None and any(one.is_loose for one in found),
    )


def was_in_memory(loads: Requests, counters: Sequence[SpanCounters]) -> bool:
    """Return whether all that was mapped was in the page cache before, by what was counted.

    Args:
        loads: requests of loads.
        counters: around their spans.
    """
    cached: dict[tuple[int, str | None], int] = {}
    for one in counters:
        if one.was_fetched or DEVICE_READ not in one.before or _CACHED not in one.before:
            return False
        place = one.host, one.path
        cached[place] = max(one.before[_CACHED], cached.get(place, 0))
    mapped_bytes = _mapped_bytes(loads, np.unique(loads.home[loads.is_op("map")]))
    return 0 < mapped_bytes <= sum(cached.values())


def _mapped_bytes(requests: Requests, homes: CodeArray) -> int:
    """Return how many different bytes of some files were mapped."""
    maps = np.flatnonzero(
        requests.is_op("map") & requests.done & np.isin(requests.home, homes) & requests.has_offset
    )
    maps = maps[np.argsort(requests.home[maps], kind="stable")]
    starts, lengths = requests.offset[maps], requests.length[maps]
    cuts = np.flatnonzero(np.diff(requests.home[maps])) + 1
    return sum(
        Intervals.of(own, ends_of(own, length)).total
        for own, length in zip(np.split(starts, cuts), np.split(lengths, cuts), strict=True)
    )


def _owns(
    faults: Requests, counters: Sequence[SpanCounters], exits: Mapping[int, int]
) -> list[_Own]:
    """Return what each process with faults counted."""
    loads: defaultdict[tuple[int, int], list[SpanCounters]] = defaultdict(list)
    for one in counters:
        if one.op == "load" and DEVICE_READ in one.before and DEVICE_READ in one.after:
            loads[one.process, one.step].append(one)
    group = number_groups(faults.process, faults.step)
    order = np.argsort(group, kind="stable")  # within a group still in order of time
    firsts = order[np.flatnonzero(np.diff(group[order], prepend=-1))]
    lasts = order[np.flatnonzero(np.diff(group[order], append=-1))]
    sizes = np.bincount(group, faults.length).tolist()
    times = (faults.start_ns[firsts], faults.start_ns[lasts])
    columns = (faults.process[lasts], faults.step[lasts], *times)
    calls: defaultdict[int, list[_Call]] = defaultdict(list)
    fault_bytes: defaultdict[int, int] = defaultdict(int)
    for process, step, *at, size in zip(*(c.tolist() for c in columns), sizes, strict=True):
        calls[process].append((at[0], at[1], loads.get((process, step), [])))
        fault_bytes[process] += int(size)
    return [_own(own, fault_bytes[p], exits.get(p)) for p, own in calls.items()]


def _own(calls: Sequence[_Call], fault_bytes: int, exit_bytes: int | None) -> _Own:
    """Return what a process counted, from the faults and the counters of each of its steps."""
    loads = [one for _, _, own in calls for one in own]
    begins, ends, early, late = [], [], False, False
    for first_ns, last_ns, own in calls:
        begins.append(min((one.before[DEVICE_READ] for one in own), default=0))
        early |= bool(own) and first_ns < min(one.begin_ns for one in own)
        if own and last_ns <= max(one.end_ns for one in own):
            ends.append(max(one.after[DEVICE_READ] for one in own))
        elif exit_bytes is not None:
            ends.append(exit_bytes)
            late = True
        else:
            return _Own(None, is_loose=False, is_short=False, loads=loads)
    # The count only grows: what two loads at once have in common is counted once.
    found = Intervals.of(np.array(begins, np.int64), np.array(ends, np.int64)).total
    is_short = found < fault_bytes
    # What the faults before the first counters brought is in them, with all that came before.
    return _Own(max(ends) if early else found, early or late, is_short, loads)


def _read_bytes(found: Sequence[_Own]) -> int | None:
    """Return what was read for all processes; `None` if of one it is not known.

    Of files that two load, one may have waited for what was read for the other.
    """
    total = 0
    counted = {_file(load) for one in found if not one.is_short for load in one.loads}
    grown: list[SpanCounters] = []
    for one in found:
        if one.read_bytes is None:
            return None
        seen = [load for load in one.loads if _file(load) not in counted]
        if not one.is_short or (one.loads and not seen):
            total += one.read_bytes
        elif one.is_loose or not _growth(seen):  # the cache was not looked at around all faults
            return None
        else:
            grown += seen
    return total + _growth(grown)


def _file(load: SpanCounters) -> tuple[int, str | None, int]:
    """Return what tells one load of a file into one page cache from another."""
    return load.host, load.path, load.step


def _growth(loads: Iterable[SpanCounters]) -> int:
    """Return how much more of the loaded files is in the page cache, of each file once."""
    spans: defaultdict[tuple[int, str | None, int], list[tuple[int, int]]] = defaultdict(list)
    for one in loads:
        if _CACHED in one.before and _CACHED in one.after:
            spans[_file(one)].append((one.before[_CACHED], one.after[_CACHED]))
    return sum(Intervals.of(*np.array(own, np.int64).T).total for own in spans.values())
