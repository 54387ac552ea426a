"""Join traces of several ranks or hosts into one."""

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from itertools import accumulate

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from iotrace.traces.merged_steps import in_steps
from iotrace.traces.metadata import Completeness, Host, Metadata, RecordedOn
from iotrace.traces.shared_files import judged_together
from iotrace.traces.trace import Trace, sort_rows


def merge_traces(traces: Sequence[Trace]) -> Trace:
    """Return one trace with the rows of all `traces`, which have the same columns.

    Hosts with the same boot are one host, and its clock joins their times exactly; others are
    joined by wall-clock time. Traces whose metadata are equal are parts of one trace, and their
    processes are the same; otherwise the processes of each are renumbered behind those before,
    and the steps are counted over all: see `iotrace.traces.steps`.

    Raises:
        ValueError: there are no traces, or their columns differ.
    """
    if not traces:
        raise ValueError("no traces to merge")
    first = traces[0]
    if all(trace.metadata == first.metadata for trace in traces):
        tables = [trace.table for trace in traces]
        return first if len(traces) == 1 else Trace(_concat(tables), first.metadata)
    parts = [trace.metadata for trace in traces]
    epochs_ns = _epochs_ns(parts)
    processes_before = accumulate((len(part.processes) for part in parts[:-1]), initial=0)
    moved = [
        _moved(trace.table, epoch_ns - min(epochs_ns), before)
        for trace, epoch_ns, before in zip(traces, epochs_ns, processes_before, strict=True)
    ]
    whole = Trace(_concat(in_steps(moved)), _merged_metadata(parts, epochs_ns))
    return judged_together(whole, [len(part.processes) for part in parts])


def _concat(tables: Sequence[pa.Table]) -> pa.Table:
    return sort_rows(pa.concat_tables(tables).unify_dictionaries().combine_chunks())


def _epochs_ns(parts: Sequence[Metadata]) -> list[int]:
    """Return each part's epoch as wall-clock time, by the first part's clock on each boot."""
    first_on_boot: dict[str, Metadata] = {}
    epochs_ns = []
    for part in parts:
        boot = part.hosts[0].boot_id if len(part.hosts) == 1 else ""
        epoch_ns = part.epoch_realtime_ns
        if boot and part.epoch_monotonic_ns is not None:
            clock = first_on_boot.setdefault(boot, part)
            assert clock.epoch_monotonic_ns is not None
            epoch_ns = clock.epoch_realtime_ns + part.epoch_monotonic_ns - clock.epoch_monotonic_ns
        epochs_ns.append(epoch_ns)
    return epochs_ns


def _moved(table: pa.Table, shift_ns: int, processes_before: int) -> pa.Table:
    shifts = {"start_ns": shift_ns, "end_ns": shift_ns, "process": processes_before}
    for name, shift in shifts.items():
        if shift and name in table.column_names:
            place = table.column_names.index(name)
            field = table.schema.field(place)
            column = table.column(place)
            shifted = pc.add_checked(column, pa.scalar(shift, column.type))
            table = table.set_column(place, field, shifted)
    return table


def _merged_metadata(parts: Sequence[Metadata], epochs_ns: Sequence[int]) -> Metadata:
    earliest = parts[int(np.argmin(epochs_ns))]
    hosts = _distinct_hosts(parts)
    renumbered = list(_renumbered(parts, hosts))
    return replace(
        earliest,
        epoch_monotonic_ns=earliest.epoch_monotonic_ns if len(hosts) == 1 else None,
        command=parts[0].command,
        hosts=tuple(hosts),
        mounts=tuple(dict.fromkeys(m for part in renumbered for m in part.mounts)),
        processes=tuple(p for part in renumbered for p in part.processes),
        recorded_on=_joined([part.recorded_on for part in parts]),
        completeness=_merged_completeness([part.completeness for part in renumbered]),
        history=tuple(entry for part in parts for entry in part.history),
    )


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
        notes=tuple(dict.fromkeys(note for part in parts for note in part.notes)),
        extra=extra,
        **{name: sum(getattr(part, name) for part in parts) for name in counts},
    )
