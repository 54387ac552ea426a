"""Traces in an object store, against a server that speaks S3."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from iotrace.traces.errors import IotraceError, OutputExistsError, TraceFormatError
from iotrace.traces.metadata import Metadata, Process
from iotrace.traces.reader import read_metadata, read_trace
from iotrace.traces.stores import StoreError, find_store
from iotrace.traces.trace import Trace
from iotrace.traces.writer import write_trace
from tests.servers import BUCKET, s3_environment
from tests.traces.conftest import rich_columns, rich_metadata, small_trace

pytestmark = pytest.mark.usefixtures("credentials")


def test_a_trace_goes_and_comes_back(tmp_path: Path) -> None:
    """With every column and all metadata."""
    trace = Trace.from_columns(rich_columns(), rich_metadata())
    write_trace(trace, f"s3://{BUCKET}/a/b/t.parquet")
    back = read_trace(f"s3://{BUCKET}/a/b/t.parquet")
    assert back.table.equals(trace.table)
    assert back.metadata == rich_metadata()
    assert read_metadata(f"s3://{BUCKET}/a/b/t.parquet") == [rich_metadata()]


def test_a_folder_of_parts_is_one_trace() -> None:
    """One object per rank."""
    for rank in range(2):
        part = small_trace(2, Metadata(processes=(Process(rank),)), rank=np.full(2, rank))
        write_trace(part, f"s3://{BUCKET}/ranks/rank_{rank}.parquet")
    assert sorted(read_trace(f"s3://{BUCKET}/ranks").ints("rank").tolist()) == [0, 0, 1, 1]


def test_an_object_is_not_replaced_unless_asked() -> None:
    """As a file is not."""
    uri = f"s3://{BUCKET}/once.parquet"
    write_trace(small_trace(2), uri)
    with pytest.raises(OutputExistsError, match="--force"):
        write_trace(small_trace(3), uri)
    write_trace(small_trace(3), uri, force=True)
    assert len(read_trace(uri)) == 3


def test_the_uri_may_say_all_that_the_environment_does_not(
    endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two stores in one command need two sets of settings."""
    for name in s3_environment(endpoint):
        monkeypatch.delenv(name)
    host = endpoint.removeprefix("http://")
    uri = f"s3://key:secret@{BUCKET}/own.parquet?endpoint_override={host}&scheme=http"
    write_trace(small_trace(2), uri)
    assert len(read_trace(Path(uri))) == 2  # what a path library leaves of a URI


def error_of(uri: str) -> str:
    begun = time.monotonic()
    with pytest.raises(IotraceError) as caught:
        read_trace(uri)
    assert time.monotonic() - begun < 20
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400
    return str(caught.value)


def test_what_is_not_there_is_told() -> None:
    """No key, no bucket, no such setting, no bucket's name."""
    assert "does not exist" in error_of(f"s3://{BUCKET}/none.parquet")
    assert "does not exist" in error_of("s3://no-such-bucket/none.parquet")
    assert "unknown setting" in error_of(f"s3://{BUCKET}/t.parquet?color=red")
    assert "names no bucket" in error_of("s3:///t.parquet")
    with pytest.raises(StoreError, match="no such bucket"):
        write_trace(small_trace(), "s3://no-such-bucket/t.parquet")
    with pytest.raises(StoreError, match="is a bucket"):
        write_trace(small_trace(), f"s3://{BUCKET}")


@pytest.mark.parametrize("scheme", ["s3", "gs"])
def test_a_store_that_is_not_there_is_told_in_bounded_time(
    scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not after a quarter of an hour of retries."""
    uri = f"{scheme}://{BUCKET}/t.parquet?endpoint_override=127.0.0.1:9&scheme=http&anonymous=true"
    assert "cannot be reached" in error_of(uri)


def test_secrets_in_a_uri_are_not_repeated() -> None:
    """Error messages go into logs."""
    uri = "s3://key:hunter2@bucket/t?endpoint_override=127.0.0.1:9&scheme=http"
    assert "hunter2" not in error_of(uri)


def test_a_secret_is_not_repeated_where_nothing_is_found(endpoint: str) -> None:
    """The same for a name that is wrong."""
    host = endpoint.removeprefix("http://")
    uri = f"s3://key:hunter2@{BUCKET}/none?endpoint_override={host}&scheme=http"
    assert "hunter2" not in error_of(uri)


def test_what_is_no_trace_is_refused(tmp_path: Path) -> None:
    """As on a disk."""
    store, path = find_store(f"s3://{BUCKET}/notes.parquet")
    with store.open_output_stream(path) as stream:
        stream.write(b"not a trace\n" * 100)
    with pytest.raises(TraceFormatError, match="not a readable trace"):
        read_trace(f"s3://{BUCKET}/notes.parquet")
