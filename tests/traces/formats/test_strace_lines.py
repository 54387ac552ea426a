"""Lines of strace logs: what each tells, and what is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from iotrace.traces.errors import TraceFormatError
from iotrace.traces.formats import strace
from iotrace.traces.formats.source import Source
from iotrace.traces.formats.strace_lines import parse_line

# Written from strace's manual, for forms that are hard to have on purpose.
LINES = {
    "1795997927.702620 read(3, ..., 5) = 5 <0.000017>": (None, "read", 5, 17_000),
    '[pid 17] write(3</a = b>, "\\n) = 3"..., 9) = 9': (17, "write", 9, None),
    '17 00:00:01.5 read(3, "", 1)                  = 0': (17, "read", 0, None),
    "17 1795997927 close(3) = -1 EBADF (Bad file descriptor)": (17, "close", -1, None),
    "1795997927.1 (+     0.000004) close(3) = 0": (None, "close", 0, None),
    "     0.000123 mmap(NULL, 8, PROT_READ, 1, 3, 0) = 0x7f00": (None, "mmap", 0x7F00, None),
    '<... read resumed>"", 5) = 0': (None, "read", 0, None),
    "exit_group(0) = ?": (None, "exit_group", None, None),
    "read(3, 0x7f, 9) = ? ERESTARTSYS (To be restarted)": (None, "read", None, None),
    'openat(AT_FDCWD</a>, "b", 0) = 3</a/b> <0.1>': (None, "openat", 3, 100_000_000),
}


@pytest.mark.parametrize("text", LINES)
def test_a_line_is_understood(text: str) -> None:
    """Thread, call, result, duration."""
    line = parse_line(text)
    assert line is not None
    assert (line.thread, line.name, line.result, line.duration_ns) == LINES[text]


@pytest.mark.parametrize(
    "text", ["", "+++ exited with 0 +++", "--- SIGCHLD {si_signo=SIGCHLD} ---", "strace: hello"]
)
def test_a_remark_is_no_call(text: str) -> None:
    """Exits, signals, and what strace says of itself."""
    assert parse_line(f"17 {text}" if text and text[0] in "+-" else text) is None


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("close(3) = 0\nhello\nclose(4) = 0\n", 2),
        ("close(3) = 0\nclose(x) = 0\nclose(4) = 0\n", 2),
        ('close(3) = 0\nread(3</a>, "", -5) = -7\n', 2),
        ('pread64(3</a>, "", 9, 9223372036854775807) = 9\nclose(4) = 0\n', 1),
        ('close(4) = 0\nwrite(3</a>, "x", 4096) = 8192\nclose(3) = 0\n', 2),
        ('writev(3</a>, [{iov_base="x"..., iov_len=9}], 1) = 10\nclose(3) = 0\n', 1),
        ("copy_file_range(3</a>, NULL, 4</b>, NULL, 9, 0) = 10\nclose(3) = 0\n", 1),
    ],
)
def test_a_line_that_is_none_is_named(text: str, line: int, tmp_path: Path) -> None:
    """The user finds it, and does not get half a trace."""
    log = tmp_path / "log"
    log.write_text(text)
    with pytest.raises(
        TraceFormatError, match=f"log, line {line}: this is no line of a strace log"
    ):
        strace.read(log)


def test_a_log_that_ends_in_the_middle_of_a_line_is_read(tmp_path: Path) -> None:
    """strace was killed; what it wrote before is true."""
    log = tmp_path / "log"
    log.write_text('fsync(3</d/a>) = 0\nread(3</d/a>, "')
    assert strace.read(log).strings("op") == ["sync"]


def test_a_byte_order_mark_is_no_part_of_the_first_line(tmp_path: Path) -> None:
    """An editor of Windows put it there when it saved the log."""
    log = tmp_path / "log"
    log.write_text('fsync(3</d/a>) = 0\r\nread(3</d/a>, "", 9) = 0\r\n', encoding="utf-8-sig")
    assert strace.looks_like(Source.of(log))
    assert strace.read(log).strings("op") == ["sync", "read"]


@pytest.mark.parametrize(
    ("vectors", "length"),
    [
        ('[{iov_base="x"..., iov_len=100}, {iov_base="y", iov_len=1}]', 101),
        ('[{iov_base="x"..., iov_len=100}, ...]', 101),
        ("0x7ffd5e3deae0", 101),
    ],
    ids=["whole", "-s 1", "-e verbose=none"],
)
def test_vectors_that_are_not_shown_are_of_what_was_moved(
    vectors: str, length: int, tmp_path: Path
) -> None:
    """strace leaves out what its options bound; of what it shows whole more cannot be moved."""
    log = tmp_path / "log"
    log.write_text(f"writev(3</a>, {vectors}, 2) = 101\nfsync(3</a>) = 0\n")
    trace = strace.read(log)
    assert (trace.ints("length")[0], trace.ints("result")[0]) == (length, 101)
