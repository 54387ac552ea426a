"""Renames of files that are open: those that are seen, and those made behind libc's back."""

import os
from pathlib import Path

import pytest

from .preload_job import PYTHON, Captured, capture

RAW_RENAME = (
    "import ctypes\n"
    "def raw_rename(old, new):\n"  # libc's own syscall(); 316 is renameat2 on x86-64, 276 elsewhere
    "    number = 316 if os.uname().machine == 'x86_64' else 276\n"
    "    assert ctypes.CDLL('libc.so.6').syscall(number, -100, old, -100, new, 0) == 0\n"
)


def run(tmp_path: Path, body: str) -> Captured:
    """Write a file under a first name, then do what `body` says before it is closed."""
    code = (
        f"import os; os.chdir({os.fspath(tmp_path)!r})\n{RAW_RENAME}"
        "fd = os.open('first.tmp', os.O_WRONLY | os.O_CREAT)\n"
        f"os.write(fd, b'x')\n{body}\nos.close(fd)\n"
    )
    captured = capture([*PYTHON, code], tmp_path / "logs")
    assert captured.done.returncode == 0, captured.done.stderr
    return captured


def renames(captured: Captured) -> list[tuple[str, list[str]]]:
    return [
        (r.api, [Path(os.fsdecode(part)).name for part in r.text.split(b"\0")])
        for r in captured.requests("rename")
    ]


def test_a_rename_behind_the_back_of_libc_is_found_at_the_close(tmp_path: Path) -> None:
    """safetensors gives a checkpoint its final name by a system call of its own."""
    captured = run(tmp_path, "raw_rename(b'first.tmp', b'final')")
    assert renames(captured) == [("", ["first.tmp", "final"])]
    (rename,) = captured.requests("rename")
    status = (tmp_path / "final").stat()
    assert (rename.offset, rename.length) == (status.st_dev, status.st_ino)
    (close,) = captured.of("first.tmp", "close")
    assert rename.start_ns <= close.start_ns


def test_a_rename_that_was_seen_is_recorded_once(tmp_path: Path) -> None:
    """Twice would make a replay fail on a name that is gone."""
    captured = run(tmp_path, "os.rename('first.tmp', 'final')")
    assert renames(captured) == [("posix", ["first.tmp", "final"])]


def test_renames_of_both_kinds_follow_one_another(tmp_path: Path) -> None:
    """The name at the close is compared with the last one known."""
    body = "os.rename('first.tmp', 'second'); raw_rename(b'second', b'final')"
    captured = run(tmp_path, body)
    assert renames(captured) == [
        ("posix", ["first.tmp", "second"]),
        ("", ["second", "final"]),
    ]


@pytest.mark.parametrize(
    "body",
    [
        "os.unlink('first.tmp')",
        "os.mkdir('a'); os.rename('first.tmp', 'a/b'); os.rename('a', 'c')",
        "open('other', 'w').close(); os.rename('other', 'first.tmp')",
    ],
    ids=["unlinked", "folder", "replaced"],
)
def test_no_rename_is_made_up(tmp_path: Path, body: str) -> None:
    """A file may lose its name in other ways while it is open."""
    assert {api for api, _ in renames(run(tmp_path, body))} <= {"posix"}
