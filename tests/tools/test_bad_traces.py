"""What is no trace is refused in one line, by every verb that reads one."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from iotrace.traces.schema import FORMAT_VERSION, METADATA_KEY

from .command import assert_one_line_error, iotrace

READERS = ("show", "replay")


@pytest.fixture(params=READERS)
def verb(request: pytest.FixtureRequest) -> str:
    """A verb that reads a trace."""
    return str(request.param)


def refused(verb: str, trace: Path, *words: str) -> None:
    """`verb` fails on `trace` in one line with `words`, and leaves nothing in its folder."""
    before = sorted(trace.parent.iterdir())
    assert_one_line_error(iotrace(verb, trace, cwd=trace.parent), 2, *words)
    assert sorted(trace.parent.iterdir()) == before


def test_a_trace_that_does_not_exist(verb: str, tmp_path: Path) -> None:
    """The commonest mistake; the message says how to make one."""
    refused(verb, tmp_path / "none.parquet", "none.parquet", "iotrace capture")


def test_a_text_file(verb: str, tmp_path: Path) -> None:
    """Arrow's own message would be a riddle."""
    path = tmp_path / "notes.txt"
    path.write_text("not a trace\n" * 100)
    refused(verb, path, "notes.txt", "no Parquet file", "iotrace convert")


def test_the_figures_of_a_result_are_not_the_result(verb: str, tmp_path: Path) -> None:
    """What --json wrote is given where the .parquet of -o is meant."""
    path = tmp_path / "result.json"
    path.write_text('{"trace": "a"}')
    refused(verb, path, "result.json", "it is JSON", "-o")


def test_an_empty_file(verb: str, tmp_path: Path) -> None:
    """What a crashed writer of another tool leaves."""
    path = tmp_path / "empty.parquet"
    path.touch()
    refused(verb, path, "empty.parquet")


def test_a_folder_without_traces(verb: str, tmp_path: Path) -> None:
    """A folder is a trace only when it has some."""
    folder = tmp_path / "ranks"
    folder.mkdir()
    refused(verb, folder, "ranks", "*.parquet")


def test_a_parquet_file_of_something_else(verb: str, tmp_path: Path) -> None:
    """Any table may be named by mistake."""
    path = tmp_path / "other.parquet"
    pq.write_table(pa.table({"a": [1, 2, 3]}), path)
    refused(verb, path, "other.parquet", "not a trace")


def test_a_truncated_trace(verb: str, small_trace: Path, tmp_path: Path) -> None:
    """A copy that was cut short."""
    path = tmp_path / "cut.parquet"
    path.write_bytes(small_trace.read_bytes()[:-100])
    refused(verb, path, "cut.parquet")


def test_a_trace_of_a_newer_major_version(verb: str, small_trace: Path, tmp_path: Path) -> None:
    """It must not be half understood; the message says what to upgrade."""
    table = pq.read_table(small_trace)
    stored = pq.read_metadata(small_trace).metadata[METADATA_KEY]
    written = f'"format_version":"{FORMAT_VERSION}"'.encode()
    newer = stored.replace(written, b'"format_version":"2.0"')
    assert newer != stored
    path = tmp_path / "newer.parquet"
    pq.write_table(table.replace_schema_metadata({METADATA_KEY: newer}), path)
    refused(verb, path, "newer.parquet", "2.0")
