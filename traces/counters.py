"""What processes and the page cache held around each save and load (layer `counter`)."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from iotrace.traces.trace import Trace

DEVICE_READ = "device_read_bytes"
EXIT_READ = "read_bytes"  # the same, at the end of a process
# What a capture counts at both ends of a span. Of the process: its memory, bytes and time so far.
PROCESS_COUNTERS = (
    "resident_bytes",
    "peak_resident_bytes",
    "user_cpu_ns",
    "system_cpu_ns",
    "processor_wait_ns",
    "process_read_bytes",
    "process_written_bytes",
    DEVICE_READ,
    "device_written_bytes",
)
# Of the file, or all files of the folder, that is saved or loaded.
FILE_COUNTERS = ("cached_bytes", "dirty_bytes", "writeback_bytes")
# Lines of /proc/PID/io, at the end of a process.
EXIT_COUNTERS = ("rchar", "wchar", "syscr", "syscw", EXIT_READ, "write_bytes")
COUNTERS = (*PROCESS_COUNTERS, *FILE_COUNTERS, *EXIT_COUNTERS, "mapped_cached_bytes")

Values = Mapping[str, int]


@dataclass(frozen=True)
class SpanCounters:
    """The counters around one span; a value that was not told is missing from its mapping.

    Attributes:
        op, engine, step, process, end_ns: of the span's row.
        begin_ns: when those before were read.
        path: the file or folder that is saved or loaded, on `host`, index into the metadata's
            hosts; -1: not known.
        before, after: values by name.
    """

    op: str
    engine: str | None
    step: int
    process: int
    begin_ns: int
    end_ns: int
    path: str | None
    host: int
    before: Values
    after: Values

    @property
    def cached_growth_bytes(self) -> int:
        """How much more of the file is in the page cache afterwards; 0 where not told."""
        both = (self.before.get("cached_bytes"), self.after.get("cached_bytes"))
        return 0 if both[0] is None or both[1] is None else max(0, both[1] - both[0])

    @property
    def was_fetched(self) -> bool:
        """Whether anything came in from storage meanwhile, for the process or of the file."""
        fetched = self.after.get(DEVICE_READ, 0) - self.before.get(DEVICE_READ, 0)
        return fetched > 0 or self.cached_growth_bytes > 0


def counters_of_spans(trace: Trace) -> list[SpanCounters]:
    """Return the counters around each span that has some, in order of start.

    Those before are the first ones inside the span: read when it begins, in older traces not before
    the engine had opened its file. Those after are read as soon as it is over, on the same thread.
    """
    moments = _moments(trace)
    hosts = dict(enumerate(one.host for one in trace.metadata.processes))
    spans = trace.where(trace.row_mask(layer="span"))
    columns = (
        spans.strings("op"),
        spans.strings("engine"),
        spans.strings("path"),
        *(
            spans.ints(name, null=-1).tolist()
            for name in ("step", "process", "thread", "start_ns", "end_ns")
        ),
    )
    found = []
    for op, engine, path, step, process, thread, start_ns, end_ns in zip(*columns, strict=True):
        times, values = moments.get((process, thread), ([], []))
        first = bisect_left(times, start_ns)
        after = bisect_left(times, end_ns)
        if engine is not None and first < after < len(times):
            found.append(
                SpanCounters(
                    op=op or "",
                    engine=engine,
                    step=step,
                    process=process,
                    begin_ns=times[first],
                    end_ns=end_ns,
                    path=path,
                    host=hosts.get(process, -1),
                    before=values[first],
                    after=values[after],
                )
            )
    return found


def last_counters(trace: Trace) -> dict[str, dict[int, int]]:
    """Return the last value of each counter, by name and process."""
    rows = trace.layer("counter")
    last: dict[str, dict[int, int]] = {}
    columns = (rows.strings("name"), rows.ints("process").tolist(), rows.ints("result").tolist())
    for name, process, value in zip(*columns, strict=True):
        if name:
            last.setdefault(name, {})[process] = value
    return last


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
