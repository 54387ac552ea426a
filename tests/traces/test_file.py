"""Written and read back, a trace is the same; a failed write leaves nothing behind."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from iotrace.traces.errors import OutputExistsError
from iotrace.traces.reader import read_metadata, read_trace
from iotrace.traces.schema import COLUMNS, FORMAT_VERSION, METADATA_KEY, REQUIRED_COLUMNS
from iotrace.traces.trace import Strings, Trace
from iotrace.traces.writer import ROWS_PER_GROUP, write_trace
from tests.small_disk import mounted_tmpfs
from tests.traces.conftest import ODD_PATH, rich_columns, rich_metadata, small_trace


@pytest.mark.parametrize("column", COLUMNS)
def test_every_column_survives_with_its_nulls(trace_file: Path, column: str) -> None:
    written = Trace.from_columns(rich_columns(), rich_metadata())
    read = read_trace(trace_file)
    assert read.table.schema.equals(written.table.schema)
    assert read.table.column(column).to_pylist() == written.table.column(column).to_pylist()
    assert read.valid(column).any()


def test_the_metadata_survive(trace_file: Path) -> None:
    assert read_trace(trace_file).metadata == rich_metadata()
    assert read_metadata(trace_file) == [rich_metadata()]


def test_undecodable_paths_survive(trace_file: Path) -> None:
    """The replay must address the same file, byte by byte."""
    assert read_trace(trace_file).strings("path")[0] == ODD_PATH


def test_an_empty_trace_survives(tmp_path: Path) -> None:
    write_trace(small_trace(0), tmp_path / "t.parquet")
    assert len(read_trace(tmp_path / "t.parquet")) == 0


def test_a_projection_reads_the_named_columns_and_the_required_ones(trace_file: Path) -> None:
    read = read_trace(trace_file, columns=["length", "shape"])
    assert set(read.columns) == {"length", "shape", *REQUIRED_COLUMNS}
    assert read.shapes() == [(2, 3), None, ()]
    with pytest.raises(ValueError, match="'path' is not at hand"):
        read.codes("path")


def test_a_projection_on_an_unknown_column_is_a_mistake_of_the_caller(trace_file: Path) -> None:
    with pytest.raises(ValueError, match="colour"):
        read_trace(trace_file, columns=["colour"])


def test_any_parquet_reader_sees_plain_columns(trace_file: Path) -> None:
    """DuckDB, Spark and Polars read the file without this package."""
    table = pq.read_table(trace_file)
    assert tuple(table.column_names) == COLUMNS
    assert table.column("path")[0].as_py() == r"/data/caf\xe9 \\ ü/x\xff.pt"
    assert METADATA_KEY in pq.read_metadata(trace_file).metadata


def test_a_later_minor_version_written_again_is_of_this_version(tmp_path: Path) -> None:
    """The columns of 1.7 that were left out on reading are not in the new file."""
    trace = small_trace(1)
    later = trace.with_metadata(replace(trace.metadata, format_version="1.7"))
    write_trace(later, tmp_path / "t.parquet")
    assert read_trace(tmp_path / "t.parquet").metadata.format_version == FORMAT_VERSION


def test_an_existing_output_is_refused_and_kept(trace_file: Path) -> None:
    before = trace_file.read_bytes()
    with pytest.raises(OutputExistsError, match="--force"):
        write_trace(small_trace(1), trace_file)
    assert trace_file.read_bytes() == before


def test_an_existing_output_is_replaced_by_force(trace_file: Path) -> None:
    write_trace(small_trace(5), trace_file, force=True)
    assert len(read_trace(trace_file)) == 5
    assert os.listdir(trace_file.parent) == [trace_file.name]


def test_a_folder_is_never_replaced(tmp_path: Path) -> None:
    with pytest.raises(OutputExistsError):
        write_trace(small_trace(1), tmp_path, force=True)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a file system of 1 MiB."""
    with mounted_tmpfs(tmp_path / "small", "1m") as folder:
        yield folder


def test_a_disk_that_fills_is_told_and_leaves_nothing_behind(small_disk: Path) -> None:
    """A cut trace that looks whole is worse than none."""
    rng = np.random.default_rng(1)
    trace = small_trace(500_000, offset=rng.integers(0, 1 << 60, 500_000))
    with pytest.raises(OSError, match="No space left"):
        write_trace(trace, small_disk / "t.parquet")
    assert os.listdir(small_disk) == []


