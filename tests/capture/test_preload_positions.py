"""Positions that another thread uses while a call on them is under way, or does not use."""

import sys
from pathlib import Path

import pytest

from .preload_job import LIBRARY, Captured, capture
from .test_preload_neighbours import compile_library

START = """
import os, sys, threading
fd = os.open(sys.argv[1], os.O_RDWR)
os.read(fd, 100)
def elsewhere(work, *arguments):
    thread = threading.Thread(target=work, args=arguments)
    thread.start(), thread.join()
"""
CLOSED = "elsewhere(os.lseek, fd, 0, os.SEEK_SET); os.read(fd, 1001)"
REUSED = """
with open(sys.argv[1] + "2", "wb") as other:
    assert other.fileno() == fd + 1
    other.seek(4000)
    {}
"""
SOUGHT = "os.lseek(fd, 1002, os.SEEK_SET); os.read(fd, 20)"
GIVEN = {
    "preadv2": "elsewhere(os.preadv, fd, [bytearray(10)], 0, os.RWF_HIPRI)",
    "copy_file_range": "elsewhere(os.copy_file_range, fd, fd, 10, 0, 4000)",
    "sendfile": "elsewhere(os.sendfile, os.open('/dev/null', os.O_WRONLY), fd, 0, 10)",
}


def run(tmp_path: Path, work: str, is_between: bool = True) -> Captured:
    """Return a job on a file of 5000 bytes, with the library behind capture or without."""
    path = tmp_path / "file"
    path.write_bytes(bytes(5000))
    between = compile_library(tmp_path, "between.c") if is_between else ""
    extra = {"LD_PRELOAD": f"{LIBRARY}:{between}"}
    captured = capture([sys.executable, "-c", START + work, path], tmp_path / "logs", extra)
    assert captured.done.returncode == 0, captured.done.stderr
    return captured


def test_a_descriptor_that_is_closed_meanwhile_gives_no_offset(tmp_path: Path) -> None:
    """The kernel cannot be asked any more: an error is no offset."""
    last = run(tmp_path, CLOSED).of("file", "read")[-1]
    assert (last.result, last.offset, last.offset_source) == (1001, -1, "")


@pytest.mark.parametrize(
    ("call", "moved"),
    [
        ("elsewhere(os.lseek, fd, 0, os.SEEK_SET); os.read(fd, 1003)", 1003),
        ("fcntl.fcntl(fd, fcntl.F_SETFL, os.O_APPEND); os.pwrite(fd, bytes(1004), 0)", 1004),
    ],
)
def test_a_descriptor_that_is_another_files_meanwhile_gives_no_offset(
    tmp_path: Path, call: str, moved: int
) -> None:
    """The other file's position, or its end, says nothing of this one."""
    last = run(tmp_path, "import fcntl" + REUSED.format(call)).of("file", "read", "write")[-1]
    assert (last.result, last.offset, last.offset_source) == (moved, -1, "")


def test_the_second_user_may_come_during_a_seek(tmp_path: Path) -> None:
    """The seek is told, and from then on the kernel is asked."""
    captured = run(tmp_path, SOUGHT)
    assert [seek.offset for seek in captured.of("file", "seek")] == [1002]
    last = captured.of("file", "read")[-1]
    assert (last.offset, last.result, last.offset_source) == (1012, 20, "queried")


@pytest.mark.parametrize("call", GIVEN)
def test_who_gives_an_offset_uses_no_position(tmp_path: Path, call: str) -> None:
    """Another thread does so: the position stays that of one."""
    captured = run(tmp_path, f"{GIVEN[call]}; os.lseek(fd, 50, 0); os.read(fd, 20)", False)
    assert captured.of("file", "seek") == []
    last = captured.of("file", "read")[-1]
    assert (last.offset, last.result, last.offset_source) == (50, 20, "tracked")
