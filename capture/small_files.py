"""Leave small files out of a trace: settings, locks and logs beside a checkpoint."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from iotrace.traces.metadata import ProcessCompleteness
from iotrace.traces.trace import Trace


def without_small_files(trace: Trace, least_bytes: int) -> Trace:
    """Return the trace of the files that held at least some bytes at any time.

    A file is kept or left out whole, with its tensors, so that what is kept can be replayed. What
    the requests left out moved counts as ignored; requests on no known file stay.

    Args:
        least_bytes: 0 keeps all.
    """
    file = trace.ints("file")
    sizes = largest_sizes(trace)
    small = np.zeros(len(trace), np.bool_)
    small[file >= 0] = sizes[file[file >= 0]] < least_bytes
    if not small.any():
        return trace
    completeness = trace.metadata.completeness
    kept = set(np.flatnonzero(sizes >= least_bytes).tolist())
    changed = replace(
        completeness,
        files=tuple(f for f in completeness.files if f.file in kept),
        processes=tuple(
            with_ignored(process, trace.where(small & (trace.ints("process") == process.process)))
            for process in completeness.processes
        ),
        extra=completeness.extra | {"small_files_left_out": int((sizes < least_bytes).sum())},
    )
    return trace.where(~small).with_metadata(replace(trace.metadata, completeness=changed))


def largest_sizes(trace: Trace) -> npt.NDArray[np.int64]:
    """Return by file the largest size that is known: at the end, or reached by a request."""
    file = trace.ints("file")
    sizes = np.zeros(int(file.max(initial=-1)) + 1, np.int64)
    is_data = trace.row_mask(layer="request", op=("read", "write", "map", "allocate")) & (file >= 0)
    reach = trace.ints("offset", null=0) + trace.ints("length", null=0)
    moved = trace.ints("offset", null=0) + trace.ints("result", null=0).clip(min=0)
    is_moved = trace.row_mask(op=("read", "write"))
    ends = np.where(is_moved, moved, reach)
    np.maximum.at(sizes, file[is_data], ends[is_data])
    cuts = trace.row_mask(layer="request", op="truncate") & (file >= 0)
    np.maximum.at(sizes, file[cuts], trace.ints("length", null=0)[cuts])
    for found in trace.metadata.completeness.files:
        if 0 <= found.file < len(sizes):
            sizes[found.file] = max(sizes[found.file], found.final_size or 0)
    return sizes


def with_ignored(process: ProcessCompleteness, left_out: Trace) -> ProcessCompleteness:
    """Return a process's counts after some of its rows were left out."""
    moved = left_out.ints("result", null=0).clip(min=0)
    is_request = left_out.row_mask(layer="request")
    read, written = (
        int(moved[is_request & left_out.row_mask(op=op)].sum()) for op in ("read", "write")
    )
    return replace(
        process,
        recorded_bytes_read=process.recorded_bytes_read - read,
        recorded_bytes_written=process.recorded_bytes_written - written,
        ignored_bytes_read=process.ignored_bytes_read + read,
        ignored_bytes_written=process.ignored_bytes_written + written,
    )
