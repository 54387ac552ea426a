"""Writers of one descriptor: their offsets race, their bytes do not."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from iotrace.capture.session import CaptureOptions, capture, remove_raw_dir
from iotrace.traces.environment import boot_id
from iotrace.traces.trace import Trace

from .collected import collected, rows
from .raw_log_writer import RawLogWriter

CHILDREN, WRITES, WRITE_BYTES = 8, 400, 1000
FORKED = f"""
import os, sys
fd = os.open("shared", os.O_CREAT | os.O_WRONLY | os.O_TRUNC | int(sys.argv[1]), 0o644)
os.write(fd, b"head")
for child in range({CHILDREN}):
    if os.fork() == 0:
        for _ in range({WRITES}):
            os.write(fd, bytes([child + 1]) * {WRITE_BYTES})
        os._exit(0)
for _ in range({CHILDREN}):
    os.wait()
os.write(fd, b"tail")
"""

HANDED_ON = """
import os, socket
ours, theirs = socket.socketpair()
if not os.fork():
    _, (fd,), _, _ = socket.recv_fds(theirs, 1, 1)
    os.write(fd, b"b" * 200)
    os.pwrite(fd, b"p" * 10, 5000)
    os._exit(0)
fd = os.open("shared", os.O_RDWR | os.O_CREAT)
os.write(fd, b"a" * 100)
socket.send_fds(ours, [b"x"], [fd])
os.wait()
os.write(fd, b"c" * 300)
os.write(fd, b"d" * 400)
"""

# Takes the descriptor of the process that started it, which does not share it with its children.
TAKER = """
import ctypes, os, sys
libc, taken = ctypes.CDLL(None), (os.pidfd_open(os.getppid()), int(sys.argv[1]), 0)
by_name = sys.argv[2] == "name"  # which a new libc has, or capture
fd = libc.pidfd_getfd(*taken) if by_name else libc.syscall(438, *taken)
os.write(fd, b"b" * 200) if fd >= 0 else sys.exit(1)
"""
TAKEN = f"""
import os, subprocess, sys
fd = os.open("shared", os.O_RDWR | os.O_CREAT)
other = os.open("other", os.O_RDWR | os.O_CREAT)
os.write(fd, b"a" * 100), os.write(other, b"a" * 100)
status = subprocess.run([sys.executable, "-c", {TAKER!r}, str(fd), sys.argv[1]]).returncode
os.write(fd, b"c" * 300), os.write(other, b"c" * 300)
sys.exit(status)
"""


def raced(tmp_path: Path, size: int, *answers: Sequence[int], before: int = 0) -> Trace:
    """Return the trace of processes that each wrote 10 bytes and were told these positions."""
    path = tmp_path / "shared"
    path.write_bytes(b"x" * size)
    status = path.stat()
    writers = []
    for number, told in enumerate(answers):
        writer = RawLogWriter(pid=2**22 - 1 - number, boot_id=boot_id(), pid_start_ticks=number)
        inode = {"inode": status.st_ino, "device": status.st_dev, "size": before}
        writer.open(1, str(path), flags=os.O_RDWR | os.O_CREAT, **inode)
        for end in told:
            writer.add(
                *("write",),
                **{"file": 1, "offset": end - 10, "length": 10, "result": 10},
                offset_source="queried",
            )
        writer.end()
        writers.append(writer)
    return collected(tmp_path, *writers)


def test_writes_that_raced_fill_the_file_in_the_order_of_the_answers(tmp_path: Path) -> None:
    """The first was told where the second had moved the position to."""
    trace = raced(tmp_path, 40, (20, 30), (20, 40))
    found = sorted(rows(trace, "offset", "process", "offset_source", op="write"))
    assert [(offset, source) for offset, _, source in found] == [
        (offset, "inferred") for offset in (0, 10, 20, 30)
    ]
    assert {process for _, process, _ in found[:2]} == {0, 1}
    assert [process for _, process, _ in found[2:]] == [0, 1]
    assert trace.metadata.completeness.problems() == []


def test_what_was_there_before_is_no_part_of_the_race(tmp_path: Path) -> None:
    """A log that is appended to."""
    trace = raced(tmp_path, 125, (125,), (125,), before=105)
    assert sorted(rows(trace, "offset", op="write")) == [(105,), (115,)]
    assert trace.metadata.completeness.problems() == []


def test_answers_without_a_race_stay(tmp_path: Path) -> None:
    """Nothing is inferred where all is known."""
    trace = raced(tmp_path, 30, (10, 30), (20,))
    assert {row for (row,) in rows(trace, "offset_source", op="write")} == {"queried"}
    assert sorted(rows(trace, "offset", op="write")) == [(0,), (10,), (20,)]


def test_a_race_that_cannot_be_put_in_order_is_told_once(tmp_path: Path) -> None:
    """Somebody moved the position back as well: the bytes are all there, the places not known."""
    trace = raced(tmp_path, 30, (20, 30), (20, 30))
    (problem,) = trace.metadata.completeness.problems()
    assert problem.endswith(
        "shared: the offsets of 4 writes are not certain: they were written at the same time "
        "through one descriptor"
    )
    assert sorted(rows(trace, "offset", op="write")) == [(10,), (10,), (20,), (20,)]


@pytest.mark.parametrize("seeks", [True, False])
def test_a_seek_takes_nothing_from_what_is_known_of_a_race(tmp_path: Path, seeks: bool) -> None:
    """All bytes are there whether or not the head was sought before it was written again."""
    path = tmp_path / "shared"
    path.write_bytes(b"x" * 30)
    status = path.stat()
    writer = RawLogWriter(pid=2**22 - 1, boot_id=boot_id())
    inode = {"inode": status.st_ino, "device": status.st_dev, "size": 0}
    writer.open(1, str(path), flags=os.O_RDWR | os.O_CREAT, **inode)
    start_ns = next(writer.clock) + 1000
    if seeks:
        writer.add("seek", file=1, offset=0, start_ns=start_ns + 300, end_ns=start_ns + 301)
    for thread, begin_ns, end in ((0, 0, 10), (0, 100, 30), (1, 101, 30), (0, 400, 10)):
        writer.add(
            *("write",),
            **{"file": 1, "offset": end - 10, "length": 10, "result": 10},
            **{"start_ns": start_ns + begin_ns, "end_ns": start_ns + begin_ns + 50},
            thread=writer.pid + thread,
            offset_source="queried",
        )
    writer.clock = iter(range(start_ns + 1000, start_ns + 2000))
    writer.end()
    trace = collected(tmp_path, writer)
    (file,) = trace.metadata.completeness.files
    assert file.complete
    problems = trace.metadata.completeness.problems()
    assert problems[0].endswith(
        "shared: the offsets of 4 writes are not certain: they were written at the same time "
        "through one descriptor"
    )
    assert ["swapped" in problem for problem in problems[1:]] == [True] * seeks


def test_bytes_that_were_not_seen_are_missed_once(tmp_path: Path) -> None:
    """One file is one problem, however many processes used it."""
    trace = raced(tmp_path, 60, (20, 30), (20, 60))
    (problem,) = trace.metadata.completeness.problems()
    assert problem.endswith("shared: 0 bytes recorded as written, final size 60")


@pytest.mark.parametrize("at_once", [True, False])
def test_appends_of_threads_after_a_seek_are_put_in_order(tmp_path: Path, at_once: bool) -> None:
    """Appends ignore the seek; those in turn are where each was told, holes and all."""
    path = tmp_path / "shared"
    path.write_bytes(b"x" * 30)
    status = path.stat()
    writer = RawLogWriter(pid=2**22 - 1, boot_id=boot_id())
    inode = {"inode": status.st_ino, "device": status.st_dev, "size": 0}
    writer.open(1, str(path), flags=os.O_RDWR | os.O_CREAT, **inode)
    start_ns = next(writer.clock) + 1000
    writer.add("seek", file=1, offset=0, start_ns=start_ns, end_ns=start_ns + 1)
    for number, end in enumerate((20, 20, 30)):
        begin_ns = start_ns + 10 + (number if at_once else 100 * number)
        writer.add(
            *("write",),
            **{"file": 1, "offset": end - 10, "length": 10, "result": 10},
            **{"start_ns": begin_ns, "end_ns": begin_ns + 50},
            thread=writer.pid + number,
            offset_source="queried",
        )
    writer.clock = iter(range(start_ns + 1000, start_ns + 2000))
    writer.end()
    trace = collected(tmp_path, writer)
    found = rows(trace, "offset", "offset_source", op="write")
    if at_once:
        assert found == [(0, "inferred"), (10, "inferred"), (20, "inferred")]
        assert trace.metadata.completeness.problems() == []
    else:
        assert found == [(10, "queried"), (10, "queried"), (20, "queried")]


@pytest.mark.parametrize("flags", [0, os.O_APPEND])
def test_forked_writers_of_one_descriptor_are_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: int
) -> None:
    """The file says who wrote what, and no byte was written twice."""
    monkeypatch.chdir(tmp_path)
    captured = capture([sys.executable, "-c", FORKED, str(flags)], CaptureOptions(tmp_path / "raw"))
    remove_raw_dir(captured.raw_dir)
    trace = captured.trace
    assert trace.metadata.completeness.problems() == []
    writes = trace.where(trace.row_mask(op="write"))
    order = np.argsort(writes.ints("offset"))
    ends = np.cumsum(writes.ints("result")[order])
    assert writes.ints("offset")[order].tolist() == [0, *ends[:-1].tolist()]
    content = Path("shared").read_bytes()
    assert ends[-1] == len(content) == CHILDREN * WRITES * WRITE_BYTES + 8
    assert (content[:4], content[-4:]) == (b"head", b"tail")


def test_who_hands_a_descriptor_on_asks_for_the_position(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The child was forked before the file was open: only the message tells of the sharing."""
    monkeypatch.chdir(tmp_path)
    captured = capture([sys.executable, "-c", HANDED_ON], CaptureOptions(tmp_path / "raw"))
    remove_raw_dir(captured.raw_dir)
    trace = captured.trace
    assert trace.metadata.completeness.problems() == []
    found = rows(trace, "offset", "result", op="write")
    assert found == [(0, 100), (100, 200), (5000, 10), (300, 300), (600, 400)]


@pytest.mark.parametrize("way", ["name", "number"])
def test_a_descriptor_that_another_process_has_taken_is_a_doubt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """Who had it cannot know that the position was moved; who has taken it asks for it."""
    monkeypatch.chdir(tmp_path)
    captured = capture([sys.executable, "-c", TAKEN, way], CaptureOptions(tmp_path / "raw"))
    remove_raw_dir(captured.raw_dir)
    if captured.status:
        pytest.skip("a descriptor of another process cannot be taken here")
    trace = captured.trace
    written = {
        (Path(path).name, moved): (offset, source)
        for path, offset, moved, source in rows(
            trace, "path", "offset", "result", "offset_source", op="write"
        )
    }
    assert written["shared", 100] == (0, "tracked")
    assert written["shared", 200] == (100, "queried")
    assert written["shared", 300][1] == "inferred"
    assert written["other", 300] == (100, "tracked")
    (problem,) = [p for p in trace.metadata.completeness.problems() if "taken" in p]
    assert problem.startswith("1 reads or writes")
