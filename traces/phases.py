"""Which rows save a checkpoint, which load one, and how long each takes."""

import os
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from iotrace.traces.columns import IntArray, Mask
from iotrace.traces.elapsed import directed_seconds
from iotrace.traces.open_flags import last_opens
from iotrace.traces.schema import REQUEST_LAYERS
from iotrace.traces.trace import Trace

PhaseArray = npt.NDArray[np.uint8]


class Phase(IntEnum):
    """What a row belongs to."""

    OTHER = 0
    SAVE = 1
    LOAD = 2


_WRITING_OPS = ("write", "truncate", "allocate")
_SAVE_OPS = (
    *(*_WRITING_OPS, "sync"),
    *("rename", "link", "unlink", "mkdir", "rmdir"),
)
# These belong to what their file was opened for, or to this where the open was not seen.
_UNOPENED = {
    "read": Phase.LOAD,
    "map": Phase.LOAD,
    "unmap": Phase.LOAD,
    "fault": Phase.LOAD,
    "advise": Phase.LOAD,
}
_FOLLOWING_OPS = (*_UNOPENED, "close")
# Reads that serve a save move no more than this, or than this share of what it writes.
_SERVING_BYTES = 4096
_SERVING_SHARE = 0.01
# These come when the job lets go of the data, maybe long after it has saved or loaded them.
LINGERING_OPS = ("unmap", "close")


def phases(trace: Trace) -> PhaseArray:
    """Return the `Phase` of each row.

    Tensor and span rows are what their op says. A request that changes storage is of the save.
    An open is of the save if it asks to write. What follows on a file (reads, maps, advice,
    close) goes with the process's last open of that file before it. A read of what was opened to
    write, too, is of the span it is in, a save or a load. Outside of these it is of the save if
    more is written before the file is opened again, and all such reads of that opening are small
    beside what it writes: a header that is read back. Others are of a load.
    """
    out = np.zeros(len(trace), np.uint8)
    marks = trace.row_mask(layer=("tensor", "span"))
    out[marks & trace.row_mask(op="save")] = Phase.SAVE
    out[marks & trace.row_mask(op="load")] = Phase.LOAD

    requests = trace.row_mask(layer=REQUEST_LAYERS)
    out[requests & trace.row_mask(op=_SAVE_OPS)] = Phase.SAVE
    opens = requests & trace.row_mask(op="open") & trace.valid("flags")
    writable = (trace.ints("flags", null=0) & os.O_ACCMODE) != os.O_RDONLY
    out[opens] = np.where(writable[opens], Phase.SAVE, Phase.LOAD)

    for op, phase in _UNOPENED.items():
        out[requests & trace.row_mask(op=op)] = phase
    followers = requests & trace.row_mask(op=_FOLLOWING_OPS)
    source = last_opens(trace, opens, followers)
    found = source >= 0
    out[np.flatnonzero(followers)[found]] = out[source[found]]
    reads = followers & trace.row_mask(op="read") & (out == Phase.SAVE)
    if reads.any():
        out[_of_loads(trace, opens, reads)] = Phase.LOAD
    return out


def phase_seconds(trace: Trace, phase: Phase) -> float:
    """Return how long a phase's requests took, see `timed_seconds`, in seconds."""
    return timed_seconds(trace, phases(trace), phase)


def timed_seconds(trace: Trace, phase: PhaseArray, wanted: Phase) -> float:
    """Return how long the requests of a phase took, see `directed_seconds`, in seconds.

    Args:
        phase: of each row.
        wanted: SAVE, without what it reads, or LOAD, with what saves read.
    """
    chosen = trace.row_mask(layer=REQUEST_LAYERS) & (phase != Phase.OTHER)
    return directed_seconds(
        phase[chosen] == Phase.SAVE,
        trace.row_mask(op="read")[chosen],
        reading=wanted == Phase.LOAD,
        step=trace.ints("step")[chosen],
        start_ns=trace.ints("start_ns")[chosen],
        end_ns=ends_ns(trace)[chosen],
        lingers=trace.row_mask(op=LINGERING_OPS)[chosen],
    )


def ends_ns(trace: Trace) -> IntArray:
    """Return the end of each row; its start where the end is unknown or earlier."""
    start_ns = trace.ints("start_ns")
    known = trace.valid("end_ns")
    return np.maximum(start_ns, np.where(known, trace.ints("end_ns"), start_ns))


def _of_loads(trace: Trace, opens: Mask, reads: Mask) -> IntArray:
    """Return the rows of the reads of loads, among those of files that were opened to write."""
    rows = np.flatnonzero(reads)
    saved, loaded = (_in_span(trace, rows, op) for op in ("save", "load"))
    writes = trace.row_mask(layer=REQUEST_LAYERS, op=_WRITING_OPS)
    chosen = np.flatnonzero((opens | writes | reads) & trace.valid("file"))
    process, file = trace.ints("process"), trace.ints("file")
    chosen = chosen[np.lexsort((-chosen, file[chosen], process[chosen]))]  # the last comes first
    places = np.arange(len(chosen))
    next_end = np.maximum.accumulate(np.where(~reads[chosen], places, -1))
    after = chosen[next_end]
    same = (process[after] == process[chosen]) & (file[after] == file[chosen]) & (next_end >= 0)
    is_served = reads[chosen] & same & writes[after]
    moved = trace.ints("result", null=0)[chosen].clip(0).astype(np.float64)
    # Each opening ends with its open, as the last comes first, or where another file begins.
    begins = np.r_[True, opens[chosen][:-1] | (process[chosen][1:] != process[chosen][:-1])]
    begins[1:] |= file[chosen][1:] != file[chosen][:-1]
    opening = np.cumsum(begins) - 1
    read_bytes = np.bincount(opening, np.where(is_served, moved, 0))
    written_bytes = np.bincount(opening, np.where(trace.row_mask(op="write")[chosen], moved, 0))
    is_small = read_bytes <= np.maximum(_SERVING_BYTES, _SERVING_SHARE * written_bytes)
    serves = np.zeros(len(trace), np.bool_)
    serves[chosen] = is_served & is_small[opening]
    return rows[np.where(saved == loaded, ~serves[rows], loaded)]


def _in_span(trace: Trace, rows: IntArray, op: str) -> Mask:
    """Return which rows start while a span of their process is open."""
    spans = np.flatnonzero(trace.row_mask(layer="span", op=op))
    start_ns, process = trace.ints("start_ns"), trace.ints("process")
    moment = np.r_[start_ns[spans], start_ns[rows], ends_ns(trace)[spans]]
    opened = np.repeat((1, 0, -1), (len(spans), len(rows), len(spans)))
    # By process, then time; at one moment a span opens, rows start, and then it ends.
    order = np.lexsort((-opened, moment, process[np.r_[spans, rows, spans]]))
    depth = np.empty_like(opened)
    depth[order] = np.cumsum(opened[order])
    return np.asarray(depth[len(spans) : len(spans) + len(rows)] > 0)
