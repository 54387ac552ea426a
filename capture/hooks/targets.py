"""Where the bytes of a save or load lie: a file, and the position at which it begins."""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from typing import Any

# Classes that hand all they are given to a file: module, name, where the file is.
WRAPPERS = (
    ("tempfile", "_TemporaryFileWrapper", "file"),
    ("fsspec.implementations.local", "LocalFileOpener", "f"),
    ("deepspeed.io.py_file_writer", "PyFileWriter", "_fp"),
)

# Links to what the job has open or works in: they mean nothing to others.
_OF_PROCESSES = ("/proc/", "/dev/fd/", "/dev/std")
_DELETED = " (deleted)"  # what the kernel appends to a file without a name, O_TMPFILE's too


class Target(NamedTuple):
    """A file and a position in it.

    Attributes:
        path: Absolute path; None for what is not a file.
        base_bytes: Offset in the file of the engine's first byte.
    """

    path: str | None
    base_bytes: int

    def offset(self, position_bytes: int) -> int | None:
        """Return the file offset of the engine's byte `position_bytes`; None without a file."""
        return None if self.path is None else self.base_bytes + position_bytes


NOWHERE = Target(None, 0)


def target_of(destination: Any) -> Target:
    """Return the target of a path or of an open file.

    Only file objects of known classes are asked: a method of another class may do
    anything, and what it writes may lie anywhere.
    """
    if isinstance(destination, (str, os.PathLike)):
        return Target(absolute(os.fspath(destination)), 0)
    file = unwrapped(destination)
    if type(file) in (io.BufferedWriter, io.BufferedRandom, io.BufferedReader, io.FileIO):
        return target_of_file(file)
    return NOWHERE


def target_of_file(file: Any) -> Target:
    """Return the target of an open binary file at its present position."""
    try:
        return Target(path_of_file(file), file.tell())
    except (OSError, ValueError):  # a pipe has no position, a closed file has nothing
        return NOWHERE


def path_of_file(file: Any) -> str:
    """Return the path a file was opened with; the kernel's name for it if that is not absolute."""
    name = file.name
    if isinstance(name, bytes):
        name = os.fsdecode(name)
    if isinstance(name, str) and os.path.isabs(name):
        return _followed(name)
    return _without_deleted(os.readlink(f"/proc/self/fd/{file.fileno()}"))


def _without_deleted(link: str) -> str:
    if link.endswith(_DELETED) and not os.access(link, os.F_OK):
        return link[: -len(_DELETED)]
    return link


def absolute(path: str | bytes) -> str:
    """Return `path` below the working folder, otherwise as it is.

    Raises:
        OSError: The path is relative, and the working folder is gone.
    """
    text = os.fsdecode(path)
    return _followed(text if os.path.isabs(text) else os.path.join(os.getcwd(), text))


def _followed(path: str) -> str:
    if path.startswith(_OF_PROCESSES):
        return _without_deleted(os.path.realpath(path))
    return path


def unwrapped(destination: Any) -> Any:
    """Return the file inside an object of a known wrapper class, anything else as it is."""
    for module, name, attribute in WRAPPERS:
        wrapper = getattr(sys.modules.get(module), name, None)
        if wrapper is not None and type(destination) is wrapper:
            return getattr(destination, attribute)
    return destination
