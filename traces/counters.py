"""What processes and the page cache held around each save and load (layer `counter`)."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from iotrace.traces.trace import Trace

# What a capture counts at both ends of a span. Of the process: its memory, bytes and time so far.
PROCESS_COUNTERS = (
    "resident_bytes",
    "peak_resident_bytes",
    "user_cpu_ns",
    "system_cpu_ns",
    "processor_wait_ns",
    "process_read_bytes",
    "process_written_bytes",
    "device_read_bytes",
    "device_written_bytes",
)
# Of the file, or all files of the folder, that is saved or loaded.
FILE_COUNTERS = ("cached_bytes", "dirty_bytes", "writeback_bytes")

Values = Mapping[str, int]


@dataclass(frozen=True)
class SpanCounters:
    """The counters around one span; a value that was not told is missing from its mapping.

    Attributes:
        op, engine, step, process: of the span's row.
        before, after: values by name.
    """

    op: str
    engine: str | None
    step: int
    process: int
    before: Values
    after: Values


def counters_of_spans(trace: Trace) -> list[SpanCounters]:
    """Return the counters around each span that has some, in order of start.

    Those before are read when the engine's work begins, inside the span; those after as soon as
    it is over, on the same thread.
    """
    moments = _moments(trace)
    spans = trace.where(trace.row_mask(layer="span"))
    columns = (
        spans.strings("op"),
        spans.strings("engine"),
        *(
            spans.ints(name, null=-1).tolist()
            for name in ("step", "process", "thread", "start_ns", "end_ns")
        ),
    )
    found = []
    for op, engine, step, process, thread, start_ns, end_ns in zip(*columns, strict=True):
        times, values = moments.get((process, thread), ([], []))
        first = int(np.searchsorted(times, start_ns, "left"))
        after = int(np.searchsorted(times, end_ns, "left"))
        if engine is not None and first < after < len(times):
            found.append(
                SpanCounters(op or "", engine, step, process, values[first], values[after])
            )
    return found


def _moments(trace: Trace) -> dict[tuple[int, int], tuple[list[int], list[dict[str, int]]]]:
    """Return by process and thread the times at which counters were read, and their values."""
    counters = trace.where(trace.row_mask(layer="counter"))
    columns = (
        counters.strings("name"),
        *(
            counters.ints(name, null=-1).tolist()
            for name in ("process", "thread", "start_ns", "result")
        ),
    )
    found: defaultdict[tuple[int, int], dict[int, dict[str, int]]] = defaultdict(dict)
    for name, process, thread, start_ns, value in zip(*columns, strict=True):
        if name in PROCESS_COUNTERS or name in FILE_COUNTERS:
            found[process, thread].setdefault(start_ns, {})[name] = value
    return {key: (sorted(at), [at[time] for time in sorted(at)]) for key, at in found.items()}
