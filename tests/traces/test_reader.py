"""Any input gives a trace or one clear error."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from iotrace.traces import reader
from iotrace.traces.check import check_trace
from iotrace.traces.errors import IotraceError, TraceFormatError
from iotrace.traces.metadata import Metadata, Process
from iotrace.traces.reader import read_metadata, read_trace
from iotrace.traces.schema import METADATA_KEY, REQUIRED_COLUMNS, SCHEMA
from iotrace.traces.trace import Strings
from iotrace.traces.writer import write_trace
from tests.traces.conftest import rich_metadata, small_trace


def write_foreign(path: Path, table: pa.Table, metadata: bytes | None = None) -> Path:
    """Write `table` as another program would, with the trace's metadata key."""
    stored = Metadata(processes=(Process(1),)).to_json() if metadata is None else metadata
    pq.write_table(table.replace_schema_metadata({METADATA_KEY: stored}), path)
    return path


def plain_table(rows: int = 2, **columns: Any) -> pa.Table:
    """Return the required columns as a program without dictionaries writes them."""
    required = {
        "layer": ["request"] * rows,
        "op": ["write"] * rows,
        **{name: pa.array([0] * rows, pa.int64()) for name in ("rank", "process", "thread")},
        "seq": list(range(rows)),
        "start_ns": list(range(rows)),
    }
    return pa.table({**required, **columns})


def error_of(path: str | Path) -> str:
    with pytest.raises(TraceFormatError) as caught:
        read_trace(path)
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 600
    return message


def test_a_missing_file_is_named_with_what_to_do(tmp_path: Path) -> None:
    message = error_of(tmp_path / "none.parquet")
    assert "none.parquet" in message
    assert "iotrace capture" in message


@pytest.mark.parametrize(
    "content", [b"", b"P", b"hello\n" * 100, b"PAR1" * 3, b"PAR1" + b"\xff" * 100 + b"PAR1"]
)
def test_a_file_of_another_kind_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "t.parquet"
    path.write_bytes(content)
    assert "t.parquet" in error_of(path)


@pytest.mark.parametrize("share", [0.01, 0.5, 0.99])
def test_a_truncated_trace_is_refused(trace_file: Path, share: float) -> None:
    content = trace_file.read_bytes()
    trace_file.write_bytes(content[: int(len(content) * share)])
    assert "iotrace recover" in error_of(trace_file)


def test_a_parquet_file_that_is_no_trace_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "t.parquet")
    assert "not a trace" in error_of(tmp_path / "t.parquet")


@pytest.mark.parametrize("version", ["1.0", "1.7"])
def test_every_minor_version_is_read(tmp_path: Path, version: str) -> None:
    """Sites upgrade at different times; a newer writer may add columns and keys."""
    metadata = b'{"format_version": "%s", "epoch_realtime_ns": 1, "new": [1]}' % version.encode()
    table = plain_table(colour=["red", "blue"])
    trace = read_trace(write_foreign(tmp_path / "t.parquet", table, metadata))
    assert trace.metadata.extra == {"new": [1]}
    assert "colour" not in trace.columns
    assert len(trace) == 2


def test_words_of_a_newer_minor_version_are_left_out_and_said(tmp_path: Path) -> None:
    """Another layer or op is a row less; another api is no api. Nothing contradicts itself."""
    columns = {
        "layer": ["request", "request", "network", "request", "request"],
        "op": ["write", "clone", "send", "write", "sync"],
        "api": ["posix", "posix", "rdma", "gds", "posix"],
        **{name: pa.array([0, 0, 0, 4, 0]) for name in ("file", "offset")},
        **{name: pa.array([4] * 4 + [0]) for name in ("length", "result")},
        "flags": pa.array([None] * 4 + [8]),
    }
    metadata = b'{"format_version": "1.3", "processes": [{"pid": 1}]}'
    table = plain_table(5).drop(["layer", "op"])
    for name, values in columns.items():
        table = table.append_column(name, pa.array(values))
    trace = read_trace(write_foreign(tmp_path / "t.parquet", table, metadata))
    assert trace.strings("op") == ["write", "write"]
    assert trace.strings("api") == ["posix", None]
    assert trace.metadata.completeness.notes == (
        "format 1.3 is newer than 1.2: 3 rows in words not known here left out "
        "(layer 'network', op 'clone', sync of kind 8); install a newer iotrace",
    )
    assert check_trace(trace) == []
    same = metadata.replace(b"1.3", b"1.2")
    trace = read_trace(write_foreign(tmp_path / "u.parquet", table, same))
    assert len(check_trace(trace)) == 5


