"""Files that several of the merged traces wrote: judged by the writes of all of them."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from iotrace.traces.columns import IntArray, Strings
from iotrace.traces.intervals import Intervals
from iotrace.traces.local_storage import hosts_with_own
from iotrace.traces.metadata import FileCompleteness, Metadata
from iotrace.traces.open_flags import has_flag
from iotrace.traces.trace import Trace

INT32_MAX = 2**31 - 1
COLUMNS = ("file", "offset", "length", "result", "flags")


def judged_together(trace: Trace, processes: Sequence[int]) -> Trace:
    """Return a merged trace that calls those shared files complete which its writes fill.

    Each trace saw what its own ranks wrote of a file: alone, none of them explains all of it. Files
    of one name that hosts have each to themselves are several.

    Args:
        trace: the merged one.
        processes: how many are of each part, in order.
    """
    completeness = trace.metadata.completeness
    part_of = np.repeat(np.arange(len(processes)), processes).tolist()
    names = _names(trace.metadata)
    by_name: defaultdict[tuple[int, str], list[FileCompleteness]] = defaultdict(list)
    for name, file in zip(names, completeness.files, strict=True):
        if 0 <= file.process < len(part_of) and 0 <= file.file <= INT32_MAX:
            by_name[name].append(file)
    shared = {
        name: _keys([file.process for file in files], [file.file for file in files])
        for name, files in by_name.items()
        if not all(file.complete for file in files)
        and len({part_of[file.process] for file in files}) > 1
    }
    if not shared or not {*COLUMNS} <= {*trace.table.column_names}:
        return trace
    keys = _keys(trace.ints("process"), trace.ints("file"))
    changes = _Changes.of(trace.where(np.isin(keys, np.concatenate([*shared.values()]))))
    filled = {name: changes.filled_bytes(known) for name, known in shared.items()}
    files = tuple(
        replace(file, recorded_bytes_written=filled[name], complete=True)
        if name in shared and file.final_size is not None and file.final_size <= filled[name]
        else file
        for name, file in zip(names, completeness.files, strict=True)
    )
    metadata = replace(trace.metadata, completeness=replace(completeness, files=files))
    return trace.with_metadata(metadata)


def _names(metadata: Metadata) -> list[tuple[int, str]]:
    """Return each file's path, with the host that has it to itself before it, else -1."""
    files = metadata.completeness.files
    paths = Strings.of([file.path for file in files])
    process = np.array([file.process for file in files], np.int64)
    owner = hosts_with_own(metadata, process, paths.codes, paths.values)
    return [(host, file.path) for host, file in zip(owner.tolist(), files, strict=True)]


@dataclass(frozen=True, eq=False)
class _Changes:
    """Rows sorted by `key`; `emptied_ns`: when a row emptied its file, else 0."""

    key: IntArray
    start_ns: IntArray
    emptied_ns: IntArray
    begin: IntArray
    end: IntArray

    @classmethod
    def of(cls, rows: Trace) -> _Changes:
        start_ns, offset, moved = (rows.ints(name) for name in ("start_ns", "offset", "result"))
        empties = rows.row_mask(layer="request", op="open") & has_flag(
            rows.ints("flags"), os.O_TRUNC
        )
        empties |= rows.row_mask(layer="request", op="truncate") & (rows.ints("length") == 0)
        writes = rows.row_mask(layer="request", op="write") & (moved > 0) & (offset >= 0)
        begin = np.where(writes, offset, 0)
        columns = (
            _keys(rows.ints("process"), rows.ints("file")),
            start_ns,
            np.where(empties & (moved >= 0), start_ns, 0),
            begin,
            np.where(writes, offset + moved, begin),
        )
        order = np.argsort(columns[0], kind="stable")
        return cls(*(column[order] for column in columns))

    def filled_bytes(self, keys: IntArray) -> int:
        """Return the end of what one file was given without a hole, since it was last emptied.

        Args:
            keys: of the file in each of its processes.
        """
        known = np.unique(keys)
        first, last = (np.searchsorted(self.key, known, side) for side in ("left", "right"))
        rows = np.concatenate([np.arange(*ends) for ends in zip(first, last, strict=True)])
        emptied_ns = self.emptied_ns[rows].max(initial=0)
        rows = rows[(self.start_ns[rows] >= emptied_ns) & (self.end[rows] > self.begin[rows])]
        filled = Intervals.of(self.begin[rows], self.end[rows])
        return int(filled.ends[0]) if len(filled.starts) and filled.starts[0] == 0 else 0


def _keys(process: Sequence[int] | IntArray, file: Sequence[int] | IntArray) -> IntArray:
    """Return one number for each file as a process knows it."""
    return (np.asarray(process, np.int64) << 32) + np.asarray(file, np.int64)
