"""CSV with the columns of a trace: for tools that read no Parquet, and for logs made by scripts.

The first line names the columns, in any order; `op` and `start_ns` must be there. An empty field is
null, a quoted empty one an empty text. A shape is written `2x3`, and `scalar` without dimensions.
"""

from __future__ import annotations

import csv as python_csv
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from iotrace.traces.bounds import check_dimensions
from iotrace.traces.check import find_gaps
from iotrace.traces.columns import Column, IntArray, Ints, Shapes, Strings
from iotrace.traces.environment import available_memory_bytes
from iotrace.traces.errors import TraceFormatError
from iotrace.traces.formats.lines import GZIP_MAGIC, Lines
from iotrace.traces.formats.rows import noted
from iotrace.traces.formats.source import Source
from iotrace.traces.location import one_line
from iotrace.traces.metadata import Metadata, Process
from iotrace.traces.schema import COLUMNS, SCHEMA, TEXT_COLUMNS
from iotrace.traces.trace import Trace
from iotrace.traces.version import tool_version
from iotrace.traces.writer import replacing

NAME = "csv"
_REQUIRED = ("op", "start_ns")
_SCALAR = "scalar"
_GROWTH = 8  # of a file of digits in memory, at most, with all that is made of it
_UNKNOWN = "made of CSV: what was missing from its source is not known"
_ROWS_AT_A_TIME = 1 << 12
_MOST_PROCESSES = 1 << 20
_ROW = re.compile(r"Row #(\d+): ")  # from 1, the names included, blank lines not
_NAMES_ROWS = 1
_INT64 = range(-(2**63), 2**63)


class _RowError(ValueError):
    """A row, counted from 0 in the order of the file, is wrong."""

    def __init__(self, row: int, what: str) -> None:
        super().__init__(what)
        self.row = row


def looks_like(source: Source) -> bool:
    """Return whether the first line names columns of a trace, and the ones that must be there."""
    names = _names(next(source.first_lines(1), ""))
    return set(_REQUIRED) <= set(names) <= set(COLUMNS)


def _names(line: str) -> list[str]:
    """Return the names of the columns; what is around them, pyarrow takes for a part of them."""
    return [name.strip('"') for name in line.rstrip("\r\n").split(",")]


def read(path: Path) -> Trace:
    """Return the rows of a CSV file.

    Raises:
        TraceFormatError: a column or a value is none of a trace's; it is named.
    """
    with path.open("rb") as file:
        if file.read(len(GZIP_MAGIC)) == GZIP_MAGIC:
            raise TraceFormatError(f"{path} is compressed; unpack it first")
    names = _names(next(iter(Lines(path)), ""))
    if names == [""]:
        raise TraceFormatError(f"{path} is empty; the first line names the columns")
    unknown = [name for name in names if name not in COLUMNS]
    missing = [name for name in _REQUIRED if name not in names]
    if unknown or missing or len(set(names)) < len(names):
        what = f"lacks the column {missing[0]!r}" if missing else "has a column twice"
        what = f"has a column {unknown[0][:40]!r}, which no trace has" if unknown else what
        raise TraceFormatError(f"{path}, line 1: the table {what}; there are: {', '.join(COLUMNS)}")
    if path.stat().st_size * _GROWTH > available_memory_bytes() // 2:
        raise TraceFormatError(f"{path} does not fit into memory; split it")
    try:
        trace = _trace(_table(path, _conversions(names)))
    except (pa.ArrowException, ValueError, TypeError, OverflowError, OSError) as error:
        what = _ROW.sub("", one_line(error))
        raise TraceFormatError(f"{path}{_at(path, error)}: {what}; correct it") from error
    completeness = noted(_UNKNOWN, *find_gaps(trace))
    return trace.with_metadata(replace(trace.metadata, completeness=completeness))


def _conversions(names: Sequence[str]) -> csv.ConvertOptions:
    types = {name: SCHEMA.field(name).type for name in names if name != "shape"}
    for name in TEXT_COLUMNS:
        types |= {name: pa.string()} if name in names else {}
    types |= {"shape": pa.string()} if "shape" in names else {}
    return csv.ConvertOptions(
        column_types=types,
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )


def _table(path: Path, conversions: csv.ConvertOptions) -> pa.Table:
    return csv.read_csv(
        path,
        read_options=csv.ReadOptions(use_threads=False),  # else errors do not tell the row
        parse_options=csv.ParseOptions(newlines_in_values=True),
        convert_options=conversions,
    )


