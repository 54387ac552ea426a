"""Read traces: any file gives a Trace or one clear TraceFormatError.

Memory: what the pages declare (decoded values of 8 bytes, and text) must fit in a third of the
memory that is available, or in the limit given; else the file is refused before it is decoded.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from iotrace.traces.bounds import check_dimensions, check_rows
from iotrace.traces.environment import available_memory_bytes
from iotrace.traces.errors import TraceFormatError
from iotrace.traces.location import PARQUET_MAGIC, Location, locate, one_line
from iotrace.traces.merge import merge_traces
from iotrace.traces.merged_steps import STEP_COLUMNS
from iotrace.traces.metadata import Metadata
from iotrace.traces.newer import is_newer, known_words
from iotrace.traces.parquet_size import needed_bytes, stored_values
from iotrace.traces.repeats import find_repeat
from iotrace.traces.schema import (
    COLUMNS,
    METADATA_KEY,
    REQUIRED_COLUMNS,
    SCHEMA,
    TEXT_COLUMNS,
)
from iotrace.traces.stores import StoreError, told
from iotrace.traces.trace import Trace, sort_rows
from iotrace.traces.words import sized

# All that a broken or hostile file makes Arrow raise. ArrowInvalid is a ValueError.
_READ_ERRORS = (
    *(pa.ArrowException, OSError, MemoryError),
    *(ValueError, TypeError, LookupError, RuntimeError, OverflowError),
)
_TEXT = pa.dictionary(pa.int32(), pa.string())  # how text comes out of any file
# `check` and `show` were seen to take 1.7 times what the rows need, a replay 2.5 times.
_SHARE = 3


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
    left_bytes = available_memory_bytes() // _SHARE if limit_bytes is None else limit_bytes
    more: tuple[str, ...] = ("end_ns",) if len(found.paths) > 1 else ()
    more += STEP_COLUMNS if more and "step" in wanted else ()
    read = [c for c in COLUMNS if c in wanted or c in more]
    parts = []
    for path in found.paths:
        parts.append(_read_file(found, path, read, left_bytes))
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
    return [_metadata(_open(found, path, _source(found, path)), path) for path in found.paths]


def _read_file(location: Location, path: str, wanted: Sequence[str], limit_bytes: int) -> Trace:
    source = _source(location, path)
    file = _open(location, path, source)
    metadata = _metadata(file, path)
    try:
        _check_columns(file, path)
        present = [name for name in wanted if name in file.schema_arrow.names]
        if "shape" in present and file.metadata.num_rows:  # before they are decoded
            mean = stored_values(source, "shape") // file.metadata.num_rows
            check_dimensions(mean)
        _refuse_over(limit_bytes, needed_bytes(source, frozenset(present)), path)
        # Nothing here holds the groups: they go column by column.
        groups = _row_groups(file, path, present, limit_bytes)
        return Trace(sort_rows(_to_schema(pa.concat_tables(groups), wanted)), metadata)
    except _READ_ERRORS as error:
        raise _broken(location, path, error) from error


def _source(location: Location, path: str) -> pa.NativeFile:
    try:
        return location.open(path)
    except PermissionError as error:
        raise TraceFormatError(f"{path} may not be read by this user; check its mode") from error
    except _READ_ERRORS as error:
        raise _broken(location, path, error) from error


def _open(location: Location, path: str, source: pa.NativeFile) -> pq.ParquetFile:
    try:
        footer = pq.read_metadata(source)
        leaves = {footer.schema.column(i).path for i in range(footer.num_columns)}
        words = [name for name in TEXT_COLUMNS if name in leaves]
        return pq.ParquetFile(
            source, metadata=footer, read_dictionary=words, pre_buffer=location.is_remote
        )
    except _READ_ERRORS as error:
        raise _broken(location, path, error) from error


def _metadata(file: pq.ParquetFile, path: str) -> Metadata:
    stored = (file.metadata.metadata or {}).get(METADATA_KEY)
    if stored is None:
        raise TraceFormatError(
            f"{path} is a Parquet file but not a trace; `iotrace capture` writes one"
        )
    try:
        return Metadata.from_json(stored)
    except TraceFormatError as error:
        raise TraceFormatError(f"{path}: {error}") from error


def _check_columns(file: pq.ParquetFile, path: str) -> None:
    names = file.schema_arrow.names
    twice = {name for name in names if names.count(name) > 1} if len(names) < 1000 else {"?"}
    missing = [name for name in REQUIRED_COLUMNS if name not in names]
    if twice or missing:
        what = f"lacks the column {missing[0]!r}" if missing else "has a column twice"
        raise TraceFormatError(f"{path} {what}, so it is no trace; write it again")
    for field in file.schema_arrow:
        if field.name in COLUMNS and not _is_readable(field):
            raise TraceFormatError(
                f"{path} has a column {field.name!r} of {str(field.type)[:80]}, "
                f"not of {SCHEMA.field(field.name).type}; write it again"
            )


def _is_readable(field: pa.Field) -> bool:
    """Return whether the stored type can become the schema's without growing on the way."""
    if field.name in TEXT_COLUMNS:
        return field.type in (_TEXT, pa.null())
    kind = field.type
    if field.name == "shape" and (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
        kind = kind.value_type
    elif field.name == "shape":
        return bool(kind == pa.null())
    # Other programs turn integers with nulls into floats.
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or kind == pa.null())


