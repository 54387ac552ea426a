"""Threads of one process at one descriptor: which of them got which place is not known."""

import sys
from pathlib import Path

import pytest

from iotrace.capture.session import CaptureOptions, capture, remove_raw_dir
from iotrace.traces.check import check_trace
from iotrace.traces.trace import Trace

from .collected import WRITE_NEW, collected, rows
from .raw_log_writer import RawLogWriter

THREADS, CALLS = 4, 100
TOGETHER = f"""
import os, sys, threading
flags, call = int(sys.argv[1]), sys.argv[2]
with open("shared", "wb") as made:
    made.write(bytes(110_000_000) if call == "read" else b"")
fd = os.open("shared", os.O_RDWR | flags)
def work(number):
    own = os.open("shared", os.O_RDWR)
    start.wait()
    for i in range({CALLS}):
        size = 100_000 * (number + 1) + i
        if call == "read":
            os.read(fd, size)
        elif call == "write":
            os.write(fd, bytes([number + 1]) * size)
        elif call == "pwrite":
            os.pwrite(fd, bytes(size), 1_000_000 * number)
        elif call == "seek":
            os.lseek(fd, 1_000_000 * number, os.SEEK_SET), os.write(fd, bytes(size))
        elif call == "locked":
            with lock:
                os.lseek(fd, 1_000_000 * number, os.SEEK_SET), os.write(fd, bytes(size))
        elif call == "ask":
            with lock:
                os.lseek(fd, 0, os.SEEK_CUR), os.write(fd, bytes(size))
        else:
            os.read(own, size), os.write(own, bytes(size))
lock = threading.Lock()
start = threading.Barrier({THREADS})
threads = [threading.Thread(target=work, args=(n,)) for n in range({THREADS})]
[t.start() for t in threads], [t.join() for t in threads]
"""


def job(tmp_path: Path, call: str, flags: int = 0) -> Trace:
    """Return the trace of threads that do the same at once."""
    captured = capture(
        [sys.executable, "-c", TOGETHER, str(flags), call], CaptureOptions(tmp_path / "raw")
    )
    remove_raw_dir(captured.raw_dir)
    return captured.trace


def doubts(trace: Trace) -> list[str]:
    """Return what the trace says of swapped places."""
    return [problem for problem in trace.metadata.completeness.problems() if "swapped" in problem]


def made(tmp_path: Path, *calls: tuple[int, int, int, int, int], source: str = "tracked") -> Trace:
    """Return the trace of writes: thread, open, start, end and bytes of each."""
    writer = RawLogWriter()
    for number in (1, 2):
        writer.open(number, "/data/shared", flags=WRITE_NEW)
    for offset, (thread, number, start, end, size) in enumerate(calls):
        own = {"thread": writer.pid + thread, "offset": 1000 * offset, "offset_source": source}
        writer.add_write(size, start, end, file=number, **own)
    writer.end()
    return collected(tmp_path, writer)


def test_what_overlaps_another_thread_is_counted(tmp_path: Path) -> None:
    """One long write beside two short ones; a fourth begins when all have ended."""
    calls = (0, 1, 0, 90, 5), (1, 1, 10, 20, 6), (1, 1, 30, 40, 6), (0, 1, 95, 99, 7)
    trace = made(tmp_path, *calls)
    assert doubts(trace) == [
        "3 reads or writes of threads at once through one position: their places may be swapped"
    ]
    sources = [source for (source,) in rows(trace, "offset_source", op="write")]
    assert sources == ["inferred"] * 3 + ["tracked"]


def test_equal_lengths_leave_the_extents_certain(tmp_path: Path) -> None:
    """Only who wrote which of them is not known."""
    trace = made(tmp_path, (0, 1, 0, 50, 5), (1, 1, 10, 60, 5))
    assert doubts(trace) == []
    assert rows(trace, "offset_source", op="write") == [("inferred",)] * 2


@pytest.mark.parametrize(
    ("calls", "source"),
    [
        ([(0, 1, 0, 50, 5), (1, 2, 10, 60, 6)], "tracked"),  # two open files
        ([(0, 1, 0, 50, 5), (1, 1, 51, 60, 6)], "tracked"),  # one after the other
        ([(0, 1, 0, 50, 5), (0, 1, 10, 60, 6)], "tracked"),  # one thread
        ([(0, 1, 0, 50, 5), (1, 1, 10, 60, 6)], "argument"),
        ([(0, 1, 0, 50, 5), (1, 1, 10, 60, 6)], "queried"),
    ],
)
def test_certain_places_stay(
    tmp_path: Path, calls: list[tuple[int, int, int, int, int]], source: str
) -> None:
    """Of other open files, at other times, of one thread, or not at the position."""
    trace = made(tmp_path, *calls, source=source)
    assert doubts(trace) == []
    assert {found for (found,) in rows(trace, "offset_source", op="write")} == {source}


