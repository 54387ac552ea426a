"""From raw logs to a trace: which file a request is on, and what it is called."""

import os
from pathlib import Path

import pytest

from iotrace.capture.session import CaptureOptions, capture, remove_raw_dir

from .collected import WRITE_NEW, collected, rows
from .raw_log_writer import RawLogWriter


def test_a_file_keeps_its_identity_through_a_rename(writer: RawLogWriter, tmp_path: Path) -> None:
    """Every engine writes to a temporary name and renames; both names are one file."""
    writer.open(1, "/data/x.tmp", flags=WRITE_NEW, inode=7)
    writer.add("rename", b"/data/x.tmp\0/data/x", offset=64, length=7, result=0)
    writer.open(2, "/data/x", inode=7)
    writer.open(3, "/data/x", inode=7)
    trace = collected(tmp_path, writer)
    assert rows(trace, "op", "path", "target", "file", "offset") == [
        ("open", "/data/x.tmp", None, 0, None),
        ("rename", "/data/x.tmp", "/data/x", 0, None),
        ("open", "/data/x", None, 0, None),
        ("open", "/data/x", None, 0, None),
    ]
    assert [f.path for f in trace.metadata.completeness.files] == ["/data/x"]


def test_a_failed_rename_names_nothing(writer: RawLogWriter, tmp_path: Path) -> None:
    """The file is still called what it was."""
    writer.open(1, "/data/x.tmp", flags=WRITE_NEW, inode=7)
    writer.add("rename", b"/data/x.tmp\0/other/x", offset=64, length=7, result=-18)
    trace = collected(tmp_path, writer)
    assert [f.path for f in trace.metadata.completeness.files] == ["/data/x.tmp"]


def test_a_renamed_folder_takes_its_files_along(writer: RawLogWriter, tmp_path: Path) -> None:
    """A checkpoint folder is often committed by one rename of the folder."""
    for number in (1, 2):
        writer.open(number, f"/data/tmp/{number}.pt", flags=WRITE_NEW)
    writer.open(3, "/data/tmpx", flags=WRITE_NEW)
    writer.add("rename", b"/data/tmp\0/data/step1", offset=64, length=99, result=0)
    trace = collected(tmp_path, writer)
    paths = [f.path for f in trace.metadata.completeness.files]
    assert paths == ["/data/step1/1.pt", "/data/step1/2.pt", "/data/tmpx"]