def _refuse_over(limit_bytes: int, rows_bytes: int, path: str) -> None:
    if rows_bytes > limit_bytes:
        raise TraceFormatError(
            f"{path} takes {sized(rows_bytes)} of memory when decoded, and work on it up to "
            f"{_SHARE} times that; the rows may take {sized(limit_bytes)} here: use a larger "
            "machine, or a part of it, as docs/trace-format.md shows"
        )


def _row_groups(
    file: pq.ParquetFile, path: str, present: Sequence[str], limit_bytes: int
) -> Iterator[pa.Table]:
    yield pa.schema([file.schema_arrow.field(name) for name in present]).empty_table()
    read_bytes = 0
    for i in range(file.metadata.num_row_groups):
        group = file.read_row_group(i, columns=present)
        group.validate(full=True)
        check_rows(group)
        read_bytes += group.nbytes
        _refuse_over(limit_bytes, read_bytes, path)
        yield group


def _to_schema(table: pa.Table, wanted: Sequence[str]) -> pa.Table:
    """Return the `wanted` columns of `table` in the schema's types, without chunks."""
    fields = [SCHEMA.field(name) for name in wanted]
    columns = {name: table.column(name) for name in table.column_names}
    rows = table.num_rows
    del table
    whole = []
    for field in fields:  # each is let go of before the next is copied
        column = columns.pop(field.name, None)
        whole.append(_to_field(column, field, rows).combine_chunks())
    return pa.Table.from_arrays(whole, schema=pa.schema(fields))


def _to_field(column: pa.ChunkedArray | None, field: pa.Field, rows: int) -> Any:
    if column is None:
        return pa.chunked_array([pa.nulls(rows, field.type)])
    if column.type == _TEXT:
        column = _distinct(column).unify_dictionaries()
    column = column.cast(field.type)
    if column.null_count and not field.nullable:
        raise ValueError(f"the column {field.name!r} has nulls")
    return column


def _distinct(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the same text with a dictionary that lists each value once, and no null."""
    return pa.chunked_array([_distinct_chunk(chunk) for chunk in column.chunks], _TEXT)


def _distinct_chunk(chunk: pa.DictionaryArray) -> pa.DictionaryArray:
    words = chunk.dictionary
    if words.null_count == 0 and len(pc.unique(words)) == len(words):
        return chunk
    recoded = words.dictionary_encode()
    return pa.DictionaryArray.from_arrays(recoded.indices.take(chunk.indices), recoded.dictionary)


def _broken(location: Location, path: str, error: Exception) -> TraceFormatError:
    # What is wrong with the bytes is an ArrowException; an OSError is of the way to them.
    if location.is_remote and isinstance(error, OSError):
        try:
            with told(location.name):
                raise error
        except StoreError as clear:
            return clear
    begins = _first_bytes(location, path)
    reason, advice = one_line(error), "if a capture was cut short, `iotrace recover` its raw logs"
    if begins.startswith(b"{"):
        reason = "it is JSON"
        advice = "give the trace itself, or the result that replay writes with -o"
    elif begins and begins != PARQUET_MAGIC:
        reason = "it is no Parquet file"
        advice = (
            "`iotrace convert` reads checkpoints and other tools' logs, `iotrace check` tells what "
            "is left of a torn checkpoint"
        )
    return TraceFormatError(f"{path} is not a readable trace ({reason}); {advice}")


def _first_bytes(location: Location, path: str) -> bytes:
    """Return the first 4 bytes of a file; fewer if they cannot be read."""
    try:
        with location.open(path) as source:
            return bytes(source.read(4))
    except _READ_ERRORS:
        return b""
