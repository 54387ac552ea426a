"""From a trace to a plan that issues exactly the recorded requests."""

import os
from collections.abc import Set

import numpy as np
import numpy.typing as npt

from iotrace.replay.barriers import OVERTAKEN, find_barriers
from iotrace.replay.content import find_content
from iotrace.replay.file_table import FileTable, Naming
from iotrace.replay.files import describe_files
from iotrace.replay.folder_opens import without_folder_opens
from iotrace.replay.folders import FOLDER_MODE, with_folders
from iotrace.replay.instances import Instances, find_instances
from iotrace.replay.job import Op, is_op
from iotrace.replay.paths import is_root, rebase
from iotrace.replay.plan import Applied, Note, Plan
from iotrace.replay.recorded import (
    NOTHING_TO_REPLAY,
    UNKNOWN,
    Recorded,
    RecordedRequests,
    recorded_requests,
)
from iotrace.replay.relocation import Relocation
from iotrace.replay.requests import Requests
from iotrace.replay.streams import with_streams
from iotrace.replay.table import narrow
from iotrace.replay.tensors import hosts_of, plan_from_tensors
from iotrace.traces.errors import PlanError
from iotrace.traces.open_flags import TMPFILE_BIT
from iotrace.traces.sync_kind import OF_FILE_SYSTEM, OF_FOLDER, syncs_folder
from iotrace.traces.trace import Trace

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]

LAYERS = ("request", "tensor")

# Flags that change what a replay does; the others (close-on-exec and its like) do not.
_KEPT_FLAGS = (
    os.O_ACCMODE | os.O_CREAT | os.O_EXCL | os.O_TRUNC | os.O_APPEND
    | os.O_DIRECT | os.O_SYNC | os.O_DSYNC
)  # fmt: skip
_FILE_MODE = 0o644
_OWNER = 0o600  # whatever a job's files allow, a replay must read back its own


def plan_from_trace(
    trace: Trace, layer: str = "request", before: int = 0, folders: Set[str] = frozenset()
) -> Plan:
    """Return the plan of a trace, untransformed.

    Args:
        trace: a trace, or a result, or a part of one: see `iotrace.replay.parts`.
        layer: `request` for what reached the system; `tensor` for what the engine meant: each
            tensor's extent as one request.
        before: of a part, how many rows lie before it.
        folders: names below the root that other names lie below, besides those that `trace` shows.

    Raises:
        PlanError: the trace holds nothing to replay, or names or numbers no replay could use.
    """
    if layer not in LAYERS:
        raise PlanError(f"no layer {layer!r}; choose one of {', '.join(LAYERS)}")
    if layer == "tensor":
        return plan_from_tensors(trace)
    recorded = recorded_requests(trace, before or None)
    instances = find_instances(recorded)
    table = FileTable(*_named_paths(recorded, folders))
    recorded, instances, left = without_folder_opens(recorded, instances, table)
    rows, namings, handles = _follow_names(recorded, instances, table, left, before)
    if not len(rows):
        raise PlanError(NOTHING_TO_REPLAY)
    flags = _open_flags(recorded, instances)
    requests = _requests(recorded, instances, rows, namings, handles, flags)
    is_new = (requests["op"] == Op.OPEN) & (namings[3] > 0)
    del instances, namings, handles, flags, left
    moved = np.where(rows < 0, 0, recorded.at("moved", _source(rows)))
    requests, streams = with_streams(requests, recorded, _source(rows), hosts_of(trace))
    barriers_ns, overtaken = find_barriers(trace, recorded)
    barriers_ns = barriers_ns - recorded.at("start_ns", _source(rows[:1]))
    left_out = recorded.notes
    del recorded, rows  # the most of the memory by now
    content = find_content(requests, moved, is_new, table.file_count)
    requests = content.requests
    notes = [*left_out, *content.notes]
    notes += [Note(what, count) for what, count in sorted(table.surprises.items())]
    added = int((requests["source_row"] < 0).sum())
    if added:
        notes.append(Note("opens added, of files open before the trace began", added))
    if overtaken:
        notes.append(Note(OVERTAKEN, overtaken))
    if (clocks := trace.metadata.clocks) > 1:
        notes.append(Note("recordings whose clocks nothing joins, one after another", clocks))
    relocation = Relocation()
    paths = tuple(table.paths)
    plan = Plan(
        files=describe_files(requests, paths, content.initial_bytes, relocation),
        paths=paths,
        streams=streams,
        requests=requests,
        pieces=content.pieces,
        relocation=relocation,
        history=(Applied("recorded", (("layer", layer),), tuple(notes)),),
        barriers_ns=barriers_ns,
    )
    return with_folders(plan)


