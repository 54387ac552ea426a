"""Which bytes of a file its writes explain: all but holes, and what was there before."""

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iotrace.capture.collector import collect
from iotrace.capture.extents import Extents
from iotrace.traces.check import check_trace
from iotrace.traces.environment import boot_id

from .file_log import BLOCK_BYTES, NEW, completeness, of_file, open_as, write
from .raw_log_writer import RawLogWriter

SMALL_EXTENTS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 10)), max_size=12)


@pytest.fixture
def writer() -> RawLogWriter:
    """Return the writer of the log of a process of this boot, which has ended."""
    return RawLogWriter(pid=2**22 - 1, boot_id=boot_id())


def test_writes_that_cover_a_file_explain_it(
    writer: RawLogWriter, file: Path, tmp_path: Path
) -> None:
    """In any order, and overlapping."""
    open_as(writer, file)
    write(writer, (8000, 4288), (0, 4096), (4096, 4000))
    found = completeness(writer, tmp_path)
    assert found.complete, found.problems()
    assert (found.files[0].recorded_bytes_written, found.files[0].final_size) == (12288, 12288)


@pytest.mark.parametrize("missing", [(0, 1), (5000, 7), (4096, 4096), (12287, 1)])
def test_a_missing_byte_is_noticed(
    writer: RawLogWriter, file: Path, tmp_path: Path, missing: tuple[int, int]
) -> None:
    """A write by a bare system call leaves no record, only a file that is not explained."""
    offset, length = missing
    open_as(writer, file)
    write(writer, (0, offset), (offset + length, 3 * BLOCK_BYTES - offset - length))
    found = completeness(writer, tmp_path)
    assert not found.complete
    assert str(file) in found.problems()[0]


def test_holes_are_explained(writer: RawLogWriter, tmp_path: Path) -> None:
    """Engines skip to the next aligned offset, within a block and over blocks."""
    path = tmp_path / "sparse"
    with path.open("wb") as file:
        for offset in (0, 9 * BLOCK_BYTES):
            file.seek(offset)
            file.write(b"x" * 100)
        file.truncate(20 * BLOCK_BYTES)
    open_as(writer, path)
    write(writer, (0, 100), (9 * BLOCK_BYTES, 100))
    found = of_file(writer, tmp_path)
    assert found.complete
    assert found.recorded_bytes_written == 100


def test_zeros_that_were_written_unseen_are_no_hole(writer: RawLogWriter, tmp_path: Path) -> None:
    """A tensor of zeros is data; only the edges of a block are excused."""
    path = tmp_path / "zeros"
    path.write_bytes(bytes(3 * BLOCK_BYTES))
    open_as(writer, path)
    write(writer, (0, BLOCK_BYTES))
    assert not of_file(writer, tmp_path).complete


def test_what_was_there_before_needs_no_record(
    writer: RawLogWriter, file: Path, tmp_path: Path
) -> None:
    """A log file that is appended to is not incomplete."""
    open_as(writer, file, flags=os.O_WRONLY | os.O_APPEND, size=2 * BLOCK_BYTES)
    write(writer, (2 * BLOCK_BYTES, BLOCK_BYTES))
    assert of_file(writer, tmp_path).complete


@pytest.mark.parametrize("emptied_by", ["open", "truncate"])
def test_writes_from_before_the_file_was_emptied_do_not_count(
    writer: RawLogWriter, file: Path, tmp_path: Path, emptied_by: str
) -> None:
    """The second checkpoint under a name must be as complete as the first."""
    open_as(writer, file)
    write(writer, (0, 3 * BLOCK_BYTES))
    if emptied_by == "open":
        open_as(writer, file)
    else:
        writer.add("truncate", file=1, length=0, result=0)
    write(writer, (0, BLOCK_BYTES))
    assert not of_file(writer, tmp_path).complete


@given(SMALL_EXTENTS, st.integers(0, 60))
def test_union_and_gaps_share_the_bytes_out(extents: list[tuple[int, int]], size: int) -> None:
    """Every byte below the size is in the union or in a gap, and in one only."""
    starts, lengths = np.array(extents, np.int64).reshape(-1, 2).T
    union = Extents.union(starts, starts + lengths)
    covered = {b for start, length in extents for b in range(start, start + length)}
    in_union = [b for s, e in zip(union.starts, union.ends, strict=True) for b in range(s, e)]
    assert in_union == sorted(covered)
    in_gaps = [b for start, end in union.gaps(size) for b in range(start, end)]
    assert in_gaps == sorted(set(range(size)) - covered)
    assert union.prefix_bytes == next(b for b in range(100) if b not in covered)


