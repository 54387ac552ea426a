"""Unions of extents, and what of a file they leave out."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from iotrace.traces.regular import open_regular

Bytes = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Extents:
    """Disjoint byte ranges [starts, ends) in ascending order, none touching the next."""

    starts: Bytes
    ends: Bytes

    @classmethod
    def union(cls, starts: Bytes, ends: Bytes) -> Extents:
        """Return the union of byte ranges in any order.

        >>> Extents.union(np.array([4, 0, 9]), np.array([6, 5, 10]))
        Extents(starts=array([0, 9]), ends=array([ 6, 10]))
        """
        if not len(starts):
            return cls(starts, ends)
        order = np.argsort(starts, kind="stable")
        starts, ends = starts[order], np.maximum.accumulate(ends[order])
        is_apart = starts[1:] > ends[:-1]
        return cls(starts[np.append(True, is_apart)], ends[np.append(is_apart, True)])

    @property
    def prefix_bytes(self) -> int:
        """Return the length of the range that starts at 0."""
        return int(self.ends[0]) if len(self.starts) and self.starts[0] == 0 else 0

    def gaps(self, size_bytes: int) -> Iterator[tuple[int, int]]:
        """Yield the ranges of [0, size_bytes) that are not in the union."""
        starts = np.append(self.starts, size_bytes).clip(max=size_bytes)
        ends = np.append(0, self.ends).clip(max=size_bytes)
        gaps = np.flatnonzero(starts > ends)
        yield from zip(ends[gaps].tolist(), starts[gaps].tolist(), strict=True)


def data_bytes(path: Path, gaps: Iterator[tuple[int, int]], block_bytes: int) -> list[int]:
    """Return how long each stretch of data is in ranges that no recorded write explains.

    A hole is explained: nobody wrote it. Holes begin and end at blocks, so at the edges of a gap
    zeros count as a hole.

    Raises:
        OSError: the file cannot be read.
    """
    with open_regular(path) as file:
        found = [n for gap in gaps for n in data_bytes_of(file.fileno(), *gap, block_bytes)]
    return [n for n in found if n]


def data_bytes_of(fd: int, start: int, end: int, block_bytes: int) -> list[int]:
    """Return how long each stretch of data in one range is; one without data may be among them."""
    first_block, last_block = -(-start // block_bytes), end // block_bytes
    if first_block >= last_block:
        return [len(os.pread(fd, end - start, start).strip(b"\0"))]
    whole = first_block * block_bytes, last_block * block_bytes
    edges = (start, whole[0]), (whole[1], end)
    found = [len(os.pread(fd, b - a, a).strip(b"\0")) for a, b in edges]
    at = next_data(fd, whole[0])
    while at < whole[1]:
        hole = min(os.lseek(fd, at, os.SEEK_HOLE), whole[1])
        found.append(hole - at)
        at = next_data(fd, hole)
    return found


def next_data(fd: int, offset: int) -> int:
    """Return where the next data at or behind an offset begins; the end of time if nowhere."""
    try:
        return os.lseek(fd, offset, os.SEEK_DATA)
    except OSError as error:
        if error.errno == errno.ENXIO:
            return 2**63 - 1
        raise
