"""The recorded requests that can be replayed, as columns, and what was left out of them."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from iotrace.replay.job import DATA_OPS, Op, is_op
from iotrace.replay.paths import DEPTH_MAX, is_too_deep, rebase
from iotrace.replay.plan import Note
from iotrace.replay.table import Column, Table, narrow
from iotrace.traces.errors import PlanError
from iotrace.traces.file_numbers import knowers
from iotrace.traces.local_storage import owners
from iotrace.traces.phases import ends_ns, phases
from iotrace.traces.schema import MAX_MOVED_BYTES, MAX_PLACE_BYTES, REQUEST_LAYERS
from iotrace.traces.sync_kind import syncs_file_system
from iotrace.traces.trace import Trace

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]

_OPS = {op.name.lower(): op for op in Op if op is not Op.EVICT}
UNKNOWN = -1  # flags
_NULL = np.iinfo(np.int64).min
_NAMED = 1 << 31  # from here on `file` is a path's code
TENSORS_ALONE = "the trace holds tensors and no requests to replay; add --layer tensor"
NOTHING_TO_REPLAY = "the trace holds no request that can be replayed; look at `iotrace show`"
_OF_HOSTS = "names of files that each host has to itself, below a folder per host"
_UNNAMED = "a file without a name"
# fallocate modes that shift data (COLLAPSE_RANGE, INSERT_RANGE): the payload has no such notion.
_SHIFTS = 0x08 | 0x20


class RecordedRequests(Table):
    """Requests as recorded, a row each.

    Their columns:
        row: of the trace.
        op: of `job.Op`.
        process, thread, rank: who issued it.
        file: its number within the process; 2^31 and its path's code where it has none.
        knower: within what the numbers of files hold, see `file_numbers.knowers`.
        path, target: codes into the texts; -1: null.
        offset, length, moved: bytes; `moved` is what a data request transferred.
        flags: open flags, or the op's own; `UNKNOWN`: null.
        start_ns, end_ns: since the trace's epoch.
        step, phase: which checkpoint, and whether it saves or loads.
    """

    RECORD = np.dtype(
        [("op", "u1"), ("phase", "u1")]
        + [
            (name, "<i8")
            for name in (
                *("row", "process", "thread", "rank", "file", "knower", "path", "target"),
                *("offset", "length", "moved", "flags", "start_ns", "end_ns", "step"),
            )
        ]
    )
    DEFAULTS: ClassVar = {}


@dataclass(frozen=True, eq=False)
class Recorded:
    """What can be replayed, in order of issue.

    Attributes:
        requests: what was recorded of each.
        texts: the recorded paths.
        notes: what was left out.
    """

    requests: RecordedRequests
    texts: tuple[str, ...]
    notes: tuple[Note, ...]

    def __len__(self) -> int:
        return len(self.requests)

    def __getitem__(self, name: str) -> Column:
        """Return a column of the requests."""
        return self.requests[name]

    def at(self, name: str, index: Ints) -> Column:
        """Return a column of the requests at `index`."""
        return self.requests.at(name, index)

    def identities(self, index: Ints) -> Ints:
        """Return a number per file, whatever its name and process; -1: not known."""
        file, knower = self.at("file", index), self.at("knower", index)
        return np.where(file < _NAMED, (knower << 32) | file, -1)


def recorded_requests(trace: Trace, before: int | None = None) -> Recorded:
    """Return what can be replayed of a trace's requests.

    Args:
        trace: all of it, or rows that follow each other.
        before: of such rows, how many lie before them: there may be nothing to replay; None: all.

    Raises:
        PlanError: there is nothing to replay, or a number no file could have.
    """
    op = _op_codes(trace)
    requests = trace.row_mask(layer=REQUEST_LAYERS)
    data = is_op(op, DATA_OPS)
    failed, unmeasured, amounts = _amounts(trace, data)
    failed &= requests
    path, target, texts, of_hosts = _names(trace)
    columns = amounts | {"op": op, "path": narrow(path), "target": narrow(target)}
    columns["flags"] = narrow(trace.ints("flags", null=UNKNOWN))
    file = trace.ints("file")

    deep = np.array([*map(is_too_deep, texts), False], np.bool_)  # code -1 is the last

    two_names = is_op(op, (Op.RENAME, Op.LINK))
    nameless = is_op(op, (Op.MKDIR, Op.RMDIR, Op.UNLINK)) & (path < 0)
    nameless |= two_names & ((path < 0) | (target < 0))
    whole = (op == Op.SYNC) & syncs_file_system(columns["flags"])
    nameless |= (op > 0) & ~two_names & ~whole & (path < 0) & (file < 0)
    unplaced = data & ~failed & ~nameless & unmeasured
    shifts = np.zeros(len(trace), np.bool_)
    allocates = np.flatnonzero((op == Op.ALLOCATE) & ~failed)
    shifts[allocates] = trace.ints("flags", null=0)[allocates] & _SHIFTS != 0
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
    if before is None and not keep.any():
        if deep.any():
            rebase(texts[int(np.argmax(deep))])  # says what is wrong with it
        tensors_alone = trace.row_mask(layer="tensor").any()
        raise PlanError(TENSORS_ALONE if tensors_alone else NOTHING_TO_REPLAY)

    changes = shifts | (unplaced & (op == Op.WRITE))
    notes = (
        *([Note(_OF_HOSTS, of_hosts)] if of_hosts else []),
        *_left_out(left_out, changes, path, texts),
        *_not_replayed(trace, op, requests & ~failed),
    )
    columns["file"] = narrow(np.where(file >= 0, file, _NAMED + path.clip(0).astype(np.int64)))
    del path, target, file
    for name in ("process", "thread", "rank", "start_ns", "step"):
        columns[name] = narrow(trace.ints(name))
    columns["knower"] = narrow(knowers(trace.metadata, trace.ints("process")))
    columns["end_ns"] = narrow(ends_ns(trace))
    columns["phase"] = phases(trace)
    row = _in_order(trace, np.flatnonzero(keep))
    kept = RecordedRequests(len(trace), columns).take(row, row=row)
    _check_numbers(kept, before or 0)
    return Recorded(kept, texts, notes)


def _amounts(trace: Trace, data: Mask) -> tuple[Mask, Mask, dict[str, Column]]:
    """Return which rows failed, which name no place or size, and offset, length and bytes moved."""
    result, length = trace.ints("result", null=_NULL), trace.ints("length", null=_NULL)
    failed = (result < 0) & (result != _NULL)
    moved = np.where(result == _NULL, length, result)
    del result
    columns = {
        "length": narrow(_asked(length, moved, data)),
        "moved": narrow(np.where(data, moved, 0).clip(0)),
    }
    del length
    offset = trace.ints("offset", null=_NULL)
    unmeasured = (offset < 0) | (moved < 0)
    return failed, unmeasured, columns | {"offset": narrow(offset.clip(0))}


def _in_order(trace: Trace, row: Ints) -> Ints:
    """Return rows in order of issue: by their start, and as each process counted them."""
    start_ns, seq = trace.ints("start_ns")[row], trace.ints("seq")[row]
    ahead = start_ns[1:] > start_ns[:-1]
    if np.all(ahead | ((start_ns[1:] == start_ns[:-1]) & (seq[1:] >= seq[:-1]))):
        return row
    return row[np.lexsort((seq, start_ns))]


def _op_codes(trace: Trace) -> npt.NDArray[np.uint8]:
    codes, names = trace.codes("op")
    known = np.array([*(_OPS.get(name, 0) for name in names), 0], np.uint8)
    return np.where(trace.row_mask(layer=REQUEST_LAYERS), known[codes], np.uint8(0))


def _names(trace: Trace) -> tuple[Codes, Codes, tuple[str, ...], int]:
    """Return `path` and `target` as codes into the texts of both, -1 for null, and these.

    And how many of them are of files that a host has to itself.
    """
    path, paths = trace.codes("path")
    target, targets = trace.codes("target")
    shifted = np.where(target < 0, np.int32(-1), target + np.int32(len(paths)))
    texts = recorded = (*paths, *targets)
    owner = owners(trace)
    if owner is not None:
        path, texts = with_hosts_apart(path, texts, owner)
        shifted, texts = with_hosts_apart(shifted, texts, owner)
    return path, shifted, texts, len({*texts[len(recorded) :]})


def with_hosts_apart(
    codes: Codes, texts: tuple[str, ...], owner: Ints
) -> tuple[Codes, tuple[str, ...]]:
    """Return names, those of files that a host has to itself below a folder of that host.

    A replay has all of them on one storage.
    """
    own = np.flatnonzero((owner >= 0) & (codes >= 0))
    found, group = np.unique(np.stack([owner[own], codes[own]]), axis=1, return_inverse=True)
    codes = codes.copy()
    codes[own] = len(texts) + group.ravel()
    return codes, (*texts, *(f"/host-{host}{texts[code]}" for host, code in found.T.tolist()))


def _left_out(
    left_out: dict[str, Mask], changes: Mask, path: Codes, texts: tuple[str, ...]
) -> Iterator[Note]:
    """Yield what is left out; `changes` of it would have changed what a file holds."""
    for what, mask in left_out.items():
        if mask.any():
            codes = np.unique(path[mask & changes]).tolist()
            unlike = {texts[code] if code >= 0 else _UNNAMED for code in codes}
            yield Note(what, int(mask.sum()), files=tuple(sorted(unlike)))


def _not_replayed(trace: Trace, op: npt.NDArray[np.uint8], succeeded: Mask) -> Iterator[Note]:
    """Yield what of the requests is none that a replay issues."""
    maps = succeeded & trace.row_mask(op="map")
    if maps.any():
        mapped_bytes = int(trace.ints("length", null=0)[maps].clip(0).sum())
        yield Note("file mappings not replayed", int(maps.sum()), mapped_bytes)
    others = succeeded & (op == 0) & ~maps & ~trace.row_mask(op="evict")
    names = Counter(name for name in trace.where(others).strings("op") if name)
    for name, count in sorted(names.items()):
        yield Note(f"{name} requests not replayed", count)


def _asked(length: Ints, moved: Ints, data: Mask) -> Ints:
    """Return the bytes asked for; what moved where more was asked than a file can hold.

    cp and cat ask copy_file_range for 2^63 bytes and mean all there are.
    """
    unbounded = data & (length > MAX_PLACE_BYTES)
    asked = np.maximum(length, np.where(data, moved, 0)).clip(0)
    return np.where(unbounded & (moved >= 0), moved.clip(0), asked)


def _check_numbers(requests: RecordedRequests, before: int) -> None:
    for name in ("offset", "length"):
        values = requests[name]
        bad = np.flatnonzero(values > MAX_PLACE_BYTES)
        if len(bad):
            raise PlanError(
                f"row {before + requests['row'][bad[0]]} has {name} {values[bad[0]]}, more than a "
                "file can hold; the trace is damaged"
            )
    check_moved(moved_bytes(requests))


def moved_bytes(requests: RecordedRequests) -> float:
    """Return what the reads and writes ask for, in bytes; int64 need not hold it."""
    data = is_op(requests["op"], DATA_OPS)
    return float(np.sum(requests["length"], where=data, dtype=np.float64))


def check_moved(size_bytes: float) -> None:
    """Refuse more bytes than any job moves.

    Raises:
        PlanError: the trace is damaged.
    """
    if size_bytes > MAX_MOVED_BYTES:
        raise PlanError("the reads and writes move more than 2 EiB; the trace is damaged")
