"""The recorded requests that can be replayed, as columns, and what was left out of them."""

from collections import Counter
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from iotrace.replay.job import DATA_OPS, Op, is_op
from iotrace.replay.paths import DEPTH_MAX, is_too_deep, rebase
from iotrace.replay.plan import Note
from iotrace.traces.errors import PlanError
from iotrace.traces.open_flags import opens_folder
from iotrace.traces.phases import ends_ns, phases
from iotrace.traces.schema import MAX_MOVED_BYTES, MAX_PLACE_BYTES, REQUEST_LAYERS
from iotrace.traces.trace import Trace

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_OPS = {op.name.lower(): op for op in Op if op is not Op.EVICT}
_CAPTURES = ("capture", "recover")
NULL = np.iinfo(np.int64).min
TENSORS_ALONE = "the trace holds tensors and no requests to replay; add --layer tensor"
NOTHING_TO_REPLAY = "the trace holds no request that can be replayed; look at `iotrace show`"
_UNNAMED = "a file without a name"
# fallocate modes that shift data (COLLAPSE_RANGE, INSERT_RANGE): the payload has no such notion.
_SHIFTS = 0x08 | 0x20


@dataclass(frozen=True, eq=False)
class Recorded:
    """Columns of equal length, in order of issue. `NULL` stands for nulls.

    Attributes:
        row: row of the trace.
        op: of `job.Op`.
        process, thread, rank: who issued it.
        key: one number per file of a process.
        identity: one number per file, whatever its name and process; -1: not known.
        path, target: codes into `texts`; -1: null.
        offset, length, moved: bytes; `moved` is what a data request transferred.
        flags: open flags, or the op's own.
        start_ns, end_ns: since the trace's epoch.
        step, phase: which checkpoint, and whether it saves or loads.
        texts: the recorded paths.
        notes: what was left out.
    """

    row: Ints
    op: Ints
    process: Ints
    thread: Ints
    rank: Ints
    key: Ints
    identity: Ints
    path: Ints
    target: Ints
    offset: Ints
    length: Ints
    moved: Ints
    flags: Ints
    start_ns: Ints
    end_ns: Ints
    step: Ints
    phase: Ints
    texts: tuple[str, ...]
    notes: tuple[Note, ...]

    def __len__(self) -> int:
        return len(self.row)


def recorded_requests(trace: Trace) -> Recorded:
    """Return what can be replayed of a trace's requests.

    Raises:
        PlanError: there is nothing to replay, or a number no file could have.
    """
    op = _op_codes(trace)
    requests = trace.row_mask(layer=REQUEST_LAYERS)
    result = trace.ints("result", null=NULL)
    failed = requests & (result < 0) & (result != NULL)
    data = is_op(op, DATA_OPS)
    offset, length = trace.ints("offset", null=NULL), trace.ints("length", null=NULL)
    moved = np.where(result == NULL, length, result)
    path, target, texts = _names(trace)
    file = trace.ints("file")

    deep = np.array([*map(is_too_deep, texts), False], np.bool_)  # code -1 is the last

    two_names = is_op(op, (Op.RENAME, Op.LINK))
    nameless = np.where(is_op(op, (Op.MKDIR, Op.RMDIR, Op.UNLINK)), path < 0, False)
    nameless |= two_names & ((path < 0) | (target < 0))
    whole = (op == Op.SYNC) & (trace.ints("flags", null=0) >= 4)
    nameless |= (op > 0) & ~two_names & ~whole & (path < 0) & (file < 0)
    unplaced = data & ~failed & ~nameless & ((offset < 0) | (moved < 0))
    shifts = (op == Op.ALLOCATE) & ~failed & (trace.ints("flags", null=0) & _SHIFTS != 0)
    left_out = {
        "requests that failed when recorded, left out": failed & (op > 0),
        "requests without a file or a name, left out": nameless & ~failed,
        "reads and writes at an unknown offset, left out": unplaced,
        "allocations that shift data, left out": shifts,
        f"requests on files more than {DEPTH_MAX} folders deep, left out": (op > 0)
        & ~failed
        & (deep[path] | deep[target]),
    }
    keep = requests & (op > 0)
    for mask in left_out.values():
        keep &= ~mask
    if not keep.any():
        if deep.any():
            rebase(texts[int(np.argmax(deep))])  # says what is wrong with it
        tensors_alone = trace.row_mask(layer="tensor").any()
        raise PlanError(TENSORS_ALONE if tensors_alone else NOTHING_TO_REPLAY)

    row = np.flatnonzero(keep)
    row = row[np.lexsort((trace.ints("seq")[row], trace.ints("start_ns")[row]))]
    process = trace.ints("process")
    key = (process << 32) | np.where(file >= 0, file, 2**31 + path.clip(0))
    recorded = Recorded(
        row=row,
        op=op[row],
        process=process[row],
        thread=trace.ints("thread")[row],
        rank=trace.ints("rank")[row],
        key=key[row],
        identity=np.where(file < 0, -1, (_knowers(trace) << 32) | file)[row],
        path=path[row],
        target=target[row],
        offset=offset[row].clip(0),
        length=_asked(length, moved, data)[row],
        moved=np.where(data[row], moved[row], 0),
        flags=np.where(trace.valid("flags"), trace.ints("flags"), NULL)[row],
        start_ns=trace.ints("start_ns")[row],
        end_ns=ends_ns(trace)[row],
        step=trace.ints("step")[row],
        phase=phases(trace)[row].astype(np.int64),
        texts=texts,
        notes=_notes(
            trace, left_out, shifts | (unplaced & (op == Op.WRITE)), op, requests & ~failed
        ),
    )
    _check_numbers(recorded)
    return recorded


