"""Who issued the recorded requests, and when: streams, times and pauses."""

import numpy as np

from iotrace.replay.grouping import grouped, numbered
from iotrace.replay.job import MAX_OFFSET_BYTES
from iotrace.replay.pieces import Ints
from iotrace.replay.plan import Stream
from iotrace.replay.recorded import Recorded
from iotrace.replay.requests import Requests
from iotrace.replay.table import narrow


def with_streams(
    requests: Requests, recorded: Recorded, source: Ints, hosts: dict[int, int]
) -> tuple[Requests, tuple[Stream, ...]]:
    """Return requests with `stream`, `due_ns` and `think_ns`, and the streams, one per thread.

    Args:
        requests: of the plan, in order of issue.
        recorded: what they come from.
        source: per request, which of it.
        hosts: index of the machine of each process.
    """
    names = numbered(recorded.at("process", source), recorded.at("thread", source))
    order = grouped(names)
    names = names[order]
    fresh = np.append(True, names[1:] != names[:-1])
    del names
    stream = np.empty(len(source), np.int32)
    stream[order] = np.cumsum(fresh, dtype=np.int32) - np.int32(1)
    start_ns = recorded.at("start_ns", source)
    due_ns = narrow(_span(start_ns, start_ns[:1]))
    start_ns = start_ns[order]
    end_ns = recorded.at("end_ns", source)[order]
    think_ns = np.zeros(len(source), np.int64)
    think_ns[order[1:]] = np.where(fresh[1:], 0, _span(start_ns[1:], end_ns[:-1]))
    first = source[order[fresh]]
    return requests.having(stream=stream, due_ns=due_ns, think_ns=think_ns), tuple(
        Stream(process, thread, rank, hosts.get(process, 0))
        for process, thread, rank in zip(
            *(recorded.at(name, first).tolist() for name in ("process", "thread", "rank")),
            strict=True,
        )
    )


def _span(later_ns: Ints, earlier_ns: Ints) -> Ints:
    """Return the time between, 0 where it is negative, without overflow of wild clocks."""
    if not len(later_ns):
        return later_ns
    ends = [int(end) for ns in (later_ns, earlier_ns) for end in (ns.min(), ns.max())]
    if max(ends) - min(ends) < MAX_OFFSET_BYTES:
        return (later_ns - earlier_ns).clip(0)
    rough = later_ns.astype(np.float64) - earlier_ns.astype(np.float64)
    sane = (rough > 0) & (rough < MAX_OFFSET_BYTES)
    return np.where(sane, later_ns - earlier_ns, 0)