def _named_paths(recorded: Recorded, folders: Set[str]) -> tuple[list[str], Set[str]]:
    """Return the recorded names, but for the root's as a folder, and those known to be folders."""
    of_folder = (recorded["op"] == Op.SYNC) & syncs_folder(recorded["flags"])
    codes = np.unique(recorded["path"][of_folder]).tolist()
    synced = [recorded.texts[code] for code in codes if not is_root(recorded.texts[code])]
    used = np.zeros(len(recorded.texts) + 1, np.bool_)  # the last: of no name
    used[recorded["path"][~of_folder]] = used[recorded["target"]] = True
    paths = [recorded.texts[code] for code in np.flatnonzero(used[:-1]).tolist()]
    return [*paths, *synced], folders | {*map(rebase, synced)}


def _follow_names(
    recorded: Recorded, instances: Instances, table: FileTable, left: Mask, before: int
) -> tuple[Ints, list[Codes], Codes]:
    """Walk over everything that has to do with names, in order, but for what is left out.

    Returns:
        The rows of the plan's requests (an implicit open as -1 - row of what it precedes), the
        fields of their namings, and their handles.
    """
    of_row = instances.of_row
    kept = ~left & ~((of_row < 0) & (recorded["op"] == Op.CLOSE))
    implicit = np.zeros(len(recorded), np.bool_)
    implicit[instances.first_row[instances.is_implicit]] = True
    begins = kept & (implicit | (recorded["op"] == Op.OPEN))
    # Per open of the trace, its number here.
    opened = np.full(len(instances.first_row) + 1, -1, np.int32)
    opens, others = _Namings(), _Namings()
    unknown: list[int] = []
    walked = np.flatnonzero(begins | (kept & (of_row < 0)))
    columns = [recorded.at(name, walked) for name in ("op", "path", "target", "flags")]
    columns += [recorded.identities(walked)]
    for row, is_open, op, path, target, flags, file in zip(
        *(walked.tolist(), begins[walked].tolist()),
        *(column.tolist() for column in columns),
        strict=True,
    ):
        if is_open:
            name = _name_of_open(recorded, row, path, op, flags, table, before)
            opens.add(table.open(name, 0 if flags == UNKNOWN or op != Op.OPEN else flags, file))
            continue
        naming = _naming(recorded.texts, table, op, path, target, flags, file)
        if naming is None:
            unknown.append(row)
        else:
            others.add(naming)
    kept[unknown] = False
    opened[of_row[begins]] = np.arange(int(begins.sum()))
    # An open that is not in the trace stands right before the request that it was found by.
    added = np.flatnonzero(begins & implicit)
    rows = np.flatnonzero(kept)
    rows = np.insert(rows, np.searchsorted(rows, added), -1 - added) if len(added) else rows
    handles = opened[of_row[_source(rows)]]
    namings = others.spread(handles < 0)
    for whole, part in zip(namings, opens.columns(), strict=True):
        whole[handles >= 0] = part[handles[handles >= 0]]
    return rows, namings, handles


def _source(rows: Ints) -> Ints:
    """Return the recorded requests of the plan's: an implicit open's is what it precedes."""
    return np.maximum(rows, -1 - rows) if rows.min(initial=0) < 0 else rows


class _Namings:
    """Namings as columns: file, path, target, and whether an open makes the file."""

    def __init__(self) -> None:
        self._fields: list[int] = []

    def add(self, naming: Naming) -> None:
        """Add one at the end."""
        self._fields += naming

    def columns(self) -> list[Codes]:
        """Return the fields of all, a column each."""
        return list(np.array(self._fields, np.int32).reshape(-1, 4).T)

    def spread(self, mask: npt.NDArray[np.bool_]) -> list[Codes]:
        """Return the same columns with the rows where `mask` is true, and -1 elsewhere."""
        columns = []
        for column in self.columns():
            whole = np.full(len(mask), -1, np.int32)
            whole[mask] = column
            columns.append(whole)
        return columns


def _name_of_open(
    recorded: Recorded, row: int, path: int, op: int, flags: int, table: FileTable, before: int
) -> str:
    if path < 0:
        process, file = (recorded.at(name, np.array([row]))[0] for name in ("process", "file"))
        name = f"/unnamed/process-{process}-file-{file}"
    elif op == Op.OPEN and flags != UNKNOWN and flags & TMPFILE_BIT:
        folder, _, last = recorded.texts[path].rpartition("/")
        if not last.startswith("#"):  # a folder, as in the call; the kernel says #INODE in it
            folder = recorded.texts[path]
        name = f"{folder}/unnamed-{before + row}"
    else:
        return recorded.texts[path]
    table.surprises["files without a name, given one beside any link"] += 1
    table.learn(name)
    return name


