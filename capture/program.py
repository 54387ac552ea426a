"""The program that a job starts with: where it is, and whether it can be watched."""

from __future__ import annotations

import os
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from stat import S_ISGID, S_ISUID, S_IXGRP

from iotrace.traces.errors import CaptureError
from iotrace.traces.regular import open_regular

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
    """Return whether a program gains rights, so that the system preloads nothing into it.

    One that is set to the user that runs it, such as root's own for root, gains none.
    """
    try:
        found = program.stat()
        if found.st_mode & S_ISUID and found.st_uid != os.getuid():
            return True
        # Without the right to execute, the bit means something else: mandatory locks.
        if found.st_mode & S_ISGID and found.st_mode & S_IXGRP and found.st_gid != os.getgid():
            return True
        return os.getuid() != 0 and bool(os.getxattr(program, "security.capability"))
    except OSError:
        return False


def why_not_executable(program: Path, error: OSError) -> str:
    """Return why the system refuses to execute a file that is there, and what to do."""
    line = first_line_of(program)
    interpreter = interpreter_of(program)
    if line.startswith(b"#!"):
        if line.endswith(b"\r"):
            return "its first line ends in a carriage return; save it with Unix line ends"
        if interpreter and not (interpreter.is_file() and os.access(interpreter, os.X_OK)):
            problem = "may not be executed" if interpreter.exists() else "does not exist"
            return f"its first line names {interpreter}, which {problem}; correct that line"
    loader = loader_of(program)
    if loader and not os.path.exists(loader):
        return f"its loader {loader} does not exist; it was built for another system"
    return f"{error.strerror}; try it without capture"


def interpreter_of(program: Path) -> Path | None:
    """Return the program that runs a script, None if it is not a script."""
    line = first_line_of(program)
    words = os.fsdecode(line[2:]).split() if line.startswith(b"#!") else []
    return Path(words[0]) if words else None


def first_line_of(program: Path) -> bytes:
    """Return the line that may name an interpreter, without its end."""
    return head_of(program, SHEBANG_BYTES).partition(b"\n")[0]


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
        with open_regular(path) as file:
            return file.read(count)
    except OSError:
        return b""
