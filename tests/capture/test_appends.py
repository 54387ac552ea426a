"""Requests at once that name no place of their own: to the end of a file, or at its position."""

from itertools import pairwise
from pathlib import Path

import pytest

from iotrace.capture.collector import collect
from iotrace.traces.check import check_trace
from iotrace.traces.trace import Trace

from .collected import WRITE_NEW, collected, rows
from .preload_job import capture, compile_program
from .raw_log_writer import RawLogWriter

HOLE_BYTES = 1 << 20
WRITES = 4 * 9


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Appends and requests at the position, by each asynchronous interface."""
    folder = tmp_path_factory.mktemp("program")
    return compile_program(folder, "shared_end.c", "-O2", "-laio", "-luring", "-pthread")


def run(program: Path, folder: Path, *case: str) -> Trace:
    """Return the trace of one case."""
    (folder / "files").mkdir()
    captured = capture([program, folder / "files", *case], folder / "logs")
    assert captured.done.returncode == 0, captured.done.stderr
    return collect(folder / "logs", case)


@pytest.mark.parametrize("case", ["posix", "libaio", "ring", "mixed"])
def test_appends_at_once_lie_one_behind_the_other(program: Path, tmp_path: Path, case: str) -> None:
    """They fill the file behind its hole, and those that may be swapped are told."""
    trace = run(program, tmp_path, case)
    extents = sorted(rows(trace, "offset", "result", op="write"))
    assert extents[0][0] == HOLE_BYTES
    assert all(sum(one) == two[0] for one, two in pairwise(extents))
    assert sum(extents[-1]) == (tmp_path / "files" / "file").stat().st_size
    assert check_trace(trace) == []
    (file,) = trace.metadata.completeness.files
    assert file.complete
    (problem,) = trace.metadata.completeness.problems()
    count = 4 * 8 * (3 if case == "mixed" else 1)
    assert problem.startswith(f"{count} writes to the end of a file")


def test_appends_of_one_length_are_certain(program: Path, tmp_path: Path) -> None:
    """Only which of them came first is not known."""
    trace = run(program, tmp_path, "posix", "equal")
    assert trace.metadata.completeness.problems() == []
    sources = [source for (source,) in rows(trace, "offset_source", op="write")]
    assert sources.count("inferred") == WRITES - 4


@pytest.mark.parametrize("case", ["position", "links", "slot"])
def test_requests_of_a_ring_at_the_position(program: Path, tmp_path: Path, case: str) -> None:
    """The kernel runs them at once, even to one place; links come one after the other.

    What is not known is told, and what comes after is where the file has it.
    """
    trace = run(program, tmp_path, case)
    content = (tmp_path / "files" / "file").read_bytes()
    told = 0
    for offset, result, source in rows(trace, "offset", "result", "offset_source", op="write"):
        if offset is None:
            told += 1
        elif result == 1:
            assert content[offset : offset + 1] in (b"z", b"a") and source != "inferred"
        else:
            assert len(set(content[offset : offset + result])) == 1
    assert told == (0 if case == "links" else WRITES - 4)
    assert bool(trace.metadata.completeness.problems()) == (case != "links")
    assert check_trace(trace) == []


def test_a_descriptor_handed_on_by_a_ring_is_asked_about(program: Path, tmp_path: Path) -> None:
    """As one that sendmsg() hands on: another process moves its position, too."""
    trace = run(program, tmp_path, "handed")
    assert sorted(rows(trace, "offset", "result", "offset_source", op="write")) == [
        (0, 100, "tracked"),
        (100, 200, "queried"),
        (300, 300, "queried"),
    ]


@pytest.mark.parametrize(("case", "source"), [("empty", "queried"), ("message", "tracked")])
def test_requests_of_a_ring_that_hand_nothing_on(
    program: Path, tmp_path: Path, case: str, source: str
) -> None:
    """An append of nothing has no end; a message that carries no file shares no descriptor."""
    (tmp_path / "files").mkdir()
    captured = capture([program, tmp_path / "files", case], tmp_path / "logs")
    assert captured.done.returncode == 0, captured.done.stderr
    writes = captured.of("file", "write")
    assert [write.offset_source for write in writes if write.result] == [source]
    assert {write.offset_source for write in writes if not write.result} <= {"argument"}


def made(tmp_path: Path, *calls: tuple[str, int, int, int, int]) -> Trace:
    """Return the trace of writes: source, start, end, offset and bytes of each."""
    writer = RawLogWriter()
    writer.open(1, "/data/file", flags=WRITE_NEW)
    for source, start, end, offset, size in calls:
        writer.add_write(size, start, end, file=1, offset=offset, offset_source=source)
    writer.end()
    return collected(tmp_path, writer)


def test_an_append_alone_is_where_the_size_says(tmp_path: Path) -> None:
    """Two of them, one after the other; the file was sparse before."""
    trace = made(tmp_path, ("end", 0, 10, 5000, 10), ("end", 20, 30, 5010, 20))
    assert rows(trace, "offset", "offset_source", op="write") == [
        (5000, "queried"),
        (5010, "queried"),
    ]


def test_appends_seen_late_are_put_back(tmp_path: Path) -> None:
    """Both are asked about when both are there; the first cluster ends before the second begins."""
    trace = made(
        tmp_path,
        ("end", 0, 50, 110, 10),
        ("end", 5, 50, 100, 20),
        ("end", 60, 90, 140, 30),
        ("end", 61, 90, 140, 30),
    )
    assert rows(trace, "offset", "offset_source", op="write") == [
        (90, "inferred"),
        (100, "inferred"),
        (110, "inferred"),
        (140, "inferred"),
    ]
    (problem,) = trace.metadata.completeness.problems()
    assert problem.startswith("2 writes to the end")


def test_links_that_append_beside_another_are_a_doubt(tmp_path: Path) -> None:
    """Two heads: which of them was first is not known. Alone, a chain is in turn."""
    heads = (("end", 0, 50, 110, 10), ("linked end", 0, 50, 110, 20), ("end", 5, 50, 110, 30))
    trace = made(tmp_path, *heads)
    (problem,) = trace.metadata.completeness.problems()
    assert problem.startswith("3 writes to the end")


def test_links_that_append_lie_in_their_order(tmp_path: Path) -> None:
    """All were asked about when all were there."""
    trace = made(tmp_path, ("end", 0, 50, 100, 10), ("linked end", 0, 51, 90, 20))
    assert rows(trace, "offset", "offset_source", op="write") == [
        (80, "queried"),
        (90, "queried"),
    ]
    assert trace.metadata.completeness.problems() == []


def test_an_append_beside_another_write_is_a_doubt(tmp_path: Path) -> None:
    """It may be behind what the other has added by then."""
    trace = made(tmp_path, ("end", 0, 50, 110, 10), ("argument", 5, 20, 100, 10))
    (problem,) = trace.metadata.completeness.problems()
    assert problem.startswith("1 write to the end")


def test_appends_while_the_file_is_cut_are_a_doubt(tmp_path: Path) -> None:
    """The size does not hold them both any more."""
    trace = made(tmp_path, ("end", 0, 50, 10, 10), ("end", 1, 50, 5, 20))
    assert [offset for (offset,) in rows(trace, "offset", op="write")] == [10, 5]
    (problem,) = trace.metadata.completeness.problems()
    assert problem.startswith("2 writes to the end")


@pytest.mark.parametrize("is_ended", [True, False])
def test_one_that_failed_or_never_ended_may_have_moved_the_position(
    tmp_path: Path, is_ended: bool
) -> None:
    """What it did was known only after the other had ended: that one has no place."""
    writer = RawLogWriter()
    writer.open(1, "/data/file", flags=WRITE_NEW)
    ring = {"file": 1, "length": 500, "api": "io_uring", "start_ns": 10**9}
    writer.add("write", result=500, end_ns=10**9 + 50, **ring)
    writer.add("write", result=-5, end_ns=10**9 + 20 if is_ended else 0, **ring)
    writer.end()
    problems = collected(tmp_path, writer).metadata.completeness.problems()
    assert any(one.startswith("1 request without an offset: others") for one in problems)


def test_appends_while_the_file_grows_by_others_stay_as_seen(tmp_path: Path) -> None:
    """None can lie behind the size that was seen after it."""
    calls = ("end", 0, 20, 0, 100), ("end", 10, 40, 900, 100), ("end", 30, 60, 1000, 100)
    trace = made(tmp_path, *calls)
    assert [offset for (offset,) in rows(trace, "offset", op="write")] == [0, 900, 1000]
    (problem,) = trace.metadata.completeness.problems()
    assert problem.startswith("3 writes to the end")


def test_an_append_of_nothing_has_a_source_of_the_format(tmp_path: Path) -> None:
    """Alone, and beside one that moves bytes."""
    trace = made(tmp_path, ("end", 0, 10, 5000, 0), ("end", 5, 15, 5000, 10), ("end", 20, 30, 5, 0))
    assert {source for (source,) in rows(trace, "offset_source", op="write")} == {"queried"}
    assert check_trace(trace) == []