def _naming(
    texts: tuple[str, ...], table: FileTable, op: int, path: int, target: int, flags: int, file: int
) -> Naming | None:
    if op == Op.SYNC and flags in OF_FILE_SYSTEM:
        return Naming()
    if path < 0:
        return None
    name = texts[path]
    if op == Op.SYNC and flags in OF_FOLDER:
        return table.sync_directory(name)
    if op == Op.RENAME:
        return table.rename(name, texts[target], file)
    if op == Op.LINK:
        return table.link(name, texts[target], file)
    if op == Op.UNLINK:
        return table.unlink(name, file)
    if op == Op.MKDIR:
        return table.make_directory(name)
    if op == Op.RMDIR:
        return table.remove_directory(name)
    return table.find(name, file)


def _open_flags(recorded: Recorded, instances: Instances) -> Ints:
    """Return the flags of each open: the recorded ones, made to fit what it is used for."""
    count = len(instances.first_row)
    reads, writes = (
        np.bincount(instances.of_row[recorded["op"] == op], minlength=count)[:count] > 0
        for op in (Op.READ, Op.WRITE)
    )
    flags = recorded.at("flags", instances.first_row)
    unknown = (flags == UNKNOWN) | instances.is_implicit
    creates = np.where(writes & ~instances.is_implicit, os.O_CREAT, 0)
    access = np.where(writes, np.where(reads, os.O_RDWR, os.O_WRONLY), os.O_RDONLY)
    flags = np.where(unknown, access | creates, flags)
    lacks = (writes & (flags & os.O_ACCMODE == os.O_RDONLY)) | (
        reads & (flags & os.O_ACCMODE == os.O_WRONLY)
    )
    flags = np.where(lacks, (flags & ~os.O_ACCMODE) | os.O_RDWR, flags)
    unnamed = flags & TMPFILE_BIT != 0
    return np.where(unnamed, (flags | os.O_CREAT) & _KEPT_FLAGS, flags & _KEPT_FLAGS)


def _requests(
    recorded: Recorded,
    instances: Instances,
    rows: Ints,
    namings: list[Codes],
    handles: Codes,
    flags: Ints,
) -> Requests:
    source, added = _source(rows), rows < 0
    taken = recorded.requests.take(source)
    op = np.where(added, np.uint8(Op.OPEN), taken["op"])
    opens = op == Op.OPEN
    ranged = is_op(op, (Op.READ, Op.WRITE, Op.SYNC, Op.ALLOCATE))
    sized = ranged | (op == Op.TRUNCATE)
    flagged = np.flatnonzero(is_op(op, (Op.SYNC, Op.ALLOCATE)))
    own = np.zeros(len(rows), np.int64)
    own[flagged] = np.where(taken.at("flags", flagged) == UNKNOWN, 0, taken.at("flags", flagged))
    own[opens] = flags[instances.of_row[source[opens]]]
    file, path, target, _ = namings
    # Each is narrow before the next one is made: of a long trace all of them are much.
    return Requests.of(
        len(rows),
        op=op,
        source_row=narrow(np.where(added, -1, taken["row"])),
        handle=handles,
        file=file,
        path=np.where((handles >= 0) & ~opens, np.int32(-1), path),
        target=target,
        offset=narrow(np.where(ranged, taken["offset"], 0)),
        length=narrow(np.where(sized, taken["length"], 0)),
        flags=narrow(own),
        mode=_modes(taken, op, own),
        step=narrow(taken["step"].clip(-1)),
        phase=np.where(added, np.uint8(0), taken["phase"]),
    )


def _modes(
    recorded: RecordedRequests, op: npt.NDArray[np.uint8], flags: Ints
) -> npt.NDArray[np.int16]:
    """Return creation modes: an open's length is its mode, where the capture knew it."""
    creates = np.flatnonzero((op == Op.OPEN) & (flags & os.O_CREAT != 0))
    known = recorded.at("length", creates)
    modes = np.zeros(len(op), np.int16)
    modes[creates] = np.where((known > 0) & (known <= 0o7777), known | _OWNER, _FILE_MODE)
    modes[op == Op.MKDIR] = FOLDER_MODE
    return modes
