"""Join traces of several ranks or hosts into one."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace

import pyarrow as pa
import pyarrow.compute as pc

from iotrace.traces.errors import TraceFormatError
from iotrace.traces.file_numbers import renumbered_files
from iotrace.traces.merged_clocks import JoinedClocks, join_clocks
from iotrace.traces.merged_steps import in_steps
from iotrace.traces.metadata import Completeness, Host, Metadata, RecordedOn
from iotrace.traces.phases import ends_ns
from iotrace.traces.shared_files import judged_together
from iotrace.traces.sharing.card import CARD
from iotrace.traces.summed_notes import summed_notes
from iotrace.traces.trace import Trace, sort_rows


def merge_traces(traces: Sequence[Trace]) -> Trace:
    """Return one trace with the rows of all `traces`, which have the same columns.

    Hosts with the same boot are one host. Times are joined as `join_clocks` says. Traces whose
    metadata are equal are parts of one trace, and their processes and files are the same; otherwise
    the processes and files of each are renumbered behind those before, and the steps are counted
    over all: see `iotrace.traces.steps`.

    Raises:
        ValueError: there are no traces, or their columns differ.
        TraceFormatError: their times are too far apart for one trace.
    """
    if not traces:
        raise ValueError("no traces to merge")
    first = traces[0]
    if all(trace.metadata == first.metadata for trace in traces):
        if len(traces) == 1:
            return first
        return Trace(_concat([trace.table for trace in traces]), first.metadata)
    clocks = join_clocks([trace.metadata for trace in traces], [*map(_extent, traces)])
    parts: list[Metadata] = []
    tables: list[pa.Table] = []
    processes, files = 0, 0
    for trace, shift_ns in zip(traces, clocks.shifts_ns, strict=True):
        table, metadata, files = renumbered_files(trace.table, trace.metadata, files)
        tables.append(_moved(table, shift_ns, processes))
        parts.append(metadata)
        processes += len(metadata.processes)
    tables = in_steps(tables, clocks.groups, clocks.are_of_one_trace)
    whole = Trace(_concat(tables), _merged_metadata(parts, clocks))
    return judged_together(whole, [len(part.processes) for part in parts])


def _concat(tables: Sequence[pa.Table]) -> pa.Table:
    return sort_rows(pa.concat_tables(tables).unify_dictionaries().combine_chunks())


def _extent(trace: Trace) -> tuple[int, int] | None:
    return (int(trace.ints("start_ns").min()), int(ends_ns(trace).max())) if len(trace) else None


def _moved(table: pa.Table, shift_ns: int, processes_before: int) -> pa.Table:
    shifts = {"start_ns": shift_ns, "end_ns": shift_ns, "process": processes_before}
    for name, shift in shifts.items():
        if shift and name in table.column_names:
            place = table.column_names.index(name)
            field = table.schema.field(place)
            column = table.column(place)
            try:
                shifted = pc.add_checked(column, pa.scalar(shift, column.type))
            except (pa.ArrowInvalid, OverflowError) as error:
                raise TraceFormatError(
                    "the times of the parts are more than 292 years apart; one is damaged"
                ) from error
            table = table.set_column(place, field, shifted)
    return table


def _merged_metadata(parts: Sequence[Metadata], clocks: JoinedClocks) -> Metadata:
    hosts = _distinct_hosts(parts)
    renumbered = list(_renumbered(parts, hosts))
    return replace(
        parts[0],
        epoch_realtime_ns=clocks.epoch_realtime_ns,
        epoch_monotonic_ns=clocks.epoch_monotonic_ns if len(hosts) == 1 else None,
        clock=clocks.clock,
        clocks=clocks.clocks,
        hosts=tuple(hosts),
        mounts=tuple(dict.fromkeys(m for part in renumbered for m in part.mounts)),
        processes=tuple(p for part in renumbered for p in part.processes),
        recorded_on=_joined([part.recorded_on for part in parts]),
        completeness=_merged_completeness([part.completeness for part in renumbered]),
        history=tuple(entry for part in parts for entry in part.history),
        extra=_common(part.extra for part in parts),
    )


def _common(parts: Iterable[Mapping[str, object]]) -> dict[str, object]:
    """Return what all parts say alike, but for the card, which tells of the rows of one."""
    first, *others = parts
    return {
        key: value
        for key, value in first.items()
        if key != CARD and all(key in one and one[key] == value for one in others)
    }


def _joined(places: Sequence[RecordedOn]) -> RecordedOn:
    hosts = _distinct_hosts(places)
    numbers = {_identity(host): i for i, host in enumerate(hosts)}
    mounts = [
        replace(mount, host=_at([numbers[_identity(host)] for host in place.hosts], mount.host))
        for place in places
        for mount in place.mounts
    ]
    return RecordedOn(tuple(hosts), tuple(dict.fromkeys(mounts)))


def _distinct_hosts(parts: Sequence[Metadata | RecordedOn]) -> list[Host]:
    return list({_identity(host): host for part in parts for host in part.hosts}.values())


def _identity(host: Host) -> Host | str:
    return host.boot_id or host


def _renumbered(parts: Sequence[Metadata], hosts: Sequence[Host]) -> Iterator[Metadata]:
    """Yield each part with its indices of hosts and processes as they are in the whole."""
    places = {_identity(host): i for i, host in enumerate(hosts)}
    processes_before = 0
    for part in parts:
        host_of = [places[_identity(host)] for host in part.hosts]
        yield replace(
            part,
            mounts=tuple(replace(m, host=_at(host_of, m.host)) for m in part.mounts),
            processes=tuple(replace(p, host=_at(host_of, p.host)) for p in part.processes),
            completeness=_shifted(part.completeness, processes_before),
        )
        processes_before += len(part.processes)


def _at(host_of: Sequence[int], host: int) -> int:
    return host_of[host] if 0 <= host < len(host_of) else -1


def _shifted(part: Completeness, processes_before: int) -> Completeness:
    files = (replace(f, process=f.process + processes_before) for f in part.files)
    processes = (replace(p, process=p.process + processes_before) for p in part.processes)
    return replace(part, files=tuple(files), processes=tuple(processes))


def _merged_completeness(parts: Sequence[Completeness]) -> Completeness:
    counts = [f.name for f in fields(Completeness) if f.type in (int, "int")]
    extra = dict(item for part in reversed(parts) for item in part.extra.items())
    for name in [name for name, value in extra.items() if type(value) is int]:
        extra[name] = sum(n for part in parts if type(n := part.extra.get(name)) is int)
    return Completeness(
        files=tuple(f for part in parts for f in part.files),
        processes=tuple(p for part in parts for p in part.processes),
        notes=summed_notes([part.notes for part in parts]),
        extra=extra,
        **{name: sum(getattr(part, name) for part in parts) for name in counts},
    )
