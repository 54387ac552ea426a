"""A remote file, read by ranges: in blocks that are kept, more at once where reads go on.

Who reads a Parquet file looks at the headers of all pages first, and reads these pages then.
"""

from __future__ import annotations

import io
import os
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from iotrace.traces.environment import available_memory_bytes

BLOCK_BYTES: Final = 64 << 10  # a footer with its end, or some hundred page headers
_NEAR_BLOCKS: Final = 16  # a page of 1 MiB, the usual most, between two headers
_MOST_AHEAD_BLOCKS: Final = 128  # 8 MiB, where the bytes take longer than the way
# Of the memory, for what was fetched. A trace in memory takes ten times what it takes packed, and
# may take a third.
_SHARE: Final = 8
_FEWEST_KEPT_BLOCKS: Final = 256


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
        kept = available_memory_bytes() // _SHARE // BLOCK_BYTES
        self._most_blocks = max(_FEWEST_KEPT_BLOCKS, kept)
        self._next = self._fetched = 0  # the block behind the last fetch, and how many it had

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
        if last - first >= self._most_blocks:
            return self._fetch(start, length)
        for run in self._missing(first, last):
            self._keep(*run)
        joined = b"".join(self._blocks[number] for number in range(first, last + 1))
        for number in range(first, last + 1):
            self._blocks.move_to_end(number)
        while len(self._blocks) > self._most_blocks:
            self._blocks.popitem(last=False)
        begin = start - first * BLOCK_BYTES
        return joined[begin : begin + length]

    def _missing(self, first: int, last: int) -> list[tuple[int, int]]:
        """Return the first and last block of each stretch to fetch; near ones are one."""
        runs: list[tuple[int, int]] = []
        for number in range(first, last + 1):
            if number not in self._blocks:
                is_near = runs and number - runs[-1][1] <= _NEAR_BLOCKS
                runs.append((runs.pop()[0] if is_near else number, number))
        return runs

    def _keep(self, first: int, last: int) -> None:
        """Fetch blocks; where reads go on, also what they left out, and twice the last fetch."""
        if 0 <= first - self._next <= _NEAR_BLOCKS:
            wanted_last = max(last, first + min(2 * self._fetched, _MOST_AHEAD_BLOCKS) - 1)
            wanted_last = min(wanted_last, (self._size - 1) // BLOCK_BYTES)
            while first > self._next and first - 1 not in self._blocks:
                first -= 1
            while last < wanted_last and last + 1 not in self._blocks:
                last += 1
        start = first * BLOCK_BYTES
        content = self._fetch(start, min((last + 1) * BLOCK_BYTES, self._size) - start)
        for number in range(first, last + 1):
            begin = (number - first) * BLOCK_BYTES
            self._blocks[number] = content[begin : begin + BLOCK_BYTES]
        self._next, self._fetched = last + 1, last + 1 - first
