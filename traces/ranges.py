"""A remote file, read by ranges: small reads from blocks that are kept, large ones as they are."""

from __future__ import annotations

import io
import os
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

BLOCK_BYTES: Final = 64 << 10  # a footer with its end, or some hundred page headers
_KEPT_BLOCKS: Final = 256


class RangeFile(io.RawIOBase):
    """A seekable file over `fetch(start, length)`, which asks for what it lacks.

    Args:
        size: of the file, in bytes.
        fetch: returns exactly the bytes asked for.
    """

    def __init__(self, size: int, fetch: Callable[[int, int], bytes]) -> None:
        self._size = size
        self._fetch = fetch
        self._position = 0
        self._blocks: OrderedDict[int, bytes] = OrderedDict()

    def readable(self) -> bool:
        """Return true."""
        return True

    def seekable(self) -> bool:
        """Return true."""
        return True

    def size(self) -> int:
        """Return the size in bytes."""
        return self._size

    def tell(self) -> int:
        """Return the position."""
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move the position; nothing is read."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        self._position = max(0, base + offset)
        return self._position

    def read(self, size: int | None = -1) -> bytes:
        """Return the next `size` bytes, fewer at the end."""
        left = max(0, self._size - self._position)
        wanted = left if size is None or size < 0 else min(size, left)
        content = self._range(self._position, wanted)
        self._position += len(content)
        return content

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Fill `buffer` from the position on."""
        content = self.read(len(buffer))
        buffer[: len(content)] = content
        return len(content)

    def _range(self, start: int, length: int) -> bytes:
        if length <= 0:
            return b""
        first, last = start // BLOCK_BYTES, (start + length - 1) // BLOCK_BYTES
        if last - first > 1:
            return self._fetch(start, length)
        joined = b"".join(self._block(number) for number in range(first, last + 1))
        begin = start - first * BLOCK_BYTES
        return joined[begin : begin + length]

    def _block(self, number: int) -> bytes:
        if number not in self._blocks:
            start = number * BLOCK_BYTES
            self._blocks[number] = self._fetch(start, min(BLOCK_BYTES, self._size - start))
            if len(self._blocks) > _KEPT_BLOCKS:
                self._blocks.popitem(last=False)
        self._blocks.move_to_end(number)
        return self._blocks[number]
