"""What a save or load left in memory: in the processes, and in the page cache."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from iotrace.traces.counters import SpanCounters
from iotrace.traces.metadata import Host, Metadata


@dataclass(frozen=True)
class Memory:
    """Memory around one save or load; `None` is not known.

    Attributes:
        grown_bytes: more resident memory than before, added over processes.
        resident_bytes: of all processes afterwards; `peak_bytes` the most each has had, added.
        cached_bytes, dirty_bytes: of the files, left in the page cache.
        limit_bytes: of the control group, or else of the machine; the least over hosts.
    """

    grown_bytes: int
    resident_bytes: int
    peak_bytes: int | None
    cached_bytes: int | None
    dirty_bytes: int | None
    limit_bytes: int | None


def memory(counters: Sequence[SpanCounters], metadata: Metadata) -> Memory | None:
    """Return what was left, by the counters of an episode; `None` where these tell nothing."""
    own = [
        one for one in counters if "resident_bytes" in one.before and "resident_bytes" in one.after
    ]
    last = {one.process: one for one in own}
    if not last:
        return None
    first = {one.process: one for one in reversed(own)}
    resident = sum(one.after["resident_bytes"] for one in last.values())
    before = sum(one.before["resident_bytes"] for one in first.values())
    peaks = [one.after.get("peak_resident_bytes") for one in last.values()]
    limits = [limit for host in metadata.hosts if (limit := _limit(host))]
    return Memory(
        grown_bytes=resident - before,
        resident_bytes=resident,
        peak_bytes=None if None in peaks else sum(peak for peak in peaks if peak),
        # Each process counts the files of all: what the last one saw is the whole.
        cached_bytes=_most(last.values(), "cached_bytes"),
        dirty_bytes=_most(last.values(), "dirty_bytes"),
        limit_bytes=min(limits, default=None),
    )


def _most(counters: Iterable[SpanCounters], name: str) -> int | None:
    return max((one.after[name] for one in counters if name in one.after), default=None)


def _limit(host: Host) -> int | None:
    known = [size for size in (host.cgroup_limit_bytes, host.memory_bytes) if size]
    return min(known, default=None)