@pytest.mark.parametrize("call", ["read", "write"])
def test_threads_at_one_position_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """Real threads, in lengths of their own: all bytes are there, and not all places certain."""
    monkeypatch.chdir(tmp_path)
    trace = job(tmp_path, call)
    (doubt,) = trace.metadata.completeness.problems()
    assert doubts(trace) == [doubt]
    extents = sorted(
        (offset, moved)
        for path, offset, moved in rows(trace, "path", "offset", "result", op=call)
        if path == str(tmp_path / "shared") and moved and moved < 1_000_000
    )
    assert len(extents) == THREADS * CALLS
    assert sum(moved for _, moved in extents) == THREADS * sum(range(CALLS)) + CALLS * 1_000_000


def test_what_is_not_told_is_where_the_file_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each thread writes a byte of its own: the content says where each write went."""
    monkeypatch.chdir(tmp_path)
    trace = job(tmp_path, "write")
    content = Path("shared").read_bytes()
    for source, offset, moved in rows(trace, "offset_source", "offset", "result", op="write"):
        if source == "tracked":
            assert len(set(content[offset : offset + moved])) == 1


def test_a_seek_beside_a_write_is_told(tmp_path: Path) -> None:
    """The write may have come before it or behind; one after both, or to another file, has not."""
    writer = RawLogWriter()
    for number in (1, 2):
        writer.open(number, "/data/shared", flags=WRITE_NEW)
    for number, start, source in ((1, 0, "tracked"), (1, 90, "queried"), (2, 0, "tracked")):
        times = {"start_ns": 10**9 + start, "end_ns": 10**9 + start + 50}
        extent = {"offset": 100, "length": 7, "result": 7, "offset_source": source}
        writer.add("write", thread=writer.pid, file=number, **extent, **times)
    moved = {"start_ns": 10**9 + 40, "end_ns": 10**9 + 80}
    writer.add("seek", thread=writer.pid + 1, file=1, offset=100, **moved)
    writer.end()
    trace = collected(tmp_path, writer)
    assert len(doubts(trace)) == 1 and doubts(trace)[0].startswith("1 reads or writes")
    sources = [source for (source,) in rows(trace, "offset_source", op="write")]
    assert sorted(sources) == ["inferred", "queried", "tracked"]
    assert len(rows(trace, "op", layer="request")) == 5  # a seek is no request


def test_threads_at_once_long_after_a_seek_are_told(tmp_path: Path) -> None:
    """Both are told what the last of them has moved the position to; one before them is certain."""
    writer = RawLogWriter()
    writer.open(1, "/data/shared")
    writer.add("seek", file=1, offset=0, start_ns=10**9, end_ns=10**9 + 10)
    for thread, start, offset in ((0, 20, 0), (0, 100, 8192), (1, 101, 8192)):
        times = {"start_ns": 10**9 + start, "end_ns": 10**9 + start + 50}
        extent = {"offset": offset, "length": 4096, "result": 4096, "offset_source": "queried"}
        writer.add("read", thread=writer.pid + thread, file=1, **extent, **times)
    writer.end()
    trace = collected(tmp_path, writer)
    assert len(doubts(trace)) == 1 and doubts(trace)[0].startswith("2 reads or writes")
    sources = [source for (source,) in rows(trace, "offset_source", op="read")]
    assert sources == ["queried", "inferred", "inferred"]


def test_seeks_of_threads_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Real threads: as many as are marked, and the trace passes its check."""
    monkeypatch.chdir(tmp_path)
    trace = job(tmp_path, "seek")
    sources = [
        source
        for path, source in rows(trace, "path", "offset_source", op="write")
        if path == str(tmp_path / "shared")
    ]
    told = [int(doubt.split()[0].replace(",", "")) for doubt in doubts(trace)]
    assert len(sources) == THREADS * CALLS
    assert sum(told) == sources.count("inferred")
    assert check_trace(trace) == []


@pytest.mark.parametrize("call", ["locked", "ask"])
def test_threads_that_wait_for_each_other_are_certain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """Each seeks and writes while the others wait; or asks where the position is."""
    monkeypatch.chdir(tmp_path)
    trace = job(tmp_path, call)
    assert trace.metadata.completeness.problems() == []
    own = [
        (offset, moved)
        for path, offset, moved in rows(trace, "path", "offset", "result", op="write")
        if path == str(tmp_path / "shared")
    ]
    assert len(own) == THREADS * CALLS
    if call == "locked":
        assert all(offset // 1_000_000 == moved // 100_000 - 1 for offset, moved in own)
    else:
        assert max(sum(one) for one in own) == sum(moved for _, moved in own)


@pytest.mark.parametrize("call", ["pwrite", "own"])
def test_threads_with_places_of_their_own_are_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """An offset that was given, or a descriptor for each thread."""
    monkeypatch.chdir(tmp_path)
    assert job(tmp_path, call).metadata.completeness.problems() == []
