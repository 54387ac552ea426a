"""Read traces: any file gives a Trace or one clear TraceFormatError.

Memory: what a file's pages declare must fit in a third of the memory that is available, or in the
limit given; see `iotrace.traces.trace_file`.
"""

from collections.abc import Sequence
from pathlib import Path

from iotrace.traces.environment import available_memory_bytes
from iotrace.traces.errors import TraceFormatError
from iotrace.traces.location import Location, locate
from iotrace.traces.merge import merge_traces
from iotrace.traces.merged_steps import STEP_COLUMNS
from iotrace.traces.metadata import Metadata
from iotrace.traces.newer import is_newer, known_words
from iotrace.traces.repeats import find_repeat
from iotrace.traces.schema import COLUMNS, REQUIRED_COLUMNS
from iotrace.traces.trace import Trace
from iotrace.traces.trace_file import MEMORY_SHARE, TraceFile


def read_trace(
    location: str | Path | Location,
    columns: Sequence[str] | None = None,
    limit_bytes: int | None = None,
) -> Trace:
    """Read the trace at `location`.

    Args:
        location: a file, a folder whose `*.parquet` files are one trace, or a URI.
        columns: names of the columns to read, all by default; those that no row can be without
            (layer, op, rank, process, thread, seq, start_ns) are always read.
        limit_bytes: most memory that the rows may take; a third of what is available by default.

    Returns:
        The rows sorted by `start_ns`. Columns that this version does not know are left out;
        known ones that the file lacks are null. So it is with words of a later minor version: see
        `iotrace.traces.newer`.

    Raises:
        TraceFormatError: there is no such file, it is not a trace, it is broken, or of a format
            that this version does not know; a folder holds a recording twice.
        ValueError: `columns` names no column of a trace.
    """
    unknown = set(columns or ()) - set(COLUMNS)
    if unknown:
        raise ValueError(f"a trace has no column {sorted(unknown)}; it has {COLUMNS}")
    wanted = [c for c in COLUMNS if columns is None or c in columns or c in REQUIRED_COLUMNS]
    found = locate(location)
    left_bytes = available_memory_bytes() // MEMORY_SHARE if limit_bytes is None else limit_bytes
    more: tuple[str, ...] = ("end_ns",) if len(found.paths) > 1 else ()
    more += STEP_COLUMNS if more and "step" in wanted else ()
    read = [c for c in COLUMNS if c in wanted or c in more]
    parts = []
    for path in found.paths:
        parts.append(TraceFile(found, path).read(read, left_bytes))
        left_bytes -= parts[-1].table.nbytes
    if len(parts) > 1 and (repeat := find_repeat(parts)):
        first, second = (found.paths[place] for place in repeat)
        raise TraceFormatError(
            f"{first} and {second} are the same recording twice; take one out of the folder"
        )
    whole = merge_traces(parts)
    newer = [v for v in (part.metadata.format_version for part in parts) if is_newer(v)]
    if newer:
        whole = known_words(whole, newer[0])
    return whole if read == wanted else Trace(whole.table.select(wanted), whole.metadata)


def read_metadata(location: str | Path) -> list[Metadata]:
    """Read the metadata alone, of each file of the trace in name order.

    Raises:
        TraceFormatError: as `read_trace`.
    """
    found = locate(location)
    return [TraceFile(found, path).metadata for path in found.paths]
