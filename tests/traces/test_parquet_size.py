"""The memory a file asks for is known before it is decoded, also when its footer lies."""

import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iotrace.traces.errors import TraceFormatError
from iotrace.traces.metadata import Metadata, Process
from iotrace.traces.parquet_size import needed_bytes
from iotrace.traces.reader import read_trace
from iotrace.traces.schema import COLUMNS, METADATA_KEY
from iotrace.traces.thrift import ThriftError, ThriftReader, Wanted
from iotrace.traces.trace import Strings, Trace
from iotrace.traces.writer import write_trace
from tests.traces.test_reader import plain_table, write_foreign


def needed(path: Path, *columns: str) -> int:
    with pa.OSFile(str(path)) as source:
        return sum(needed_bytes(source, frozenset(columns)))


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


_READ = """
import resource, sys
from iotrace.traces.errors import TraceFormatError
from iotrace.traces.reader import read_trace
read_trace("corpus:torch-save")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    trace = read_trace(sys.argv[1], limit_bytes=int(sys.argv[2]))
except TraceFormatError as error:
    print(error, file=sys.stderr)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10)
"""


def grown_bytes(path: Path, limit_bytes: int) -> tuple[int, str]:
    """Return how much a process grows that reads a trace, and what it says."""
    command = [sys.executable, "-c", _READ, str(path), str(limit_bytes)]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(ended.stdout), ended.stderr


@pytest.mark.parametrize("column", ["name", "path"])
def test_a_long_text_on_many_rows_stays_one_text(tmp_path: Path, column: str) -> None:
    """Row by row it would be 2.3 GB, more than an Arrow array may take."""
    rows, text = 140_000, "x" * (16 << 10)
    once = pa.DictionaryArray.from_arrays(np.zeros(rows, np.int32), [text])
    path = write_foreign(tmp_path / "t.parquet", plain_table(rows, **{column: once}))
    assert needed(path, *COLUMNS) < 16 << 20
    grown, said = grown_bytes(path, 16 << 20)
    assert not said
    assert grown < 48 << 20
    trace = read_trace(path)
    assert trace.text_at(column, rows - 1) == text
    write_trace(trace, tmp_path / "own.parquet")
    assert needed(tmp_path / "own.parquet", column) < 2 << 20
    assert pq.read_schema(tmp_path / "own.parquet").field(column).type == pa.string()
    assert read_trace(tmp_path / "own.parquet").text_at(column, rows - 1) == text


def test_many_long_names_are_stored_once_each(tmp_path: Path) -> None:
    """A writer of plain text gives up its dictionary after 1 MiB, and stores each row's."""
    rows, texts = 20_000, [f"{i:0>16000}" for i in range(200)]
    codes = (np.arange(rows) % len(texts)).astype(np.int32)
    columns = {
        "layer": Strings.constant("tensor", rows),
        "op": Strings.constant("save", rows),
        "start_ns": np.arange(rows),
        "name": Strings(codes, texts),
    }
    write_trace(Trace.from_columns(columns, Metadata()), tmp_path / "t.parquet")
    assert needed(tmp_path / "t.parquet", "name") < 4 << 20
    assert read_trace(tmp_path / "t.parquet").strings("name") == texts * (rows // len(texts))


def test_a_dictionary_in_each_row_group_counts_each_time(tmp_path: Path) -> None:
    """Of names that no row uses: each group unpacks its own, so together they are refused."""
    rows, unused = 64, [f"{i:0>16000}" for i in range(100)]
    names = pa.DictionaryArray.from_arrays(np.zeros(rows, np.int32), unused)
    path = tmp_path / "t.parquet"
    table = plain_table(rows, name=names)
    stored = Metadata(processes=(Process(1),)).to_json()
    table = table.replace_schema_metadata({METADATA_KEY: stored})
    pq.write_table(table, path, row_group_size=1, compression="zstd")
    assert path.stat().st_size < 1 << 20
    assert needed(path, "name") > 64 * 100 * 16_000
    grown, said = grown_bytes(path, 50 << 20)
    assert "of memory when decoded" in said
    assert grown < 8 << 20


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
