"""A trace says what it lacks, and does not cry wolf."""

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
from iotrace.traces.metadata import Completeness, FileCompleteness

from .raw_log_writer import RawLogWriter

NEW = os.O_RDWR | os.O_CREAT | os.O_TRUNC
BLOCK_BYTES = 4096


@pytest.fixture
def writer() -> RawLogWriter:
    """Return the writer of the log of a process of this boot, which has ended."""
    return RawLogWriter(pid=2**22 - 1, boot_id=boot_id())


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return a file of three blocks without a zero in it."""
    path = tmp_path / "x.pt"
    path.write_bytes(b"x" * (3 * BLOCK_BYTES))
    return path


def open_as(
    writer: RawLogWriter, path: Path, name: Path | None = None, flags: int = NEW, size: int = 0
) -> None:
    """Record an open of a file that is really there."""
    status = path.stat()
    writer.open(
        1, str(name or path), flags=flags, inode=status.st_ino, device=status.st_dev, size=size
    )


def write(writer: RawLogWriter, *extents: tuple[int, int]) -> None:
    """Record writes, each with offset and length."""
    for offset, length in extents:
        writer.add("write", file=1, offset=offset, length=length, result=length)


def completeness(writer: RawLogWriter, folder: Path, ended: bool = False) -> Completeness:
    """Return what the trace says it lacks; let the process end before, unless it has."""
    raw = folder / "raw"
    raw.mkdir(exist_ok=True)
    if not ended:
        writer.end()
    writer.write(raw)
    return collect(raw, ()).metadata.completeness


def of_file(writer: RawLogWriter, folder: Path) -> FileCompleteness:
    """Return what the trace says about its only file."""
    (one,) = completeness(writer, folder).files
    return one


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


def test_a_file_is_found_under_its_final_name(
    writer: RawLogWriter, file: Path, tmp_path: Path
) -> None:
    """The temporary name is gone when the job ends."""
    old_name = tmp_path / "x.tmp"
    open_as(writer, file, name=old_name)
    write(writer, (0, 3 * BLOCK_BYTES))
    writer.add(
        "rename", f"{old_name}\0{file}", offset=file.stat().st_dev, length=file.stat().st_ino,
        result=0,
    )  # fmt: skip
    found = of_file(writer, tmp_path)
    assert (found.path, found.final_size, found.complete) == (str(file), 3 * BLOCK_BYTES, True)


def test_a_removed_file_cannot_be_checked_and_is_no_problem(
    writer: RawLogWriter, file: Path, tmp_path: Path
) -> None:
    """Old checkpoints are removed as new ones come."""
    open_as(writer, file)
    write(writer, (0, 5))
    status = file.stat()
    file.unlink()
    writer.add("unlink", str(file), offset=status.st_dev, length=status.st_ino, result=0)
    found = completeness(writer, tmp_path)
    assert found.files[0].final_size is None
    assert found.complete, found.problems()


def test_a_file_that_vanished_unseen_is_named(
    writer: RawLogWriter, file: Path, tmp_path: Path
) -> None:
    """Some programs rename and remove with bare system calls."""
    open_as(writer, file)
    write(writer, (0, 5))
    file.unlink()
    assert f"1 written file gone by a rename or removal that was not seen; the first is {file}" in (
        completeness(writer, tmp_path).notes
    )


def test_another_file_under_the_name_is_not_compared(
    writer: RawLogWriter, file: Path, tmp_path: Path
) -> None:
    """Its size says nothing about the one that was recorded."""
    open_as(writer, file)
    write(writer, (0, 5))
    other = tmp_path / "other"
    other.write_bytes(b"y" * 99)
    other.rename(file)
    assert of_file(writer, tmp_path).final_size is None


def test_a_file_of_another_boot_is_not_looked_at(
    writer: RawLogWriter, file: Path, tmp_path: Path
) -> None:
    """Device and inode numbers mean nothing on another host."""
    writer.boot_id = "another"
    open_as(writer, file)
    write(writer, (0, 5))
    found = of_file(writer, tmp_path)
    assert (found.final_size, found.complete) == (None, True)


def test_files_that_were_only_read_are_listed_with_their_size(
    writer: RawLogWriter, file: Path, tmp_path: Path
) -> None:
    """A restore reads part of a file; the size says of how much."""
    open_as(writer, file, flags=os.O_RDONLY, size=3 * BLOCK_BYTES)
    writer.add("read", file=1, offset=0, length=10, result=10)
    found = of_file(writer, tmp_path)
    assert (found.recorded_bytes_written, found.final_size, found.complete) == (0, 12288, True)


def test_stores_to_memory_are_named_as_not_seen(
    writer: RawLogWriter, file: Path, tmp_path: Path
) -> None:
    """What np.memmap writes makes no request."""
    open_as(writer, file)
    writer.add("truncate", file=1, length=3 * BLOCK_BYTES, result=0)
    writer.add("map", file=1, offset=0, length=3 * BLOCK_BYTES, flags=3, result=0)
    found = completeness(writer, tmp_path)
    assert not found.files[0].complete
    assert any("12 KiB of 1 file were mapped into memory for writing" in n for n in found.notes)


def test_loads_through_memory_are_named_as_not_seen(
    writer: RawLogWriter, file: Path, tmp_path: Path
) -> None:
    """torch maps privately and asks for write permission even to read."""
    open_as(writer, file, flags=os.O_RDONLY, size=3 * BLOCK_BYTES)
    for offset, length in ((0, 8192), (4096, 8192)):
        writer.add("map", file=1, offset=offset, length=length, flags=3, result=0)
    notes = completeness(writer, tmp_path).notes
    assert any("12 KiB of 1 file were mapped into memory for reading" in n for n in notes)
    assert not any("for writing" in n for n in notes)


def test_a_load_of_what_was_in_memory_is_named_as_not_seen(
    writer: RawLogWriter, file: Path, tmp_path: Path
) -> None:
    """Pages in the page cache make no major fault: 0 bytes read would look like the whole truth."""
    open_as(writer, file, flags=os.O_RDONLY, size=3 * BLOCK_BYTES)
    writer.add("read", file=1, offset=0, length=8, result=8)
    parts = [tmp_path / "read", tmp_path / "mapped"]
    for part in parts:
        (part / "raw").mkdir(parents=True)
        (part / "raw" / "faults-0.perf").write_bytes(b"")  # watched, and none came
    assert not [note for note in completeness(writer, parts[0]).notes if "mapped" in note]
    writer.add("map", file=1, offset=0, length=3 * BLOCK_BYTES, flags=1, result=0)
    notes = completeness(writer, parts[1]).notes
    assert (
        "12 KiB of 1 file were mapped into memory for reading; "
        "what was read of them from memory was not seen"
    ) in notes


def test_the_kernel_counts_what_was_not_recorded(
    writer: RawLogWriter, file: Path, tmp_path: Path
) -> None:
    """Bytes by pipes, out of scope and by io_uring, which the kernel counts nowhere, are known."""
    writer.counters = {"other_bytes_written": 1_000_000, "ignored_bytes_written": 10_000_000,
                       "ignored_bytes_read": 5_000_000, "own_bytes_read": 700}  # fmt: skip
    open_as(writer, file)
    write(writer, (0, 3 * BLOCK_BYTES))
    writer.add("write", file=1, offset=0, length=4096, result=4096, api="io_uring")
    writer.end(rchar=5_000_700, wchar=11_000_000 + 3 * BLOCK_BYTES)
    (process,) = completeness(writer, tmp_path, ended=True).processes
    assert (process.unseen_bytes_read, process.unseen_bytes_written) == (0, 0)
    assert process.recorded_bytes_written == 3 * BLOCK_BYTES + 4096


def test_bytes_that_nobody_saw_make_the_trace_incomplete(
    writer: RawLogWriter, file: Path, tmp_path: Path
) -> None:
    """A statically linked writer inside the process."""
    open_as(writer, file)
    write(writer, (0, 3 * BLOCK_BYTES))
    writer.counters = {"own_bytes_written": 65536}  # room made for the log
    writer.end(wchar=3 * BLOCK_BYTES + 65536 + 5000)
    found = completeness(writer, tmp_path, ended=True)
    assert found.processes[0].unseen_bytes_written == 5000
    assert not found.complete


def test_the_bytes_of_children_are_not_missed_in_their_parent(tmp_path: Path) -> None:
    """The kernel adds those of a child that was waited for: torchrun and its ranks."""
    parent, child = RawLogWriter(pid=10), RawLogWriter(pid=11, parent_pid=10)
    for writer, written in ((child, 5_000_000), (parent, 20)):
        writer.open(1, "/data/x", flags=NEW)
        writer.add("write", file=1, offset=0, length=written, result=written)
    child.end(rchar=900_000, wchar=5_000_000)
    parent.end(rchar=900_100, wchar=5_000_020)
    child.counters = {"ignored_bytes_read": 900_000}
    for writer in (parent, child):
        writer.write(tmp_path)
    for process in collect(tmp_path, ()).metadata.completeness.processes:
        assert (process.unseen_bytes_read, process.unseen_bytes_written) == (0, 0)
        assert process.kernel_bytes_written == process.recorded_bytes_written


def test_a_killed_child_makes_the_count_of_its_parent_unknown(tmp_path: Path) -> None:
    """Its bytes are in the count; a number that cannot be compared must not be shown."""
    parent, child = RawLogWriter(pid=10), RawLogWriter(pid=11, parent_pid=10)
    child.open(1, "/data/x", flags=NEW)
    parent.open(1, "/data/y", flags=NEW)
    parent.end(wchar=5_000_020)
    for writer in (parent, child):
        writer.write(tmp_path)
    for process in collect(tmp_path, ()).metadata.completeness.processes:
        assert process.kernel_bytes_written is None


def test_a_process_that_did_not_end_itself_was_killed(writer: RawLogWriter, tmp_path: Path) -> None:
    """Its log has no final counters."""
    writer.open(1, "/data/x")
    assert "was killed" in completeness(writer, tmp_path, ended=True).problems()[0]


def test_a_process_that_goes_on_is_named(writer: RawLogWriter, tmp_path: Path) -> None:
    """A daemon outlives the job; its log is read as it is now."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    writer.pid, writer.pid_start_ticks = os.getpid(), int(fields[19])
    writer.open(1, "/data/x")
    assert "still runs" in completeness(writer, tmp_path, ended=True).problems()[0]


def test_losses_of_all_logs_are_added(tmp_path: Path) -> None:
    """One overfull log makes the whole trace incomplete."""
    for pid in (1, 2):
        writer = RawLogWriter(
            pid=pid, counters={"dropped_records": pid, "unknown_descriptors": 10, "cut_texts": 100}
        )
        writer.open(1, "/data/x")
        writer.end()
        writer.write(tmp_path)
    found = collect(tmp_path, ()).metadata.completeness
    assert (found.dropped_records, found.unknown_descriptors, found.cut_texts) == (3, 20, 200)


SMALL_EXTENTS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 10)), max_size=12)


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
