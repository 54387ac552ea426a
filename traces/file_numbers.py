"""What the numbers of files mean, and such as mean one file in several traces that are joined."""

from dataclasses import replace

import numpy as np
import pyarrow as pa

from iotrace.traces.columns import IntArray
from iotrace.traces.metadata import Metadata
from iotrace.traces.trace import Trace

_CAPTURES = ("capture", "recover")


def knowers(metadata: Metadata, process: IntArray) -> IntArray:
    """Return within what the file numbers of each of some processes hold: its host, or itself.

    A capture numbers the files of all processes of a host together; the format asks less of others.
    """
    is_captured = any(entry.action in _CAPTURES for entry in metadata.history)
    inside = process.min(initial=0) >= 0 and process.max(initial=-1) < len(metadata.processes)
    if not is_captured or not inside:
        return process
    return np.array([one.host for one in metadata.processes], np.int64)[process]


def renumbered_files(
    table: pa.Table, metadata: Metadata, before: int
) -> tuple[pa.Table, Metadata, int]:
    """Return a trace whose file numbers begin at `before`, and where the next one's may begin.

    A number stands for one file afterwards, whatever the process.
    """
    if "file" not in table.column_names:
        return table, metadata, before
    trace, files = Trace(table, metadata), metadata.completeness.files
    known = trace.valid("file")
    process = np.r_[trace.ints("process")[known], [one.process for one in files]].astype(np.int64)
    file = np.r_[trace.ints("file")[known], [one.file for one in files]].astype(np.int64)
    keys = (knowers(metadata, process) << 32) | (file & 0xFFFFFFFF)
    found, number = np.unique(keys, return_inverse=True)
    number = number.ravel() + before
    column = np.zeros(len(trace), np.int64)
    column[known] = number[: int(known.sum())]
    place = table.column_names.index("file")
    field = table.schema.field(place)
    stored = pa.array(column, field.type, mask=~known)
    own = number[len(number) - len(files) :].tolist()
    completeness = replace(
        metadata.completeness,
        files=tuple(replace(one, file=new) for one, new in zip(files, own, strict=True)),
    )
    return (
        table.set_column(place, field, stored),
        replace(metadata, completeness=completeness),
        before + len(found),
    )
