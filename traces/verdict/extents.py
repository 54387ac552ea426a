"""Bytes counted once: which parts of which files a set of extents covers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from iotrace.traces.columns import IntArray, ends_of
from iotrace.traces.grouping import running_max


@dataclass(frozen=True, eq=False)
class Extents:
    """Extents of files: `file` is any non-negative number, offsets and lengths are bytes."""

    file: IntArray
    offset: IntArray
    length: IntArray

    def unique_bytes(self) -> int:
        """Return the bytes that lie in at least one extent.

        >>> one = np.array([0, 0, 1])
        >>> Extents(one, np.array([0, 2, 0]), np.array([4, 4, 4])).unique_bytes()
        10
        """
        _, starts, ends = self._merged()
        return int((ends - starts).sum())

    def also(self, other: Extents) -> Extents:
        """Return the extents of both."""
        return Extents(
            np.r_[self.file, other.file],
            np.r_[self.offset, other.offset],
            np.r_[self.length, other.length],
        )

    def shared_bytes(self, other: Extents) -> int:
        """Return the bytes that both cover."""
        either = self.also(other).unique_bytes()
        return self.unique_bytes() + other.unique_bytes() - either

    def _merged(self) -> tuple[IntArray, IntArray, IntArray]:
        real = (self.length > 0) & (self.file >= 0) & (self.offset >= 0)
        file, offset = self.file[real], self.offset[real]
        if not len(file):
            return file, offset, offset
        ends = ends_of(offset, self.length[real])
        order = np.lexsort((offset, file))
        file, offset, ends = file[order], offset[order], ends[order]
        reach = running_max(ends, file)
        fresh = np.r_[True, (file[1:] != file[:-1]) | (offset[1:] > reach[:-1])]
        last = np.r_[fresh[1:], True]
        return file[fresh], offset[fresh], reach[last]
