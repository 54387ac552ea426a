"""What is written can be read: the writer holds to the bounds that the reader refuses beyond."""

from pathlib import Path

import pytest

from iotrace.traces.errors import TraceFormatError
from iotrace.traces.reader import read_trace
from iotrace.traces.schema import MAX_DIMENSIONS, MAX_TEXT_BYTES
from iotrace.traces.trace import Shapes, Strings, Trace
from iotrace.traces.writer import write_trace
from tests.traces.conftest import small_trace


def named(length: int) -> Trace:
    return small_trace(1).with_columns({"name": Strings.constant("x" * length, 1)})


def shaped(dimensions: int) -> Trace:
    return small_trace(1).with_columns({"shape": Shapes.of([(1,) * dimensions])})


@pytest.mark.parametrize("trace", [named(MAX_TEXT_BYTES), shaped(MAX_DIMENSIONS)])
def test_the_most_that_may_be_is_written_and_read(tmp_path: Path, trace: Trace) -> None:
    write_trace(trace, tmp_path / "t.parquet")
    assert read_trace(tmp_path / "t.parquet").table.equals(trace.table)


@pytest.mark.parametrize(
    ("trace", "what"),
    [
        (named(MAX_TEXT_BYTES + 1), "a text of 16,385 bytes in the column 'name'"),
        (shaped(MAX_DIMENSIONS + 1), "a shape of 65 dimensions"),
    ],
)
def test_what_no_reader_would_take_is_not_written(tmp_path: Path, trace: Trace, what: str) -> None:
    with pytest.raises(TraceFormatError, match=what):
        write_trace(trace, tmp_path / "t.parquet")
    assert list(tmp_path.iterdir()) == []