def place(path: Path) -> Callable[[Trace, int], str]:
    """Return what tells the line of a row of the trace, which is sorted, that a file was read as.

    Raises:
        OSError: the file is gone.
    """

    def line_of(trace: Trace, row: int) -> str:
        start_ns = _table(path, csv.ConvertOptions(include_columns=["start_ns"])).column(0)
        return _line(path, int(np.argsort(start_ns.to_numpy(), kind="stable")[row]))

    return line_of


def _line(path: Path, row: int) -> str:
    """Return the line that a row begins on; a text in quotes may have several."""
    last = 0
    with path.open(encoding="latin-1", newline="") as file:
        reader = python_csv.reader(file)
        try:
            for fields in reader:
                if fields and row < 0:
                    return f"line {last + 1}"
                row -= bool(fields)
                last = reader.line_num
        except python_csv.Error:  # a text that is too long
            pass
    return f"a line behind {last}"


def _at(path: Path, error: Exception) -> str:
    found = _ROW.search(str(error))
    if isinstance(error, _RowError):
        return f", {_line(path, error.row)}"
    return f", {_line(path, int(found[1]) - 1 - _NAMES_ROWS)}" if found else ""


def _trace(table: pa.Table) -> Trace:
    rows = table.num_rows
    columns: dict[str, Column] = {"layer": Strings.constant("request", rows)}
    for name in table.column_names:
        column = table.column(name)
        if column.null_count and not SCHEMA.field(name).nullable:
            row = int(np.argmin(column.is_valid().to_numpy()))
            raise _RowError(row, f"the column {name!r} has an empty field")
        if name == "shape":
            texts = enumerate(column.to_pylist())
            columns[name] = Shapes.of([_shape(row, text) for row, text in texts])
        elif name in TEXT_COLUMNS:
            columns[name] = Strings(*Trace(pa.table({name: column}), Metadata()).codes(name))
        else:
            values = column.fill_null(0).to_numpy()
            columns[name] = Ints(values, np.asarray(column.is_valid().to_numpy()))
    used = _processes(table)
    metadata = Metadata(
        tool_version=tool_version(),
        processes=tuple(Process(0) for _ in range(used)),
    )
    return Trace.from_columns(columns, metadata)


def _processes(table: pa.Table) -> int:
    """Return how many processes the rows are of."""
    if "process" not in table.column_names:
        return int(table.num_rows > 0)
    numbers: IntArray = table.column("process").to_numpy()
    outside = (numbers < 0) | (numbers >= _MOST_PROCESSES)
    if outside.any():
        row = int(outside.argmax())
        raise _RowError(row, f"the process {numbers[row]} is not numbered from 0")
    return int(numbers.max(initial=-1)) + 1


def _shape(row: int, text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    try:
        shape = () if text == _SCALAR else tuple(int(size) for size in text.split("x"))
    except ValueError as error:
        raise _RowError(row, f"the shape {text[:40]!r} is none, as 2x3 or {_SCALAR}") from error
    if any(size not in _INT64 for size in shape):
        raise _RowError(row, f"the shape {text[:40]!r} does not fit 64 bits")
    try:
        check_dimensions(len(shape))
    except ValueError as error:
        raise _RowError(row, str(error)) from error
    return shape


def write(trace: Trace, target: Path) -> list[str]:
    """Write all rows and columns; return what CSV leaves out.

    Raises:
        OSError: the file cannot be written.
    """
    empty = _written(trace.table.slice(0, 0))
    with replacing(target) as file, csv.CSVWriter(file, empty.schema) as writer:
        for start in range(0, len(trace), _ROWS_AT_A_TIME):  # as text they are many times larger
            writer.write_table(_written(trace.table.slice(start, _ROWS_AT_A_TIME)))
    return ["the metadata: machines, mounts, command, completeness, history"]


def _written(table: pa.Table) -> pa.Table:
    """Return rows as numbers and text; text as a trace spells it, see traces/text."""
    return pa.table({name: _plain(table.column(name)) for name in table.column_names})


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_list(column.type):
        shapes = [
            None if row is None else "x".join(map(str, row)) or _SCALAR
            for row in column.to_pylist()
        ]
        return pa.chunked_array([pa.array(shapes, pa.string())])
    return pc.cast(column, pa.string()) if pa.types.is_dictionary(column.type) else column