@pytest.mark.parametrize("births_ns", [(5, 6), (0, 0)], ids=["birth times", "none kept"])
def test_a_file_made_again_under_its_name_is_another_file(
    writer: RawLogWriter, tmp_path: Path, births_ns: tuple[int, int]
) -> None:
    """File systems give the inode of a removed file to the next one at once."""
    for number, birth_ns in enumerate(births_ns, start=1):
        writer.open(number, "/data/x", flags=WRITE_NEW, inode=7, birth_ns=birth_ns)
        writer.add("close", file=number, result=0)
        writer.add("unlink", "/data/x", offset=64, length=7, result=0)
    trace = collected(tmp_path, writer)
    assert [file for (file,) in rows(trace, "file")] == [0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize("birth_ns", [0, 1_700_000_000_000_000_000], ids=["no birth", "one tick"])
def test_a_file_replaced_by_a_rename_gives_its_inode_back(
    writer: RawLogWriter, tmp_path: Path, birth_ns: int
) -> None:
    """Checkpoints that are written beside the last one and renamed swap two inodes."""
    for number, inode in enumerate((7, 8, 7), start=1):
        writer.open(number, "/data/x.tmp", flags=WRITE_NEW, inode=inode, birth_ns=birth_ns)
        writer.add("close", file=number, result=0)
        writer.add("rename", b"/data/x.tmp\0/data/x", offset=64, length=inode, result=0)
    trace = collected(tmp_path, writer)
    assert [file for (file,) in rows(trace, "file")] == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert {f.path for f in trace.metadata.completeness.files} == {"/data/x"}


@pytest.mark.parametrize("birth_ns", [0, 1_700_000_000_000_000_500], ids=["no birth", "birth"])
def test_an_inode_is_no_file_of_the_job_before_that_was_made(
    writer: RawLogWriter, tmp_path: Path, birth_ns: int
) -> None:
    """What was removed first is an older checkpoint, which the job never opened."""
    writer.add("rename", b"/data/old\0/data/older", offset=64, length=7, result=0)
    writer.add("unlink", "/data/older", offset=64, length=7, result=0)
    writer.open(1, "/data/new", flags=WRITE_NEW, inode=7, birth_ns=birth_ns)
    writer.add("unlink", "/data/new", offset=64, length=7, result=0)
    writer.add("rename", b"/data/other\0/data/last", offset=64, length=7, result=0)
    trace = collected(tmp_path, writer)
    assert rows(trace, "op", "file") == [
        ("rename", None),
        ("unlink", None),
        ("open", 0),
        ("unlink", 0),
        ("rename", None),
    ]
    assert [f.path for f in trace.metadata.completeness.files] == ["/data/new"]


def test_a_file_with_two_names_outlives_one(writer: RawLogWriter, tmp_path: Path) -> None:
    """Lightning keeps the last checkpoint as a second link."""
    writer.open(1, "/data/x", flags=WRITE_NEW, inode=7)
    writer.add("link", b"/data/x\0/data/last", offset=64, length=7, result=0)
    writer.add("unlink", "/data/x", offset=64, length=7, result=0)
    writer.open(2, "/data/last", inode=7)
    trace = collected(tmp_path, writer)
    assert [file for (file,) in rows(trace, "file")] == [0, 0, 0, 0]


def test_two_processes_on_one_file_share_its_identity(tmp_path: Path) -> None:
    """A shared checkpoint file, written by two ranks, must not replay as two files."""
    ranks = [RawLogWriter(pid=5000 + r, rank_variables={"RANK": str(r)}) for r in (1, 0)]
    for rank, one in zip((1, 0), ranks, strict=True):
        one.open(1, "/data/other", inode=100 + rank)
        one.open(2, "/data/shared", flags=os.O_RDWR, inode=7)
        one.add("write", file=2, offset=rank * 10, length=10, result=10)
    trace = collected(tmp_path, *ranks)
    writes = rows(trace, "rank", "process", "file", op="write")
    assert {file for _, _, file in writes} == {writes[0][2]}
    assert sorted(rank for rank, _, _ in writes) == [0, 1]
    shared = [f for f in trace.metadata.completeness.files if f.path == "/data/shared"]
    assert [(f.process, f.recorded_bytes_written) for f in shared] == [(0, 20), (1, 20)]


def test_a_forked_child_goes_on_with_the_files_of_its_parent(tmp_path: Path) -> None:
    """It has a description of the open file and no open of its own."""
    parent, child = RawLogWriter(pid=10), RawLogWriter(pid=11, parent_pid=10, monotonic_ns=2_000)
    parent.open(1, "/data/x", flags=WRITE_NEW, inode=7)
    child.add("file", "/data/x", file=1, offset=64, length=7, start_ns=5_000)
    child.files = 1
    child.add("write", file=1, offset=0, length=3, result=3, start_ns=5_001)
    trace = collected(tmp_path, parent, child)
    assert rows(trace, "op", "process", "path", "file") == [
        ("open", 0, "/data/x", 0),
        ("write", 1, "/data/x", 0),
    ]
    assert [p.parent_pid for p in trace.metadata.processes] == [1, 10]


def test_paths_are_spelled_one_way(writer: RawLogWriter, tmp_path: Path) -> None:
    """`..` behind a link is not the folder before the link."""
    (tmp_path / "far" / "away").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "far" / "away")
    writer.open(1, f"/{tmp_path}//a/./x", inode=1)
    writer.open(2, f"{tmp_path}/link/../x", inode=2)
    trace = collected(tmp_path, writer)
    assert trace.strings("path") == [f"{tmp_path}/a/x", f"{tmp_path}/far/x"]


def test_names_that_are_no_utf8_come_through(writer: RawLogWriter, tmp_path: Path) -> None:
    """A path is bytes on Linux."""
    writer.open(1, os.fsdecode(b"/data/caf\xe9\\x"))
    trace = collected(tmp_path, writer)
    assert os.fsencode(trace.strings("path")[0] or "") == b"/data/caf\xe9\\x"


def test_an_open_file_closes_with_its_last_descriptor(writer: RawLogWriter, tmp_path: Path) -> None:
    """A duplicate keeps it open: what follows is no use of a closed file."""
    writer.open(1, "/data/x", flags=WRITE_NEW)
    writer.add("close", file=1, length=1)
    writer.add("write", file=1, offset=0, length=5, result=5, offset_source="tracked")
    writer.add("close", file=1, length=0)
    trace = collected(tmp_path, writer)
    assert [op for (op,) in rows(trace, "op")] == ["open", "write", "close"]


def test_dd_has_one_open_and_one_close(tmp_path: Path) -> None:
    """It opens its output, moves it to descriptor 1 and closes the first."""
    output = tmp_path / "x"
    command = ["dd", "if=/dev/zero", f"of={output}", "bs=1000", "count=2", "status=none"]
    captured = capture(command, CaptureOptions(tmp_path / "raw"))
    remove_raw_dir(captured.raw_dir)
    found = rows(captured.trace, "op", "offset", "path", layer="request")
    assert found == [
        (op, offset, str(output))
        for op, offset in (("open", None), ("write", 0), ("write", 1000), ("close", None))
    ]
