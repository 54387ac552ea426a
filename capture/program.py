"""The program that a job starts with: where it is, and whether it can be watched."""

from __future__ import annotations

import os
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from stat import S_ISGID, S_ISUID

from iotrace.traces.errors import CaptureError

ELF_MAGIC = b"\x7fELF"
ELF_64_BIT = 2
PT_INTERP = 3  # the program header that names the dynamic loader
SHEBANG_BYTES = 256


class CommandNotFoundError(CaptureError):
    """There is no such program; the exit status is that of a shell."""

    exit_code = 127


class CommandNotExecutableError(CaptureError):
    """The program is there and cannot be run; the exit status is that of a shell."""

    exit_code = 126


def find_program(name: str, search_path: str) -> Path:
    """Return the file that a command name stands for, as a shell finds it.

    Raises:
        CommandNotFoundError: there is none.
        CommandNotExecutableError: there is one, but it is a folder or may not be run.
    """
    folders = [""] if "/" in name else search_path.split(os.pathsep)
    candidates = [Path(folder or ".", name) for folder in folders]
    found = [path for path in candidates if os.path.lexists(path)] if name else []
    for path in found:
        if path.is_file() and os.access(path, os.X_OK):
            return path
    if not found or not any(path.exists() for path in found):
        raise CommandNotFoundError(f"{name}: command not found; check its name or give its path")
    reason = "is a folder" if found[0].is_dir() else "may not be executed"
    raise CommandNotExecutableError(f"{found[0]} {reason}; give a program")


def warnings_about(program: Path) -> list[str]:
    """Return why a program's requests may not be seen, one sentence each."""
    return list(_warnings(program))


def _warnings(program: Path) -> Iterator[str]:
    if sys.platform != "linux":
        yield f"capture works on Linux only; nothing of the job is recorded on {sys.platform}"
        return
    if is_privileged(program):
        yield f"{program} runs with other privileges; the system lets no library watch it"
    binary = interpreter_of(program) or program
    loader = loader_of(binary)
    if loader == "":
        yield f"{binary} is linked statically; what it does itself is not seen"
    elif loader is not None and "musl" in loader:
        yield f"{binary} uses musl instead of glibc; what it does is not seen"


def is_privileged(program: Path) -> bool:
    """Return whether a program gains rights, so that the system preloads nothing into it."""
    try:
        if program.stat().st_mode & (S_ISUID | S_ISGID):
            return True
        return bool(os.getxattr(program, "security.capability"))
    except OSError:
        return False


def interpreter_of(program: Path) -> Path | None:
    """Return the program that runs a script, None if it is not a script."""
    line = head_of(program, SHEBANG_BYTES).splitlines()[:1]
    if not line or not line[0].startswith(b"#!"):
        return None
    words = os.fsdecode(line[0][2:]).split()
    return Path(words[0]) if words else None


def loader_of(binary: Path) -> str | None:
    """Return the dynamic loader of a 64-bit ELF program: empty if static, None if no such."""
    head = head_of(binary, 4096)
    if len(head) < 64 or not head.startswith(ELF_MAGIC) or head[4] != ELF_64_BIT:
        return None
    (table_at,) = struct.unpack_from("<Q", head, 32)
    entry_bytes, entries = struct.unpack_from("<HH", head, 54)
    for at in range(table_at, min(table_at + entry_bytes * entries, len(head) - 40), entry_bytes):
        kind, _, offset, _, _, file_bytes = struct.unpack_from("<IIQQQQ", head, at)
        if kind == PT_INTERP:
            return os.fsdecode(head[offset : offset + file_bytes].rstrip(b"\0"))
    return ""


def head_of(path: Path, count: int) -> bytes:
    """Return the first bytes of a file, none if it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(count)
    except OSError:
        return b""