def test_a_disk_that_fills_keeps_the_file_to_be_replaced(small_disk: Path) -> None:
    target = small_disk / "t.parquet"
    write_trace(small_trace(1), target)
    rng = np.random.default_rng(1)
    with pytest.raises(OSError, match="No space left"):
        write_trace(small_trace(500_000, offset=rng.integers(0, 1 << 60, 500_000)), target, True)
    assert len(read_trace(target)) == 1
    assert os.listdir(small_disk) == [target.name]


def test_a_missing_folder_is_told_and_not_made(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_trace(small_trace(1), tmp_path / "none" / "t.parquet")
    assert os.listdir(tmp_path) == []


def regular_trace(ranks: int, rows: int = 1_000_000) -> Trace:
    """Return what `ranks` ranks record that write files of 1000 x 64 KiB, 10 us +- 5 % each."""
    rng = np.random.default_rng(ranks)
    per_rank = rows // ranks
    length = 1 << 16
    taken_ns = rng.normal(10_000, 500, (ranks, per_rank)).astype(np.int64)
    pause_ns = rng.normal(1_000, 100, (ranks, per_rank)).astype(np.int64)
    end_ns = np.cumsum(taken_ns + pause_ns, axis=1)
    request = np.tile(np.arange(per_rank), ranks)
    rank = np.repeat(np.arange(ranks), per_rank)
    file = request // 1000
    files = int(file.max()) + 1
    paths = [f"/scratch/ckpt/rank_{r}/file_{i}.pt" for r in range(ranks) for i in range(files)]
    return small_trace(
        rows,
        api=Strings.constant("posix", rows),
        engine=Strings.constant("torch.save", rows),
        rank=rank,
        process=rank,
        thread=np.zeros(rows, np.int32),
        seq=request,
        start_ns=(end_ns - taken_ns).ravel(),
        end_ns=end_ns.ravel(),
        path=Strings((rank * files + file).astype(np.int32), paths),
        file=file,
        offset=request % 1000 * length,
        length=np.full(rows, length),
        result=np.full(rows, length),
        offset_source=Strings.constant("argument", rows),
        address=((0x7F12 + rank * 0x31) * (1 << 32) + request % 1000 * length).astype(np.uint64),
        step=file // 50,
    )


@pytest.mark.parametrize("ranks", [1, 4])
def test_a_regular_trace_takes_at_most_six_bytes_per_record(tmp_path: Path, ranks: int) -> None:
    """A day of checkpoints must fit beside the job; row groups stay small enough to stream."""
    trace = regular_trace(ranks)
    path = tmp_path / "t.parquet"
    write_trace(trace, path)
    assert path.stat().st_size <= 6 * len(trace)
    assert read_trace(path).table.equals(trace.table)
    assert ROWS_PER_GROUP <= 1 << 20


def test_row_groups_are_bounded_and_sorted(tmp_path: Path) -> None:
    """Engines skip row groups by the time range in their statistics."""
    path = tmp_path / "t.parquet"
    write_trace(small_trace(ROWS_PER_GROUP + 5), path)
    metadata = pq.read_metadata(path)
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    start_ns = COLUMNS.index("start_ns")
    assert [group.num_rows for group in groups] == [ROWS_PER_GROUP, 5]
    assert groups[0].column(start_ns).statistics.max < groups[1].column(start_ns).statistics.min
    assert len(read_trace(path)) == ROWS_PER_GROUP + 5


def test_a_trace_with_nothing_regular_takes_at_most_sixteen_bytes_per_record(
    tmp_path: Path,
) -> None:
    rows = 200_000
    rng = np.random.default_rng(1)
    length = rng.integers(1, 1 << 20, 300)[rng.integers(0, 300, rows)]
    start_ns = np.cumsum(rng.integers(0, 1 << 20, rows))
    trace = small_trace(
        rows,
        process=rng.integers(0, 8, rows),
        start_ns=start_ns,
        end_ns=start_ns + rng.integers(0, 1 << 20, rows),
        file=rng.integers(0, 100, rows),
        path=Strings(rng.integers(0, 100, rows).astype(np.int32), [f"/d/{i}" for i in range(100)]),
        offset=rng.integers(0, 1 << 24, rows) * 512,
        length=length,
        result=length,
    )
    path = tmp_path / "t.parquet"
    write_trace(trace, path)
    assert path.stat().st_size <= 16 * rows
