"""Raw logs of a job -> its trace."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from iotrace.capture.accounts import account_of, own_accounts, unseen_without_log
from iotrace.capture.appends import place_appends, swapped_appends
from iotrace.capture.blocks import (
    CODED_COLUMNS,
    NULLS,
    PRIVATE_COLUMNS,
    Block,
    Context,
    Words,
    empty_block,
    joined,
)
from iotrace.capture.clock import Clock
from iotrace.capture.completeness import (
    file_completeness,
    lost_names,
    process_completeness,
    unknown_places,
    unread_direct,
    written_files,
)
from iotrace.capture.faults import Faults, faults_of, read_faults
from iotrace.capture.files import FileTable, identify
from iotrace.capture.folder_syncs import place_folder_syncs
from iotrace.capture.links import by_opened_names
from iotrace.capture.mapped import mapped_bytes
from iotrace.capture.notes import Notes, read_notes
from iotrace.capture.processes import describe_process, has_ended, rank_of
from iotrace.capture.rawlog import LOG_LIMIT, SUFFIX, RawLog, read_raw_log
from iotrace.capture.requests import Requests, Rows
from iotrace.capture.roster import Roster, read_roster, unlogged
from iotrace.capture.rows import DATA_LAYERS, process_block, request_ops
from iotrace.capture.shared_positions import (
    doubtful_since_taken,
    mark_taken,
    put_in_order,
    uncertain_offsets,
)
from iotrace.capture.spans import labelling
from iotrace.capture.steps import in_steps
from iotrace.capture.thread_positions import mark_swapped, seeks_of, swapped_places
from iotrace.traces.environment import boot_id, describe_host
from iotrace.traces.errors import CaptureError
from iotrace.traces.foreign_json import parse_foreign_json
from iotrace.traces.metadata import Completeness, Host, Metadata
from iotrace.traces.mounts import find_mounts
from iotrace.traces.schema import MAX_DIMENSIONS
from iotrace.traces.trace import Column, Ints, Shapes, Strings, Trace
from iotrace.traces.version import tool_version
from iotrace.traces.words import plural

# A process that does nothing else is no part of the job's I/O: `ls`, `test -e`.
LOOK_UPS = ("stat", "getxattr")
HOOK_LAYERS = (*DATA_LAYERS, "counter")


def collect(raw_dir: Path, command: Sequence[str]) -> Trace:
    """Return the trace of a job from the raw logs it left, which stay as they are.

    A job that did nothing in scope has no raw logs and gives a trace without rows.

    Args:
        raw_dir: folder of the raw logs.
        command: what was run, for the metadata.

    Raises:
        CaptureError: the folder cannot be read.
    """
    found, unreadable = read_folder(raw_dir)
    logs = [log for log in found if is_of_interest(log)]
    clock = Clock.of(logs)
    files = identify(logs, clock)
    notes = in_steps(by_opened_names(read_notes(logs, clock), files), logs)
    context = Context(clock, files, labelling(notes, files), Words())
    faults = read_faults(raw_dir)
    blocks = list(process_blocks(logs, notes, faults, context))
    block = in_time_order(joined(blocks or [empty_block()]))
    requests = Requests(block, context.words, seeks_of(logs, clock))
    place_folder_syncs(requests, files.paths)
    doubts = [*swapped_appends(place_appends(requests))]
    racing = put_in_order(requests, files)
    doubts += swapped_places(mark_swapped(requests))
    doubts += doubtful_since_taken(mark_taken(requests, logs, files, clock))
    here = describe_host()
    boots = list(dict.fromkeys([*(log.header.boot_id for log in logs), here.boot_id]))
    hosts = tuple(here if boot == here.boot_id else Host(boot_id=boot) for boot in boots)
    metadata = Metadata(
        epoch_realtime_ns=clock.epoch_realtime_ns,
        epoch_monotonic_ns=clock.epoch_monotonic_ns,
        tool_version=tool_version(),
        command=tuple(command),
        hosts=hosts,
        mounts=find_mounts(used_paths(files), boots.index(here.boot_id)),
        processes=tuple(
            describe_process(log, boots.index(log.header.boot_id), notes.of_log(place))
            for place, log in enumerate(logs)
        ),
        completeness=describe_completeness(
            found,
            logs,
            requests,
            context,
            notes,
            unreadable,
            read_roster(raw_dir, found),
            faults,
            racing,
            doubts,
        ),
    )
    return Trace.from_columns(as_columns(block, context), metadata)


def read_folder(raw_dir: Path) -> tuple[list[RawLog], list[str]]:
    """Return the raw logs of a folder in order of process start, and why others are left out."""
    try:
        paths = sorted(raw_dir.glob(f"*{SUFFIX}"))
        next(raw_dir.iterdir(), None)  # glob is silent about a folder that is not there
    except OSError as error:
        raise CaptureError(
            f"cannot read {raw_dir}: {error.strerror}; name a raw log folder"
        ) from None
    logs, unreadable = [], []
    for path in paths:
        try:
            logs.append(read_raw_log(path))
        except CaptureError as error:
            unreadable.append(str(error))
    logs.sort(key=lambda log: (log.header.pid_start_ticks, log.header.monotonic_ns))
    return logs, unreadable


def is_of_interest(log: RawLog) -> bool:
    """Return whether a process did more than start: a request, a tensor or a span."""
    if len(log.rows(*(op for op in request_ops(log) if op not in LOOK_UPS))):
        return True
    return any(is_about_data(log.text(row)) for row in log.rows("note").tolist())


def is_about_data(note: bytes) -> bool:
    """Return whether a note is a row of the trace."""
    try:
        fields = parse_foreign_json(note)
    except ValueError:
        return False
    return isinstance(fields, dict) and fields.get("layer") in DATA_LAYERS


def process_blocks(
    logs: Sequence[RawLog], notes: Notes, faults: Faults, context: Context
) -> Iterator[Block]:
    """Yield the rows of each process."""
    for place, log in enumerate(logs):
        every = notes.of_log(place)
        own = [note for note in every if note.layer in HOOK_LAYERS]
        on_files = faults_of(place, logs, context.files.logs, faults)
        yield process_block(place, log, rank_of(log, every), own, on_files, context)


def in_time_order(block: Block) -> Block:
    """Return the rows sorted by start, those of equal time as they were; empties `block`."""
    order = np.argsort(block["start_ns"], kind="stable")
    return {name: block.pop(name)[order] for name in list(block)}


def as_columns(block: Block, context: Context) -> Mapping[str, Column]:
    """Return a block as the trace takes it: words by name, nulls marked."""
    columns: dict[str, Column] = {}
    for name, values in block.items():
        if name in PRIVATE_COLUMNS:
            continue
        if name == "shape":
            columns[name] = Shapes(values, context.words.shape.values())
        elif name in CODED_COLUMNS:
            columns[name] = Strings(values, getattr(context.words, name).values())
        elif name in ("path", "target"):
            columns[name] = Strings(values, context.files.paths.values())
        elif name in NULLS:
            columns[name] = Ints(values, values != NULLS[name])
        else:
            columns[name] = values
    return columns


def used_paths(files: FileTable) -> Iterator[str]:
    """Yield the last names of all files."""
    return (files.paths[code] for code in files.last_paths.tolist())


def describe_completeness(
    found: Sequence[RawLog],
    logs: Sequence[RawLog],
    requests: Requests,
    context: Context,
    notes: Notes,
    unreadable: Sequence[str],
    roster: Roster,
    faults: Faults,
    racing: Mapping[int, Rows],
    doubts: Sequence[str],
) -> Completeness:
    """Return what is known to be missing from the rows of the trace.

    Args:
        found: all logs; what those without rows lost counts as well.
        logs: the logs of the trace's processes, in order.
        roster: the processes of this host.
        racing: by file the writes at once through one position that could not be put in order.
        doubts: which requests may have taken each other's places.
    """
    endings = [p.ending for p in roster.without_log() if p.ending]
    written = written_files(requests, context.files)
    accounts = own_accounts(logs, found, roster)
    processes = tuple(process_completeness(requests, logs, accounts))
    return Completeness(
        files=tuple(file_completeness(requests, written, context.files, boot_id(), racing)),
        processes=processes,
        dropped_records=sum(log.header.outside.dropped_records for log in found)
        + sum(ending.dropped_records for ending in endings),
        unknown_descriptors=sum(log.header.outside.unknown_descriptors for log in found),
        unmatched_completions=requests.unfinished()
        + sum(log.header.outside.unmatched_completions for log in found),
        cut_texts=sum(log.header.outside.cut_texts for log in found)
        + sum(note.has_cut_name for note in notes.notes),
        torn_records=sum(log.torn_records for log in found),
        notes=(
            *unreadable,
            *(f"{log.path.name} is cut: its last records are lost" for log in found if log.is_cut),
            *stopped_logs(found),
            *unfinished_processes(logs, roster),
            *running_unlogged(roster),
            *unlogged(roster),
            *roster.unwatched,
            *unseen_without_log(roster),
            *unknown_submissions(found),
            *mapped_bytes(requests, faults),
            *uncertain_offsets(racing, context.files),
            *doubts,
            *unknown_places(requests),
            *unread_direct(requests, context.files),
            *lost_names(written, context.files, boot_id()),
            *hook_problems(notes),
        ),
        extra={"processes_left_out": len(found) - len(logs)},
    )


def stopped_logs(logs: Sequence[RawLog]) -> Iterator[str]:
    """Yield why logs stopped growing, once for each reason."""
    reasons = Counter(log.header.stopped_by for log in logs if log.header.stopped_by)
    for reason, count in reasons.items():
        why = "--log-limit" if reason == LOG_LIMIT else os.strerror(-reason)
        yield f"{plural(count, 'raw log')} stopped growing ({why})"


def unfinished_processes(logs: Sequence[RawLog], roster: Roster) -> Iterator[str]:
    """Yield which processes did not come to their end: that is when they tell the counters."""
    for place, log in enumerate(logs):
        who = f"process {place} (pid {log.header.pid}, {' '.join(log.header.argv)[:80]})"
        if not has_ended(log.header):
            yield f"{who} still runs: what it does from now on is not in the trace"
        elif not account_of(log, roster.program_of(log)):
            yield f"{who} was killed: it may have been in the middle of a request"


def running_unlogged(roster: Roster) -> Iterator[str]:
    """Yield which processes go on that have not touched a file yet."""
    for program in roster.running():
        yield (
            f"pid {program.pid} ({program.name}) still runs: "
            "what it does from now on is not in the trace"
        )


def unknown_submissions(logs: Sequence[RawLog]) -> Iterator[str]:
    """Yield how many requests to rings were seen and not understood."""
    unknown = sum(log.header.outside.unknown_submissions for log in logs)
    if unknown:
        requests = plural(unknown, "request")
        yield f"{requests} to an io_uring that is not understood: not in the trace"


def hook_problems(notes: Notes) -> Iterator[str]:
    """Yield the hooks that did not bind, and how many notes were lost."""
    failed = (note for note in notes.of("hook") if note.fields.get("bound") is False)
    yield from dict.fromkeys(
        f"no tensors from {note.text('engine')}: {note.text('detail') or 'unknown reason'}"
        for note in failed
    )
    if notes.unreadable:
        yield f"{plural(notes.unreadable, 'note')} of hooks could not be read"
    if lost := sum(note.has_lost_shape for note in notes.notes):
        yield f"{plural(lost, 'shape')} of more than {MAX_DIMENSIONS} dimensions left out"
