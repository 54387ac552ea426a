"""Files that several of the merged traces wrote: judged by the writes of all of them."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from iotrace.traces.columns import Mask
from iotrace.traces.intervals import Intervals
from iotrace.traces.metadata import FileCompleteness
from iotrace.traces.open_flags import has_flag
from iotrace.traces.trace import Trace

INT32_MAX = 2**31 - 1
COLUMNS = ("file", "offset", "length", "result", "flags")


def judged_together(trace: Trace, processes: Sequence[int]) -> Trace:
    """Return a merged trace that calls those shared files complete which its writes fill.

    Each trace saw what its own ranks wrote of a file: alone, none of them explains all of it.

    Args:
        trace: the merged one.
        processes: how many are of each part, in order.
    """
    completeness = trace.metadata.completeness
    part_of = np.repeat(np.arange(len(processes)), processes).tolist()
    by_path: defaultdict[str, list[FileCompleteness]] = defaultdict(list)
    for file in completeness.files:
        if 0 <= file.process < len(part_of) and 0 <= file.file <= INT32_MAX:
            by_path[file.path].append(file)
    shared = {
        path: files
        for path, files in by_path.items()
        if not all(file.complete for file in files)
        and len({part_of[file.process] for file in files}) > 1
    }
    if not shared or not {*COLUMNS} <= {*trace.table.column_names}:
        return trace
    rows = trace.where(is_on(trace, (file for files in shared.values() for file in files)))
    filled = {path: filled_bytes(rows.where(is_on(rows, files))) for path, files in shared.items()}
    files = tuple(
        replace(file, recorded_bytes_written=filled[file.path], complete=True)
        if file.path in shared
        and file.final_size is not None
        and file.final_size <= filled[file.path]
        else file
        for file in completeness.files
    )
    metadata = replace(trace.metadata, completeness=replace(completeness, files=files))
    return trace.with_metadata(metadata)


def filled_bytes(rows: Trace) -> int:
    """Return the end of what one file was given without a hole, since it was last emptied."""
    start_ns, offset, moved = (rows.ints(name) for name in ("start_ns", "offset", "result"))
    empties = rows.row_mask(layer="request", op="open") & has_flag(rows.ints("flags"), os.O_TRUNC)
    empties |= rows.row_mask(layer="request", op="truncate") & (rows.ints("length") == 0)
    emptied_ns = start_ns[empties & (moved >= 0)].max(initial=0)
    writes = rows.row_mask(layer="request", op="write") & (moved > 0) & (offset >= 0)
    writes &= start_ns >= emptied_ns
    filled = Intervals.of(offset[writes], offset[writes] + moved[writes])
    return int(filled.ends[0]) if len(filled.starts) and filled.starts[0] == 0 else 0


def is_on(trace: Trace, files: Iterable[FileCompleteness]) -> Mask:
    """Return which rows are on some files, as the processes of each know it."""
    known = np.array([(file.process << 32) + file.file for file in files], np.int64)
    return np.isin((trace.ints("process") << 32) + trace.ints("file"), known)