def test_the_next_major_version_is_refused_by_name(tmp_path: Path) -> None:
    path = write_foreign(tmp_path / "t.parquet", plain_table(), b'{"format_version": "2.0"}')
    message = error_of(path)
    assert "'2.0'" in message
    assert "newer iotrace" in message


@pytest.mark.parametrize("metadata", [b"{", b"[" * 100_000, b"{}", b'{"format_version": 1}'])
def test_hostile_metadata_is_refused_with_the_file_named(tmp_path: Path, metadata: bytes) -> None:
    assert "t.parquet" in error_of(write_foreign(tmp_path / "t.parquet", plain_table(), metadata))


def test_a_plain_foreign_trace_is_read_into_the_schema_and_sorted(tmp_path: Path) -> None:
    """An importer need not know dictionaries, our integer widths, or the order of rows."""
    table = plain_table(path=["/b", "/a"], shape=[[1, 2], None]).take(pa.array([1, 0]))
    trace = read_trace(write_foreign(tmp_path / "t.parquet", table))
    assert trace.table.schema.equals(SCHEMA)
    assert trace.strings("path") == ["/b", "/a"]
    assert trace.shapes() == [(1, 2), None]


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("op", [1, 2]),
        ("op", ["write", None]),
        ("path", [b"\xff\xfe", b"a"]),
        ("offset", ["a", "b"]),
        ("rank", [1 << 40, 0]),
        ("start_ns", [0, None]),
        ("shape", [1, 2]),
        ("start_ns", [[0], [1]]),
    ],
)
def test_a_column_of_wrong_values_is_refused(
    tmp_path: Path, column: str, values: list[Any]
) -> None:
    table = plain_table()
    if column in table.column_names:
        table = table.drop_columns(column)
    error_of(write_foreign(tmp_path / "t.parquet", table.append_column(column, [values])))


def test_a_missing_required_column_is_named(tmp_path: Path) -> None:
    table = plain_table().drop_columns("op")
    assert "'op'" in error_of(write_foreign(tmp_path / "t.parquet", table))


def test_a_column_given_twice_is_refused(tmp_path: Path) -> None:
    table = plain_table().append_column("op", [["read", "read"]])
    assert "twice" in error_of(write_foreign(tmp_path / "t.parquet", table))


def test_a_trace_larger_than_memory_is_refused_before_it_is_read(tmp_path: Path) -> None:
    """Run lengths and zstd make a petabyte out of 100 MB; a small file may be huge inside."""
    path = tmp_path / "t.parquet"
    rows = 1 << 20
    write_trace(small_trace(rows, start_ns=np.zeros(rows), seq=np.zeros(rows)), path)
    assert path.stat().st_size < rows // 10
    with pytest.raises(TraceFormatError, match=r"takes .* of memory .*a part of it"):
        read_trace(path, limit_bytes=10 * rows)


