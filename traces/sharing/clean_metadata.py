"""Metadata that say nothing of a site: built anew from what is allowed, field by field.

Fields that are not named here, and all keys that a later version may have added, are dropped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from iotrace.traces.metadata import (
    Completeness,
    FileCompleteness,
    HistoryEntry,
    Host,
    Metadata,
    Mount,
    Process,
    ProcessCompleteness,
    RecordedOn,
)
from iotrace.traces.schema import ACTIONS
from iotrace.traces.sharing.pseudonyms import HOST_PREFIX, Pseudonyms
from iotrace.traces.sharing.public_words import (
    FILE_SYSTEMS,
    LIBRARIES,
    MACHINES,
    MOUNT_OPTIONS,
    public_version,
)

UNSAID: Final = "a note on what is missing was left out when the trace was shared"
_SIZE: Final = r"[\d.]+(?: (?:bytes|B|[KMGTPE]iB))?"  # earlier ones in bytes, of two the unit once
# What this package writes about gaps, where it has numbers alone.
NOTES: Final = re.compile(
    rf"{_SIZE} of [\d,]+ files? were mapped into memory for (reading|writing); "
    r"(which of them were used|what (was read of them from memory|read-ahead brought of them)) "
    r"was not seen"
    rf"|about {_SIZE} of {_SIZE} of [\d,]+ files? were in memory already when they were mapped "
    r"into it for reading: such a load is partly warm"
    r"|[\d,]+ requests? to an io_uring "
    r"(that is not understood are|that is not understood:) not in the trace"
    r"|[\d,]+ notes? of hooks could not be read",
    re.ASCII,
)
_ROUND_BYTES = 1 << 30  # an exact memory or disk size tells one machine from another


def clean_metadata(metadata: Metadata, names: Pseudonyms) -> Metadata:
    """Return what of `metadata` may be published, with paths and hosts under pseudonyms."""
    return Metadata(
        clocks=metadata.clocks,
        tool_version=public_version(metadata.tool_version),
        hosts=_hosts(metadata.hosts, names),
        mounts=_mounts(metadata.mounts, names),
        recorded_on=RecordedOn(
            _hosts(metadata.recorded_on.hosts, names), _mounts(metadata.recorded_on.mounts, names)
        ),
        processes=tuple(_process(process, i) for i, process in enumerate(metadata.processes)),
        completeness=_completeness(metadata.completeness, names),
        history=tuple(_entry(entry) for entry in metadata.history),
    )


def _hosts(hosts: Iterable[Host], names: Pseudonyms) -> tuple[Host, ...]:
    return tuple(_host(host, names) for host in hosts)


def _mounts(mounts: Iterable[Mount], names: Pseudonyms) -> tuple[Mount, ...]:
    return tuple(_mount(mount, names) for mount in mounts)


def _host(host: Host, names: Pseudonyms) -> Host:
    return Host(
        name=f"{HOST_PREFIX}{names.word('host', host.boot_id or host.name)}",
        kernel=public_version(host.kernel, parts=2),
        machine=host.machine if host.machine in MACHINES else "",
        cores=host.cores,
        memory_bytes=_rounded(host.memory_bytes),
        cgroup_limit_bytes=_rounded(host.cgroup_limit_bytes),
        gives_memory_back=host.gives_memory_back,
    )


def _mount(mount: Mount, names: Pseudonyms) -> Mount:
    options = [o for o in mount.options.split(",") if MOUNT_OPTIONS.fullmatch(o)]
    return Mount(
        path=names.path(mount.path),
        host=mount.host,
        file_system=mount.file_system if mount.file_system in FILE_SYSTEMS else "",
        version=public_version(mount.version),
        options=",".join(options),
        block_bytes=mount.block_bytes,
        dio_offset_alignment_bytes=mount.dio_offset_alignment_bytes,
        dio_memory_alignment_bytes=mount.dio_memory_alignment_bytes,
        read_ahead_bytes=mount.read_ahead_bytes,
        stripe_bytes=mount.stripe_bytes,
        stripe_count=mount.stripe_count,
        total_bytes=_rounded(mount.total_bytes),
    )


def _process(process: Process, place: int) -> Process:
    versions = {name: public_version(v) for name, v in process.libraries.items()}
    return Process(
        pid=place + 1,
        host=process.host,
        rank=process.rank,
        local_rank=process.local_rank,
        world_size=process.world_size,
        python=public_version(process.python),
        libraries={name: version for name, version in versions.items() if name in LIBRARIES},
    )


def _completeness(whole: Completeness, names: Pseudonyms) -> Completeness:
    notes = (note if NOTES.fullmatch(note) else UNSAID for note in whole.notes)
    left_out = whole.extra.get("processes_left_out")
    return Completeness(
        files=tuple(
            FileCompleteness(
                path=names.path(file.path),
                process=file.process,
                file=file.file,
                recorded_bytes_written=file.recorded_bytes_written,
                final_size=file.final_size,
                complete=file.complete,
            )
            for file in whole.files
        ),
        processes=tuple(
            ProcessCompleteness(
                process=one.process,
                recorded_bytes_read=one.recorded_bytes_read,
                recorded_bytes_written=one.recorded_bytes_written,
                kernel_bytes_read=one.kernel_bytes_read,
                kernel_bytes_written=one.kernel_bytes_written,
                other_bytes_read=one.other_bytes_read,
                other_bytes_written=one.other_bytes_written,
                ignored_bytes_read=one.ignored_bytes_read,
                ignored_bytes_written=one.ignored_bytes_written,
                ignored_opens=one.ignored_opens,
            )
            for one in whole.processes
        ),
        dropped_records=whole.dropped_records,
        unknown_descriptors=whole.unknown_descriptors,
        unmatched_completions=whole.unmatched_completions,
        cut_texts=whole.cut_texts,
        torn_records=whole.torn_records,
        notes=tuple(dict.fromkeys(notes)),
        extra={"processes_left_out": left_out} if type(left_out) is int else {},
    )


def _entry(entry: HistoryEntry) -> HistoryEntry:
    return HistoryEntry(
        action=entry.action if entry.action in ACTIONS else "other",
        tool_version=public_version(entry.tool_version),
    )


def _rounded(size_bytes: int | None) -> int | None:
    if size_bytes is None or size_bytes < _ROUND_BYTES:
        return size_bytes
    return round(size_bytes / _ROUND_BYTES) * _ROUND_BYTES
