"""The memory a file asks for is known before it is decoded, also when its footer lies."""

from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iotrace.traces.errors import TraceFormatError
from iotrace.traces.parquet_size import needed_bytes
from iotrace.traces.reader import read_trace
from iotrace.traces.thrift import ThriftError, ThriftReader, Wanted
from tests.traces.test_reader import plain_table, write_foreign


def needed(path: Path, *columns: str) -> int:
    with pa.OSFile(str(path)) as source:
        return needed_bytes(source, frozenset(columns))


@pytest.mark.parametrize("page_version", ["1.0", "2.0"])
@pytest.mark.parametrize("dictionary", [True, False])
def test_values_are_counted_over_all_pages_and_groups(
    tmp_path: Path, page_version: str, dictionary: bool
) -> None:
    """The count comes from the page headers, the one source that decoding obeys."""
    table = pa.table({"a": np.arange(100_000), "b": [[1, 2, 3]] * 100_000})
    path = tmp_path / "t.parquet"
    pq.write_table(
        table,
        path,
        row_group_size=30_000,
        data_page_size=1000,
        use_dictionary=dictionary,
        data_page_version=page_version,
    )
    assert 8 * 100_000 <= needed(path, "a") <= 8 * 100_000 * 3
    assert 8 * 300_000 <= needed(path, "b") <= 8 * 300_000 * 3
    assert needed(path) == 0
    assert needed(path, "a", "b") == needed(path, "a") + needed(path, "b")


def test_a_list_of_a_billion_zeros_in_one_row_is_refused(tmp_path: Path) -> None:
    """The number of rows says nothing about a column of lists."""
    length = 20_000_000
    zeros = pa.array(np.zeros(length, np.int64))
    shape = pa.ListArray.from_arrays(pa.array([0, length], pa.int32()), zeros)
    path = write_foreign(tmp_path / "t.parquet", plain_table(rows=1, shape=shape))
    assert path.stat().st_size < length // 100
    with pytest.raises(TraceFormatError, match="a shape of 20,000,000 dimensions"):
        read_trace(path, limit_bytes=length)
    assert len(read_trace(path, ["op"], limit_bytes=length)) == 1


def test_a_long_name_on_many_rows_is_refused_and_not_written_out(tmp_path: Path) -> None:
    """A dictionary holds it once; as plain text it would take more than an array may."""
    rows = 140_000
    name = pa.DictionaryArray.from_arrays(np.zeros(rows, np.int32), ["x" * (16 << 10)])
    path = write_foreign(tmp_path / "t.parquet", plain_table(rows, name=name))
    with pytest.raises(TraceFormatError, match="the names take more"):
        read_trace(path)


def test_text_that_is_coded_as_shared_prefixes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(
        pa.table({"a": ["x" * 1000] * 1000}),
        path,
        use_dictionary=False,
        column_encoding={"a": "DELTA_BYTE_ARRAY"},
    )
    with pytest.raises(ValueError, match="DELTA_BYTE_ARRAY"):
        needed(path, "a")


def test_a_file_cut_inside_a_column_is_refused(tmp_path: Path) -> None:
    """The footer moved up behind missing data still points past it."""
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": np.random.default_rng(1).integers(0, 1 << 60, 10_000)}), path)
    content = path.read_bytes()
    footer_bytes = int.from_bytes(content[-8:-4], "little") + 8
    path.write_bytes(content[:1000] + content[-footer_bytes:])
    with pytest.raises(ValueError, match="past the end"):
        needed(path, "a")


@given(st.binary(max_size=200))
def test_any_bytes_are_thrift_or_an_error(data: bytes) -> None:
    wanted: Wanted = {1: {1: {}}, 2: {}, 3: {2: {1: {}}}}
    reader = ThriftReader(data)
    with suppress(ThriftError):
        assert set(reader.struct(wanted)) <= set(wanted)
    assert reader.position <= len(data)


@pytest.mark.parametrize(
    "data", [b"\x1c" * 100_000, b"\x19\x19" + b"\x19" * 100_000, b"\x15" + b"\xff" * 20]
)
def test_nesting_and_integers_are_bounded(data: bytes) -> None:
    with pytest.raises(ThriftError):
        ThriftReader(data).struct({1: {}})
