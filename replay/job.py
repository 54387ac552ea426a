"""The job: what the replay loop runs, laid out exactly as the C structs of loop_api.h."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from iotrace.replay.grouping import grouped
from iotrace.traces.errors import PlanError
from iotrace.traces.schema import MAX_PLACE_BYTES
from iotrace.traces.sync_kind import syncs_file_system, syncs_folder

# One row is one `struct loop_request`; a test compares every offset with the C compiler's.
REQUEST = np.dtype(
    [
        ("offset", "<i8"),
        ("length", "<i8"),
        ("due_ns", "<i8"),
        ("think_ns", "<i8"),
        ("first_piece", "<i8"),
        ("source_row", "<i8"),
        ("piece_count", "<i4"),
        ("file", "<i4"),
        ("handle", "<i4"),
        ("path", "<i4"),
        ("target", "<i4"),
        ("stream", "<i4"),
        ("flags", "<u4"),
        ("mode", "<u4"),
        ("file_before", "<u4"),
        ("file_fences", "<u4"),
        ("global_fences", "<u4"),
        ("step", "<i4"),
        ("op", "u1"),
        ("fence", "u1"),
        ("gather", "u1"),
        ("may_be_short", "u1"),
        ("phase", "u1"),
        ("mapping", "u1"),
        ("reserved", "u1", (2,)),
    ]
)
PIECE = np.dtype([("offset", "<i8"), ("length", "<i8"), ("file", "<i4"), ("reserved", "<i4")])
TIMING = np.dtype([("start_ns", "<i8"), ("end_ns", "<i8"), ("result", "<i8")])

# Bound of every offset and length of a plan, which may double those of a trace.
MAX_OFFSET_BYTES = 2 * MAX_PLACE_BYTES


class Op(IntEnum):
    """Ops the loop knows (`enum loop_op`)."""

    OPEN = 1
    CLOSE = 2
    READ = 3
    WRITE = 4
    SYNC = 5
    ALLOCATE = 6
    TRUNCATE = 7
    RENAME = 8
    UNLINK = 9
    MKDIR = 10
    RMDIR = 11
    LINK = 12
    EVICT = 13


class Mapping(IntEnum):
    """How a READ moves its bytes: by a read, or from the mapped file, with advice on it."""

    NONE = 0
    PLAIN = 1
    SEQUENTIAL = 2
    RANDOM = 3
    WILLNEED = 4


class Fence(IntEnum):
    """What a request waits for besides its place in its stream."""

    NONE = 0
    FILE = 1
    ALL = 2


DATA_OPS = (Op.READ, Op.WRITE)


def is_op(op: npt.NDArray[np.integer], ops: Iterable[Op]) -> npt.NDArray[np.bool_]:
    """Return which are among `ops`, a few: numpy.isin takes ten times as long.

    >>> is_op(np.array([3, 1, 4], np.uint8), DATA_OPS).tolist()
    [True, False, True]
    """
    found = np.zeros(len(op), np.bool_)
    for one in ops:
        found |= op == one
    return found


_NEED_HANDLE = (Op.OPEN, Op.CLOSE, Op.READ, Op.WRITE, Op.ALLOCATE)
_NEED_PATH = (Op.OPEN, Op.RENAME, Op.UNLINK, Op.MKDIR, Op.RMDIR, Op.LINK)
_NEED_TARGET = (Op.RENAME, Op.LINK)
_NEED_EITHER = (Op.SYNC, Op.TRUNCATE, Op.EVICT)


@dataclass(frozen=True, eq=False)
class Job:
    """A schedule ready to run: arrays that C reads in place.

    Attributes:
        requests: REQUEST rows; the order of indices is the order fences speak of.
        pieces: PIECE rows; a data request's own are `first_piece .. + piece_count`.
        stream_order: int64 request indices, grouped by stream, in order of issue.
        stream_starts: int64, one more than there are streams: offsets into `stream_order`.
        paths: names relative to the root of the replay.
        handle_count: number of opens; `requests["handle"]` indexes them.
        file_count: number of files; `requests["file"]` indexes them.
        stream_leads: int32, per stream the one that it goes ahead of, or -1: it starts a request
            once that one has started all of its own with a lower index; None: none does.
    """

    requests: npt.NDArray[np.void]
    pieces: npt.NDArray[np.void]
    stream_order: npt.NDArray[np.int64]
    stream_starts: npt.NDArray[np.int64]
    paths: tuple[str, ...]
    handle_count: int
    file_count: int
    stream_leads: npt.NDArray[np.int32] | None = None

    @property
    def stream_count(self) -> int:
        """Number of streams, empty ones included."""
        return len(self.stream_starts) - 1


def fence_counts(
    requests: npt.NDArray[np.void],
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32], npt.NDArray[np.uint32]]:
    """Count, for each request, what its fences compare with.

    Args:
        requests: REQUEST rows with `file` and `fence` set.

    Returns:
        `file_before`, `file_fences` and `global_fences`, each as long as `requests`.
    """
    fence = requests["fence"]
    everything = (fence == Fence.ALL).astype(np.uint32)
    global_fences = np.cumsum(everything, dtype=np.uint32) - everything
    file_before, file_fences = np.zeros((2, len(requests)), np.uint32)
    order = grouped(requests["file"])
    order = order[requests["file"][order] >= 0]
    if len(order):
        files = requests["file"][order]
        first = np.flatnonzero(np.r_[True, files[1:] != files[:-1]])
        group = np.repeat(first, np.diff(np.r_[first, len(files)]))
        fences = (fence[order] != Fence.NONE).astype(np.int64)
        running = np.cumsum(fences) - fences
        file_before[order] = np.arange(len(files)) - group
        file_fences[order] = running - running[group]
    return file_before, file_fences, global_fences


def check_job(job: Job) -> None:
    """Refuse a job whose indices or sums would lead C astray.

    Raises:
        PlanError: naming the first thing that is wrong.
    """
    for problem in _problems(job):
        raise PlanError(f"the job cannot run: {problem}; rebuild the plan")


def _problems(job: Job) -> Iterator[str]:
    yield from _layout_problems(job)
    yield from _stream_problems(job)
    yield from _request_problems(job)
    yield from _piece_problems(job)
    yield from _fence_problems(job)


def _layout_problems(job: Job) -> Iterator[str]:
    arrays = (
        ("requests", job.requests, REQUEST),
        ("pieces", job.pieces, PIECE),
        ("stream_order", job.stream_order, np.dtype(np.int64)),
        ("stream_starts", job.stream_starts, np.dtype(np.int64)),
    )
    for name, array, dtype in arrays:
        if array.dtype != dtype or array.ndim != 1 or not array.flags.c_contiguous:
            yield f"{name} is not a contiguous array of {dtype}"
    if max(job.handle_count, job.file_count, len(job.paths)) >= 2**31:
        yield "more than 2**31 handles, files or paths"
    if min(job.handle_count, job.file_count) < 0:
        yield "a negative number of handles or files"
    if any("\0" in path for path in job.paths):
        yield "a path holds a NUL byte"


def _stream_problems(job: Job) -> Iterator[str]:
    starts, count = job.stream_starts, len(job.requests)
    if len(starts) == 0 or starts[0] != 0 or starts[-1] != count or np.any(np.diff(starts) < 0):
        yield "stream_starts does not run from 0 to the number of requests"
        return
    order = job.stream_order
    if len(order) != count or not np.array_equal(np.sort(order), np.arange(count)):
        yield "stream_order does not name every request once"
        return
    expected = np.repeat(np.arange(job.stream_count), np.diff(starts))
    if not np.array_equal(job.requests["stream"][order], expected):
        yield "a request lies in another stream than its own"
    leads = job.stream_leads
    if leads is not None and not (
        leads.dtype == np.int32
        and leads.shape == (job.stream_count,)
        and np.all((leads >= -1) & (leads < job.stream_count))
    ):
        yield "stream_leads does not give each stream another or none"


def _request_problems(job: Job) -> Iterator[str]:
    rows = job.requests
    op = rows["op"]
    limits = (
        ("file", job.file_count),
        ("handle", job.handle_count),
        ("path", len(job.paths)),
        ("target", len(job.paths)),
    )
    for name, count in limits:
        if np.any((rows[name] < -1) | (rows[name] >= count)):
            yield f"{name} out of range"
    if np.any((op < min(Op)) | (op > max(Op))):
        yield "unknown op"
    if np.any((rows["mapping"] > max(Mapping)) | ((rows["mapping"] > 0) & (op != Op.READ))):
        yield "a mapping that no read can have"
    for name in ("offset", "length"):
        if np.any((rows[name] < 0) | (rows[name] > MAX_OFFSET_BYTES)):
            yield f"{name} out of range"
    for name in ("due_ns", "think_ns"):
        if np.any((rows[name] < 0) | (rows[name] > MAX_OFFSET_BYTES)):
            yield f"{name} out of range"
    for name, ops in (("handle", _NEED_HANDLE), ("path", _NEED_PATH), ("target", _NEED_TARGET)):
        if np.any(np.isin(op, ops) & (rows[name] < 0)):
            yield f"a request lacks its {name}"
    rooted = (op == Op.SYNC) & (syncs_file_system(rows["flags"]) | syncs_folder(rows["flags"]))
    if np.any(is_op(op, _NEED_EITHER) & ~rooted & (rows["handle"] < 0) & (rows["path"] < 0)):
        yield "a request lacks both handle and path"
    opened = np.bincount(rows["handle"][op == Op.OPEN].clip(0), minlength=1)
    if opened.max() > 1:
        yield "a handle is opened twice"


def _piece_problems(job: Job) -> Iterator[str]:
    pieces = job.pieces
    for name in ("offset", "length"):
        if np.any((pieces[name] < 0) | (pieces[name] > MAX_OFFSET_BYTES)):
            yield f"a piece's {name} is out of range"
            return
    if np.any(pieces["file"] < -2):
        yield "a piece's file is out of range"
    data = is_op(job.requests["op"], DATA_OPS)
    first, count = job.requests["first_piece"][data], job.requests["piece_count"][data]
    if np.any((first < 0) | (count < 0) | (first > len(pieces)) | (count > len(pieces) - first)):
        yield "pieces out of range"
        return
    end, length = first + count, job.requests["length"][data]
    # Modulo 2**64: a sum that wraps and still equals `length` needs 8 EiB of pieces,
    # which the exact float sum beside it excludes.
    total = np.zeros(len(pieces) + 1, np.uint64)
    np.cumsum(pieces["length"], out=total[1:], dtype=np.uint64)
    wrong = np.any(total[end] - total[first] != length.astype(np.uint64))
    rough = total.view(np.float64)
    np.cumsum(pieces["length"], out=rough[1:], dtype=np.float64)
    if wrong or np.any(rough[end] - rough[first] > 2.0**62):
        yield "the pieces of a request do not add up to its length"


def _fence_problems(job: Job) -> Iterator[str]:
    rows = job.requests
    if np.any(rows["fence"] > Fence.ALL):
        yield "unknown fence"
    if np.any((rows["fence"] == Fence.FILE) & (rows["file"] < 0)):
        yield "a fence on a file without a file"
    counts = fence_counts(rows)
    for name, expected in zip(("file_before", "file_fences", "global_fences"), counts, strict=True):
        if not np.array_equal(rows[name], expected):
            yield f"{name} does not count the requests before"