def test_a_third_of_the_available_memory_may_be_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command works with up to three times what the rows take."""
    path = tmp_path / "t.parquet"
    rows = 1 << 16
    write_trace(small_trace(rows, start_ns=np.zeros(rows), seq=np.zeros(rows)), path)
    for available_bytes, is_enough in ((3 * 250 * rows, True), (250 * rows, False)):
        monkeypatch.setattr(reader, "available_memory_bytes", lambda size=available_bytes: size)
        if is_enough:
            assert len(read_trace(path)) == rows
        else:
            with pytest.raises(TraceFormatError, match="3 times that"):
                read_trace(path)


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "t.parquet")
    assert "no regular file" in error_of(tmp_path / "t.parquet")


def test_a_file_uri_is_a_location(trace_file: Path) -> None:
    assert len(read_trace(f"file://{trace_file}")) == 3


@pytest.mark.parametrize("uri", ["nosuch://a/b", "file://", "://"])
def test_a_uri_that_leads_nowhere_is_refused(uri: str) -> None:
    error_of(uri)


def test_a_folder_of_traces_is_one_trace(tmp_path: Path) -> None:
    """One file per rank: their processes must not fall together, their clocks must."""
    for rank, epoch_ns in ((0, 1000), (1, 1040)):
        metadata = Metadata(epoch_realtime_ns=epoch_ns, processes=(Process(100 + rank, rank=rank),))
        trace = small_trace(2, metadata, rank=np.full(2, rank), start_ns=np.array([0, 50]))
        write_trace(trace, tmp_path / f"rank_{rank}.parquet")
    (tmp_path / "notes.txt").write_text("not a trace")
    (tmp_path / ".hidden.parquet").write_text("not a trace either")
    whole = read_trace(tmp_path)
    assert whole.ints("start_ns").tolist() == [0, 40, 50, 90]
    assert whole.ints("rank").tolist() == [0, 1, 0, 1]
    assert [whole.metadata.processes[p].pid for p in whole.ints("process")] == [100, 101, 100, 101]
    assert len(read_metadata(tmp_path)) == 2


def test_a_folder_of_parts_of_one_trace_keeps_its_processes(tmp_path: Path) -> None:
    """What a query engine wrote in several files is still one recording."""
    for part in range(2):
        columns = {"path": Strings.constant(f"/{part}", 2), "seq": np.arange(2) + 2 * part}
        trace = small_trace(2, rich_metadata(), **columns)
        write_trace(trace, tmp_path / f"{part}.parquet")
    whole = read_trace(tmp_path)
    assert whole.metadata == rich_metadata()
    assert sorted(map(str, whole.strings("path"))) == ["/0", "/0", "/1", "/1"]


@pytest.mark.parametrize("columns", [None, ["path"]])
def test_a_folder_with_a_trace_and_its_copy_is_refused(
    columns: list[str] | None, tmp_path: Path
) -> None:
    """Such as one left there by an editor or a merge: every sum would be double."""
    trace = small_trace(2, rich_metadata(), end_ns=np.array([7, 9]))
    for name in ("a.parquet", "b.parquet"):
        write_trace(trace, tmp_path / name)
    with pytest.raises(TraceFormatError, match=r"a\.parquet and .*b\.parquet are the same record"):
        read_trace(tmp_path, columns)
    (tmp_path / "b.parquet").unlink()
    assert len(read_trace(tmp_path, columns)) == 2


def test_a_folder_gives_the_columns_asked_for_and_no_others(tmp_path: Path) -> None:
    """Though ends are looked at to tell copies."""
    for part in range(2):
        metadata = Metadata(epoch_realtime_ns=part, processes=(Process(part),))
        write_trace(small_trace(2, metadata), tmp_path / f"{part}.parquet")
    assert read_trace(tmp_path, ["path"]).columns == (*REQUIRED_COLUMNS, "path")
    assert "end_ns" in read_trace(tmp_path).columns


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    assert "no *.parquet files" in error_of(tmp_path)


@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_a_damaged_trace_never_crashes_the_reader(trace_file: Path, data: st.DataObject) -> None:
    """Bits rot and strangers are curious; whatever is read can be looked at."""
    content = bytearray(trace_file.read_bytes())
    places = st.integers(0, len(content) - 1)
    for place, value in data.draw(st.lists(st.tuples(places, st.integers(0, 255)), min_size=1)):
        content[place] = value
    damaged = trace_file.with_name("damaged.parquet")
    damaged.write_bytes(content)
    try:
        trace = read_trace(damaged)
    except IotraceError as error:
        assert "\n" not in str(error)
        return
    for name in ("path", "name", "op"):
        assert len(trace.strings(name)) == len(trace)
    assert len(trace.shapes()) == len(trace.ints("address")) == len(trace)