def _op_codes(trace: Trace) -> Ints:
    codes, names = trace.codes("op")
    known = np.array([*(_OPS.get(name, 0) for name in names), 0], np.int64)
    return np.where(trace.row_mask(layer=REQUEST_LAYERS), known[codes], 0)


def _names(trace: Trace) -> tuple[Ints, Ints, tuple[str, ...]]:
    """Return `path` and `target` as codes into the texts of both, -1 for null, and these."""
    path, paths = trace.codes("path")
    target, targets = trace.codes("target")
    shifted = np.where(target < 0, -1, target.astype(np.int64) + len(paths))
    return path.astype(np.int64), shifted, (*paths, *targets)


def _knowers(trace: Trace) -> Ints:
    """Return, per row, within what the numbers of files hold: the process's host, or itself.

    A capture numbers the files of all its processes together; the schema asks less of others.
    """
    process = trace.ints("process")
    history, processes = trace.metadata.history, trace.metadata.processes
    is_captured = bool(history) and history[0].action in _CAPTURES
    inside = process.min(initial=0) >= 0 and process.max(initial=0) < len(processes)
    if not is_captured or not inside:
        return process
    return np.array([one.host for one in processes], np.int64)[process]


def _notes(
    trace: Trace, left_out: dict[str, Mask], changes: Mask, op: Ints, succeeded: Mask
) -> tuple[Note, ...]:
    """Return what is left out; `changes` of it would have changed what a file holds."""
    counted = []
    for what, mask in left_out.items():
        if mask.any():
            codes = np.unique(trace.text_codes("path")[mask & changes]).tolist()
            unlike = {trace.text("path", code) if code >= 0 else _UNNAMED for code in codes}
            counted.append(Note(what, int(mask.sum()), files=tuple(sorted(unlike))))
    maps = succeeded & trace.row_mask(op="map")
    if maps.any():
        mapped_bytes = int(trace.ints("length", null=0)[maps].clip(0).sum())
        counted.append(Note("file mappings not replayed", int(maps.sum()), mapped_bytes))
    others = succeeded & (op == 0) & ~maps & ~trace.row_mask(op="evict")
    names = Counter(name for name in trace.where(others).strings("op") if name)
    counted += [Note(f"{name} requests not replayed", n) for name, n in sorted(names.items())]
    return tuple(counted)


def _asked(length: Ints, moved: Ints, data: Mask) -> Ints:
    """Return the bytes asked for; what moved where more was asked than a file can hold.

    cp and cat ask copy_file_range for 2^63 bytes and mean all there are.
    """
    unbounded = data & (length > MAX_PLACE_BYTES)
    asked = np.maximum(length, np.where(data, moved, 0)).clip(0)
    return np.where(unbounded & (moved >= 0), moved.clip(0), asked)


def _check_numbers(recorded: Recorded) -> None:
    for name in ("offset", "length"):
        values = getattr(recorded, name)
        bad = np.flatnonzero(values > MAX_PLACE_BYTES)
        if len(bad):
            raise PlanError(
                f"row {recorded.row[bad[0]]} has {name} {values[bad[0]]}, more than a file can "
                "hold; the trace is damaged"
            )
    data = is_op(recorded.op, DATA_OPS)
    if recorded.length[data].astype(np.float64).sum() > MAX_MOVED_BYTES:
        raise PlanError("the reads and writes move more than 2 EiB; the trace is damaged")


def is_directory_open(recorded: Recorded) -> Mask:
    """Return which opens are of directories, and not of unnamed files in them."""
    flags = np.where(recorded.flags == NULL, 0, recorded.flags)
    return np.asarray((recorded.op == Op.OPEN) & opens_folder(flags))
