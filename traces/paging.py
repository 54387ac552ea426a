"""What page faults brought into memory of mapped files: bytes that no request tells.

A row of a fault is where and when a page was missing. The kernel reads more than that page, and
what it has read ahead makes no fault: how much came is told by counters alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from iotrace.traces.columns import ends_of
from iotrace.traces.counters import DEVICE_READ, SpanCounters, counters_of_spans
from iotrace.traces.intervals import Intervals
from iotrace.traces.phases import Phase
from iotrace.traces.requests import Requests
from iotrace.traces.trace import Trace
from iotrace.traces.words import plural, sized

EXIT_READ = "read_bytes"  # counter at the end of a process: `DEVICE_READ` is the same in between
_AHEAD = 1.5  # times the pages that faulted, from which on more was read than these


@dataclass(frozen=True)
class Paging:
    """What loads through mapped files brought in, over all processes.

    Attributes:
        files: that had page faults; `mapped_bytes` how many different bytes of them were mapped.
        faults: major page faults on them, and `fault_bytes` the pages of these alone.
        read_bytes: that the kernel read from storage for the processes meanwhile, whatever for;
            `None`: nobody counted them.
        at_most: whether that counts until the end of a process, or from its start, as faults came
            when no engine's call was on its way.
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


def paging_of(trace: Trace) -> Paging | None:
    """Return what came in by page faults in a whole trace; `None` without any."""
    if not trace.row_mask(op="fault").any():
        return None
    rows = trace.row_mask(layer="request", op=("open", "map", "fault", "rename", "link"))
    requests = Requests.of(trace.where(rows))
    return paging(
        requests.where(requests.phase == Phase.LOAD), counters_of_spans(trace), exit_reads(trace)
    )


def exit_reads(trace: Trace) -> dict[int, int]:
    """Return what was read from storage for each process whose end was seen."""
    rows = trace.where(trace.row_mask(layer="counter"))
    columns = (rows.strings("name"), rows.ints("process").tolist(), rows.ints("result").tolist())
    return {
        process: value for name, process, value in zip(*columns, strict=True) if name == EXIT_READ
    }


def paging(
    requests: Requests, counters: Sequence[SpanCounters], exits: Mapping[int, int]
) -> Paging | None:
    """Return what came in by the page faults among the requests of loads; `None` without any.

    Args:
        requests: of loads.
        counters: around all spans of the trace.
        exits: as `exit_reads` returns them.
    """
    faults = requests.where(requests.is_op("fault"))
    if not len(faults):
        return None
    homes = np.unique(faults.home)
    maps = requests.where(
        requests.is_op("map") & requests.done & np.isin(requests.home, homes) & requests.has_offset
    )
    mapped_bytes = 0
    for home in homes.tolist():
        own = maps.where(maps.home == home)
        mapped_bytes += Intervals.of(own.offset, ends_of(own.offset, own.length)).total
    read_bytes, known, late = 0, True, False
    for process in np.unique(faults.process).tolist():
        own = faults.where(faults.process == process)
        found, is_late = _read_bytes(own, process, counters, exits.get(process))
        known &= found is not None
        read_bytes += found or 0
        late |= is_late
    return Paging(
        files=len(homes),
        mapped_bytes=mapped_bytes,
        faults=len(faults),
        fault_bytes=int(faults.length.sum()),
        read_bytes=read_bytes if known else None,
        at_most=late,
    )


def _read_bytes(
    faults: Requests, process: int, counters: Sequence[SpanCounters], exit_bytes: int | None
) -> tuple[int | None, bool]:
    """Return what was read for a process around its faults, and whether that is an upper bound."""
    begins, ends, grown, late = [], [], 0, False
    for step in np.unique(faults.step).tolist():
        own = [
            one
            for one in counters
            if (one.op, one.process, one.step) == ("load", process, step)
            and DEVICE_READ in one.before
            and DEVICE_READ in one.after
        ]
        last_ns = int(faults.start_ns[faults.step == step].max())
        begins.append(min((one.before[DEVICE_READ] for one in own), default=0))
        if last_ns <= max((one.end_ns for one in own), default=0):
            ends.append(max(one.after[DEVICE_READ] for one in own))
        elif exit_bytes is not None:
            ends.append(exit_bytes)
            late = True
        else:
            return None, False
        grown += sum(one.cached_growth_bytes for one in own)
    # The count only grows: what two loads at once have in common is counted once.
    found = Intervals.of(np.array(begins, np.int64), np.array(ends, np.int64)).total
    if found < int(faults.length.sum()):  # a file system that does not count for processes
        return grown or None, False
    return found, late
