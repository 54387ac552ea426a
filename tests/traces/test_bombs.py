"""Small files that would be large in memory: refused in a line, before they are."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from iotrace.traces.codec import decode
from iotrace.traces.errors import TraceFormatError
from iotrace.traces.formats.pickled import parse
from iotrace.traces.location import one_line
from iotrace.traces.metadata import Metadata
from iotrace.traces.reader import read_trace
from iotrace.traces.trace import Strings, Trace

ROWS = 2000


def with_column(path: Path, name: str, column: pa.Array) -> Path:
    """Write a trace of `ROWS` rows, one of whose columns is as a stranger wrote it."""
    trace = Trace.from_columns(
        {
            "layer": Strings.constant("tensor", ROWS),
            "op": Strings.constant("save", ROWS),
            "start_ns": np.arange(ROWS),
        },
        Metadata(),
    )
    table = trace.table
    table = table.set_column(table.column_names.index(name), name, column)
    table = table.replace_schema_metadata({b"iotrace": trace.metadata.to_json()})
    pq.write_table(table, path, compression="zstd")
    return path


def of_dimensions(count: int) -> pa.Array:
    """Return shapes of zeros."""
    ends = np.arange(ROWS + 1, dtype=np.int32) * count
    return pa.ListArray.from_arrays(pa.array(ends), pa.array(np.zeros(ROWS * count, np.int64)))


def test_shapes_of_too_many_dimensions_are_not_decoded(tmp_path: Path) -> None:
    """The pages tell how many there are: 160 MB of zeros in some KiB."""
    path = with_column(tmp_path / "a.parquet", "shape", of_dimensions(10_000))
    assert path.stat().st_size < 50_000
    before = pa.total_allocated_bytes()
    tracemalloc.start()
    with pytest.raises(TraceFormatError, match=r"a shape of 10,000 dimensions, and none has more"):
        read_trace(path)
    assert tracemalloc.get_traced_memory()[1] < 10 << 20
    tracemalloc.stop()
    assert pa.total_allocated_bytes() - before < 10 << 20


@pytest.mark.parametrize(("count", "is_taken"), [(64, True), (65, False)])
def test_a_single_shape_has_the_dimensions_of_a_tensor(
    tmp_path: Path, count: int, is_taken: bool
) -> None:
    """The mean is small; torch makes tensors of 64 dimensions and no more."""
    shapes = pa.array([[1] * count] + [[]] * (ROWS - 1), pa.list_(pa.int64()))
    path = with_column(tmp_path / "a.parquet", "shape", shapes)
    if is_taken:
        assert read_trace(path).shapes()[0] == (1,) * count
    else:
        with pytest.raises(TraceFormatError, match="a shape of 65 dimensions"):
            read_trace(path)


@pytest.mark.parametrize("column", ["name", "path", "engine", "device"])
@pytest.mark.parametrize(("size", "is_taken"), [(16 << 10, True), ((16 << 10) + 1, False)])
def test_one_long_text_on_many_rows_is_refused(
    tmp_path: Path, column: str, size: int, is_taken: bool
) -> None:
    """It stands once in the dictionary."""
    texts = pa.DictionaryArray.from_arrays(pa.array(np.zeros(ROWS, np.int32)), ["x" * size])
    path = with_column(tmp_path / "a.parquet", column, texts)
    if is_taken:
        assert read_trace(path).text_at(column, ROWS - 1) == "x" * size
    else:
        with pytest.raises(
            TraceFormatError, match=f"a text of 16,385 bytes in the column '{column}'"
        ):
            read_trace(path)


def test_an_integer_of_thousands_of_digits_is_told_in_our_words() -> None:
    """Not in those of the interpreter, which name a setting of its own."""
    stored = b'{"format_version":"1.1","epoch_realtime_ns":' + b"9" * 100_000 + b"}"
    with pytest.raises(
        TraceFormatError, match=r"not valid JSON \(an integer of thousands of digits\)"
    ):
        Metadata.from_json(stored)


def test_a_class_of_metadata_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of half a million processes, not each."""
    decode(Metadata, {"processes": [{"pid": 1}]})
    monkeypatch.setattr("typing.get_type_hints", None)
    found = decode(Metadata, {"processes": [{"pid": i} for i in range(100)]})
    assert [process.pid for process in found.processes] == list(range(100))


def test_shapes_that_are_repeated_are_no_bomb(tmp_path: Path) -> None:
    """Rows of real tensors."""
    path = with_column(tmp_path / "a.parquet", "shape", of_dimensions(4))
    assert read_trace(path).shapes() == [(0, 0, 0, 0)] * ROWS


def test_digits_of_a_pickle_are_told_in_our_words() -> None:
    """As those of the metadata are."""
    with pytest.raises(ValueError, match="digits") as caught:
        parse(b"L" + b"9" * 100_000 + b"L\n.")
    assert one_line(caught.value) == "an integer of thousands of digits"
