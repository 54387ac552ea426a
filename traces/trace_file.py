"""One file of a trace: any file gives rows or one clear TraceFormatError.

Memory: what the pages declare (decoded values of 8 bytes, and text) must fit in the limit given;
else the file is refused before it is decoded.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from iotrace.traces.bounds import check_dimensions, check_rows
from iotrace.traces.errors import TraceFormatError
from iotrace.traces.location import PARQUET_MAGIC, Location, one_line
from iotrace.traces.metadata import Metadata
from iotrace.traces.parquet_size import needed_bytes, stored_values
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
MEMORY_SHARE = 3


class TraceFile:
    """An open file of a trace.

    Attributes:
        path: of it.
        metadata: what the trace says of itself.
        rows: how many there are, as the footer tells.

    Raises:
        TraceFormatError: it cannot be read, or is no trace.
    """

    def __init__(self, location: Location, path: str) -> None:
        self.path = path
        self._location = location
        self._source = _source(location, path)
        self._file = _open(location, path, self._source)
        self.metadata = _metadata(self._file, path)
        self.rows = int(self._file.metadata.num_rows)

    def read(self, wanted: Sequence[str], limit_bytes: int) -> Trace:
        """Return all rows, sorted by `start_ns`.

        Args:
            wanted: the columns, in schema order; null where the file lacks one.
            limit_bytes: most memory that the rows may take.

        Raises:
            TraceFormatError: the file is broken, or takes more memory.
        """
        try:
            present = self._checked(wanted)
            refuse_over(limit_bytes, sum(self._needed_bytes(present)), self.path)
            # Nothing here holds the groups: they go column by column.
            groups = _row_groups(self._file, self.path, present, limit_bytes)
            return Trace(sort_rows(_to_schema(pa.concat_tables(groups), wanted)), self.metadata)
        except _READ_ERRORS as error:
            raise _broken(self._location, self.path, error) from error

    def batches(self, wanted: Sequence[str], limit_bytes: int) -> Iterator[Trace]:
        """Yield the rows of each row group as they are stored; see `read`.

        One row group at a time is in memory.
        """
        try:
            present = self._checked(wanted)
            for i, size_bytes in enumerate(self._needed_bytes(present)):
                refuse_over(limit_bytes, size_bytes, self.path)
                group = _row_group(self._file, i, present)
                refuse_over(limit_bytes, group.nbytes, self.path)
                yield Trace(_to_schema(group, wanted), self.metadata)
        except _READ_ERRORS as error:
            raise _broken(self._location, self.path, error) from error

    def _checked(self, wanted: Sequence[str]) -> list[str]:
        """Return which of the wanted columns there are, once they can be read."""
        _check_columns(self._file, self.path)
        present = [name for name in wanted if name in self._file.schema_arrow.names]
        if "shape" in present and self.rows:  # before they are decoded
            mean = stored_values(self._source, "shape") // self.rows
            check_dimensions(mean)
        return present

    def _needed_bytes(self, present: Sequence[str]) -> list[int]:
        return needed_bytes(self._source, frozenset(present))


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


def refuse_over(limit_bytes: int, rows_bytes: int, path: str) -> None:
    """Refuse rows of a file that take more memory than they may.

    Raises:
        TraceFormatError: they do.
    """
    if rows_bytes > limit_bytes:
        raise TraceFormatError(
            f"{path} takes {sized(rows_bytes)} of memory when decoded, and work on it up to "
            f"{MEMORY_SHARE} times that; the rows may take {sized(limit_bytes)} here: use a larger "
            "machine, or a part of it, as docs/trace-format.md shows"
        )


def _row_groups(
    file: pq.ParquetFile, path: str, present: Sequence[str], limit_bytes: int
) -> Iterator[pa.Table]:
    yield pa.schema([file.schema_arrow.field(name) for name in present]).empty_table()
    read_bytes = 0
    for i in range(file.metadata.num_row_groups):
        group = _row_group(file, i, present)
        read_bytes += group.nbytes
        refuse_over(limit_bytes, read_bytes, path)
        yield group


def _row_group(file: pq.ParquetFile, index: int, present: Sequence[str]) -> pa.Table:
    group = file.read_row_group(index, columns=present)
    group.validate(full=True)
    check_rows(group)
    return group


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