def append_at_once(writer: RawLogWriter, path: Path, count: int) -> None:
    """Record a file of 6000 bytes: 4500 at their places, and `count` times 500 at its end.

    Those come through a ring, and nobody was told where they went.
    """
    path.write_bytes(b"x" * 6000)
    open_as(writer, path, flags=NEW | os.O_APPEND)
    write(writer, (0, 4000), (5500, 500))
    start_ns = next(writer.clock)
    for _ in range(count):
        writer.add("write", file=1, length=500, result=500, api="io_uring", start_ns=start_ns)


def test_writes_without_a_place_explain_a_file_by_their_bytes(
    writer: RawLogWriter, tmp_path: Path
) -> None:
    """They fill what the others left out; the doubt is told, and is no contradiction."""
    path = tmp_path / "log"
    append_at_once(writer, path, 3)
    (tmp_path / "raw").mkdir()
    writer.end(wchar=4500)
    writer.write(tmp_path / "raw")
    trace = collect(tmp_path / "raw", ())
    assert check_trace(trace) == []
    (file,) = trace.metadata.completeness.files
    assert (file.recorded_bytes_written, file.final_size, file.complete) == (6000, 6000, True)
    assert trace.metadata.completeness.problems() == [
        "3 requests without an offset: others at the same time moved the same position or the end "
        "of the same file"
    ]


def test_too_few_writes_without_a_place_explain_no_file(
    writer: RawLogWriter, tmp_path: Path
) -> None:
    """One of three was not seen."""
    path = tmp_path / "log"
    append_at_once(writer, path, 2)
    problems = completeness(writer, tmp_path).problems()
    assert f"{path}: 5500 bytes recorded as written, final size 6000" in problems


@pytest.mark.parametrize(("count", "complete"), [(2, True), (0, False)])
def test_the_holes_of_a_file_need_no_write(
    writer: RawLogWriter, tmp_path: Path, count: int, complete: bool
) -> None:
    """What was written without a place lies behind a hole of many blocks."""
    path = tmp_path / "sparse"
    with path.open("wb") as file:
        file.seek(100 * BLOCK_BYTES + 50)
        file.write(b"x" * 3 * BLOCK_BYTES)
    open_as(writer, path)
    for _ in range(count):
        size = 3 * BLOCK_BYTES // 2
        writer.add("write", file=1, length=size, result=size, api="io_uring")
    assert of_file(writer, tmp_path).complete == complete


@pytest.mark.parametrize(("count", "complete"), [(2, True), (0, False)])
def test_each_stretch_between_holes_begins_and_ends_inside_of_a_block(
    writer: RawLogWriter, tmp_path: Path, count: int, complete: bool
) -> None:
    """Two of 100 bytes, each astride the edge of two blocks, hold four blocks."""
    path = tmp_path / "sparse"
    with path.open("wb") as file:
        for block in (10, 20):
            file.seek(block * BLOCK_BYTES - 50)
            file.write(b"x" * 100)
        file.truncate(30 * BLOCK_BYTES)
    open_as(writer, path)
    for _ in range(count):
        writer.add("write", file=1, length=100, result=100, api="io_uring")
    assert of_file(writer, tmp_path).complete == complete


@pytest.mark.parametrize(("count", "complete"), [(1, False), (10, True)])
def test_a_write_is_in_one_stretch_only(
    writer: RawLogWriter, tmp_path: Path, count: int, complete: bool
) -> None:
    """Ten blocks between holes are not what one write of 100 bytes has left there."""
    path = tmp_path / "sparse"
    with path.open("wb") as file:
        for block in range(10):
            file.seek(10 * block * BLOCK_BYTES)
            file.write(b"x" * BLOCK_BYTES)
        file.truncate(100 * BLOCK_BYTES)
    open_as(writer, path)
    for _ in range(count):
        writer.add("write", file=1, length=100, result=100, api="io_uring")
    assert of_file(writer, tmp_path).complete == complete


def test_a_file_that_is_not_to_be_read_is_explained_by_its_bytes(
    writer: RawLogWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What has no place holds all that the others left out: nothing is to be looked at."""
    path = tmp_path / "log"
    append_at_once(writer, path, 3)

    def refuse(*_: object) -> list[int]:
        raise PermissionError

    monkeypatch.setattr("iotrace.capture.completeness.data_bytes", refuse)
    assert of_file(writer, tmp_path).complete
