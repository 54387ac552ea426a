"""A system call that has returned, with its arguments understood."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from iotrace.traces.formats.rows import absolute
from iotrace.traces.formats.strace_lines import Line, unescaped, unquoted
from iotrace.traces.formats.strace_state import DELETED, Machine, OpenFile, Space

Found = Iterator[tuple[str, dict[str, Any]]]

_DESCRIPTOR = re.compile(r"(-?\d+|AT_FDCWD)(?:<(.*)>(?:\(deleted\))?)?$", re.DOTALL)
_POINTER = re.compile(r"NULL|0x[0-9a-f]+")
NUMBER = re.compile(r"-?(?:0x[0-9a-f]+|\d+)")
_ERRNOS = {name: -number for number, name in errno.errorcode.items()}


class NoNameError(ValueError):
    """A call failed that names no file: its path is no text, or relative to no folder."""


class Call(NamedTuple):
    """A call that has returned."""

    machine: Machine
    space: Space
    tid: int
    name: str
    arguments: list[str]
    result: int
    line: Line
    was_split: bool

    @property
    def failed(self) -> bool:
        return self.result < 0

    @property
    def code(self) -> int:
        """Return 0, or -errno."""
        if self.failed and self.line.error not in _ERRNOS:
            raise ValueError(f"{self.line.error or self.result} is no error")
        return _ERRNOS[self.line.error] if self.failed else 0

    def fd(self, place: int = 0) -> tuple[int | None, str | None]:
        """Return a descriptor (None: the current folder) and what -y shows of it."""
        match = _DESCRIPTOR.match(self.arguments[place])
        if match is None:
            raise ValueError(f"{self.arguments[place][:40]!r} is no descriptor")
        shown = None if match[2] is None else unescaped(match[2])
        if shown is not None and self.arguments[place].endswith(">(deleted)"):
            shown += "(deleted)"
        return (None if match[1] == "AT_FDCWD" else int(match[1])), shown

    def file(self, place: int = 0) -> OpenFile | None:
        """Return the regular file of a descriptor, if it is one."""
        file = self.file_or_folder(place)
        return None if file is None or is_folder(self.machine, file) else file

    def file_or_folder(self, place: int = 0) -> OpenFile | None:
        """Return the regular file of a descriptor, or its folder."""
        fd, shown = self.fd(place)
        return None if fd is None or fd < 0 else self.machine.resolve(self.space, fd, shown)

    def folder_path(self, folder: OpenFile) -> str:
        """Return what an open folder is called now, where the log tells, or was when opened."""
        _, shown = self.fd()
        return folder.path if shown is None else absolute(shown.removesuffix(DELETED))

    def number(self, place: int) -> int:
        """Return an argument that is a number, or `NUMBER /* comment */`."""
        match = NUMBER.match(self.arguments[place])
        if match is None:
            raise ValueError(f"{self.arguments[place][:40]!r} is no number")
        return int(match[0], 0)

    def size(self, place: int) -> int:
        """Return an argument that is a number of bytes."""
        size = self.number(place)
        if size < 0:
            raise ValueError(f"{size} is no size")
        return size

    def path(self, place: int, folder_place: int | None = None) -> str:
        """Return the absolute path that an argument names.

        Raises:
            NoNameError: none, and the call failed.
        """
        fd, shown = (None, None) if folder_place is None else self.fd(folder_place)
        if self.failed and _POINTER.fullmatch(self.arguments[place]):
            raise NoNameError(self.arguments[place])
        path = unquoted(self.arguments[place])
        if self.failed and fd is not None and fd < 0 and not path.startswith("/"):
            raise NoNameError(path)
        return self.machine.path_of(self.space, fd, shown, path)


def is_folder(machine: Machine, file: OpenFile) -> bool:
    return file.is_folder or file.path in machine.names.folders


def flags_of(text: str, known: dict[str, int]) -> int:
    value = 0
    for word in text.split("|"):
        name = word.strip().split(" ")[0]
        value |= known[name] if name in known else _plain(name)
    return value & 0x7FFFFFFF


def _plain(name: str) -> int:
    match = NUMBER.fullmatch(name)
    base = 8 if match and re.fullmatch(r"0[0-7]+", name) else 0
    return int(name, base) if match else 0
