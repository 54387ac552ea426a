"""A part of a file as a file of its own."""

from __future__ import annotations

import io
from typing import BinaryIO


class Window(io.RawIOBase):
    """Bytes `offset` to `offset + length` of a file, for reading.

    Args:
        file: its position is moved.
    """

    def __init__(self, file: BinaryIO, offset: int, length: int) -> None:
        self._file = file
        self._offset = offset
        self._length = length
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._length}[whence]
        if base + offset < 0:
            raise ValueError("a position before the beginning")
        self._position = base + offset
        return self._position

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        left = max(self._length - self._position, 0)
        self._file.seek(self._offset + self._position)
        data = self._file.read(min(len(buffer), left))
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)
