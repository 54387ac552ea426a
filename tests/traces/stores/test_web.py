"""Traces on web servers: read by ranges, and clear errors in bounded time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from iotrace.traces import web
from iotrace.traces.errors import TraceFormatError
from iotrace.traces.metadata import Metadata, Process
from iotrace.traces.reader import read_metadata, read_trace
from iotrace.traces.stores import StoreError
from iotrace.traces.trace import Trace
from iotrace.traces.writer import write_trace
from tests.servers import WebServer, plain_server, range_server
from tests.traces.conftest import small_trace

ROWS = 200_000


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trace of some megabytes, most of them in one column."""
    path = tmp_path_factory.mktemp("large") / "t.parquet"
    noise = np.random.default_rng(1).integers(0, 1 << 62, ROWS)
    write_trace(small_trace(ROWS, offset=noise, length=np.full(ROWS, 4096)), path)
    return path


@pytest.fixture
def server(large: Path) -> Iterator[WebServer]:
    """A server that has it."""
    with range_server({"/t.parquet": large.read_bytes()}) as serving:
        yield serving


def test_a_trace_is_read_from_a_server(server: WebServer, large: Path) -> None:
    """The same rows as from the file; each byte once on the way, the first to learn the size."""
    trace = read_trace(f"{server.url}/t.parquet")
    assert trace.table.equals(read_trace(large).table)
    assert server.sent_bytes == large.stat().st_size + 1
    assert len(server.requests) < 12


def test_a_trace_comes_whole_once_from_a_server_without_ranges(
    server: WebServer, large: Path
) -> None:
    """What it sends when asked for the size is the file."""
    server.whole = True
    trace = read_trace(f"{server.url}/t.parquet")
    assert trace.table.equals(read_trace(large).table)
    assert server.requests == [("/t.parquet", large.stat().st_size)]


def test_the_page_of_a_folder_comes_once(server: WebServer) -> None:
    """It is asked for to learn that it is one."""
    server.files["/list/"] = b'<a href="t.parquet">t</a>'
    server.files["/list/t.parquet"] = server.files["/t.parquet"]
    server.pages, server.whole = {"/list/"}, True
    read_trace(f"{server.url}/list/")
    assert [path for path, _ in server.requests] == ["/list/", "/list/t.parquet"]


def test_only_what_is_needed_is_asked_for(server: WebServer, large: Path) -> None:
    """A look at the metadata, or at few columns, must not move the whole trace."""
    read_metadata(f"{server.url}/t.parquet")
    assert server.sent_bytes < 300_000
    before = server.sent_bytes
    trace = read_trace(f"{server.url}/t.parquet", columns=["length"])
    assert len(trace) == ROWS
    assert server.sent_bytes - before < large.stat().st_size / 2


def test_a_server_without_ranges_is_read_whole(large: Path) -> None:
    """`python -m http.server` is what people use to hand a file over."""
    with plain_server(large.parent) as url:
        assert len(read_trace(f"{url}/t.parquet")) == ROWS


def test_a_large_file_on_a_server_without_ranges_is_refused(
    large: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would have to be held in memory; downloading it is the better way."""
    monkeypatch.setattr(web, "MAX_WHOLE_BYTES", 100_000)
    with plain_server(large.parent) as url, pytest.raises(StoreError, match="download it first"):
        read_trace(f"{url}/t.parquet")


def error_of(uri: str) -> str:
    begun = time.monotonic()
    with pytest.raises(TraceFormatError) as caught:
        read_trace(uri)
    assert time.monotonic() - begun < 30
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_what_is_not_there_is_told(server: WebServer) -> None:
    """A mistyped address, a private one, a broken server, and no server at all."""
    assert "does not exist" in error_of(f"{server.url}/none.parquet")
    for status, words in ((403, "refuses access"), (503, "answers 503"), (418, "answers 418")):
        server.status = status
        assert words in error_of(f"{server.url}/t.parquet")
    assert "no connection" in error_of("http://127.0.0.1:9/t.parquet")
    assert "no connection" in error_of("http://no-such-host.invalid/t.parquet")
    error_of("http://")
    error_of("http://[::1/x")


def test_a_file_that_changes_meanwhile_is_told(server: WebServer) -> None:
    """Half of one version and half of another would be a wrong trace."""
    server.changing = True
    assert "changed while it was read" in error_of(f"{server.url}/t.parquet")


def test_a_silent_server_is_given_up(server: WebServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounded time, whatever the other side does."""
    monkeypatch.setattr(web, "SILENCE_SECONDS", 0.5)
    server.silent = True
    assert "does not answer" in error_of(f"{server.url}/t.parquet")


def test_a_cut_trace_on_a_server_is_no_trace(server: WebServer) -> None:
    """The way is fine, the file is not."""
    server.files["/t.parquet"] = server.files["/t.parquet"][:-100]
    assert "not a readable trace" in error_of(f"{server.url}/t.parquet")


def test_nothing_is_written_to_a_server(server: WebServer) -> None:
    """It has no way to take it."""
    trace: Trace = small_trace()
    with pytest.raises(StoreError, match="only be read"):
        write_trace(trace, f"{server.url}/new.parquet")


def test_a_folder_of_parts_is_one_trace(tmp_path: Path) -> None:
    """As the pages of common servers list it: one file for each rank, of any name."""
    (tmp_path / "ranks").mkdir()
    for rank, name in enumerate(("rank 0.parquet", "rank&1.parquet")):
        part = small_trace(2, Metadata(processes=(Process(rank),)), rank=np.full(2, rank))
        write_trace(part, tmp_path / "ranks" / name)
    (tmp_path / "ranks" / "notes.txt").write_text("no trace")
    (tmp_path / "empty").mkdir()
    with plain_server(tmp_path) as url:
        for folder in ("ranks", "ranks/"):
            assert sorted(read_trace(f"{url}/{folder}").ints("rank").tolist()) == [0, 0, 1, 1]
        assert "no *.parquet files" in error_of(f"{url}/empty/")


def test_a_page_leads_to_no_other_place(server: WebServer) -> None:
    """A list is a stranger's: what it names is read beside it, or not at all."""
    links = ("http://127.0.0.1:9/a.parquet", "/b.parquet", "../c.parquet", "%2e%2e%2fd.parquet")
    page = "".join(f'<a href="{link}">x</a>' for link in (*links, "./t.parquet", "t.parquet?x"))
    server.files["/list/"] = page.encode()
    server.files["/list/t.parquet"] = server.files["/t.parquet"]
    server.pages = {"/list/"}
    assert len(read_trace(f"{server.url}/list/")) == ROWS
    assert {path for path, _ in server.requests} == {"/list/", "/list/t.parquet"}


@pytest.mark.parametrize("piece", ['<a href="', "<!--", "href=", "<a href='x", "<"])
def test_a_hostile_page_is_read_soon(piece: str) -> None:
    """No page is so made that its reader takes minutes."""
    with range_server({"/": (piece * 200_000).encode()}) as serving:
        serving.pages = {"/"}
        assert "no *.parquet files" in error_of(f"{serving.url}/")
