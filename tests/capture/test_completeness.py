"""A trace says what it lacks, and does not cry wolf."""

import os
import sys
from pathlib import Path

import pytest

from iotrace.capture.collector import collect
from iotrace.traces.check import check_trace
from iotrace.traces.environment import boot_id

from .file_log import BLOCK_BYTES, NEW, completeness, of_file, open_as, write
from .preload_job import capture
from .raw_log_writer import RawLogWriter


@pytest.fixture
def writer() -> RawLogWriter:
    """Return the writer of the log of a process of this boot, which has ended."""
    return RawLogWriter(pid=2**22 - 1, boot_id=boot_id())


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


# Each goes by a folder's own name to what was opened through a link to it. The file left, if any.
BY_TWO_NAMES = {
    "removed": ("new('link/a'); os.unlink('real/a')", []),
    "renamed and removed": (
        "new('link/a'); os.rename('real/a', 'real/b'); os.unlink('link/b')",
        [],
    ),
    "its folder renamed": (
        "os.mkdir('link/t'); new('link/t/a'); os.rename('real/t', 'real/f')",
        ["real/f/a"],
    ),
    "replaced": (
        "new('link/a'); new('real/b'); os.rename('real/b', 'real/a'); os.unlink('real/a')",
        [],
    ),
    "cut": ("new('link/a'); os.truncate('real/a', 100)", ["link/a"]),
    "the link is gone": (
        "os.mkdir('top'); os.symlink('../real', 'top/link'); new('top/link/a');"
        "os.unlink('top/link'); os.unlink('real/a')",
        [],
    ),
    "one of two names removed": (
        "new('link/a'); os.link('link/a', 'link/b'); os.unlink('real/b')",
        ["link/a"],
    ),
}


@pytest.mark.parametrize("case", BY_TWO_NAMES)
def test_a_file_by_two_spellings_of_its_name_is_one(case: str, tmp_path: Path) -> None:
    """A job's scratch space is often a link, and the job asks now by it and now by its target."""
    does, left = BY_TWO_NAMES[case]
    top = tmp_path / "top"
    (top / "real").mkdir(parents=True)
    (top / "link").symlink_to("real")
    job = (
        "import os\ndef new(name):\n    with open(name, 'wb') as file:\n"
        "        file.write(bytes(5000))\n" + does.replace("; ", "\n").replace(";", "\n")
    )
    command = (sys.executable, "-S", "-c", f"import os; os.chdir({str(top)!r})\n{job}")
    captured = capture(command, tmp_path / "raw", {"IOTRACE_INCLUDE": f"{top}/*"})
    assert captured.done.returncode == 0, captured.done.stderr
    trace = collect(tmp_path / "raw", ())
    found = trace.metadata.completeness
    assert check_trace(trace) == [] and found.notes == ()
    kept = [one for one in found.files if one.final_size is not None]
    assert [one.path.removeprefix(f"{top}/") for one in kept] == left
    assert all(one.complete for one in found.files)
    about = trace.where(trace.row_mask(op=("unlink", "truncate")))
    assert case == "the link is gone" or about.valid("file").all()
    assert not about.valid("address").any()


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
