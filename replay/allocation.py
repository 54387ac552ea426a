"""The host memory that a restore reads into, taken fresh from the kernel, and what that costs."""

import mmap
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from iotrace.replay.job import Op
from iotrace.replay.pieces import Ints
from iotrace.replay.plan import Stream
from iotrace.replay.requests import Requests
from iotrace.traces.phases import Phase

# A replay may run on a machine with less memory than the job had: pieces are given back.
_PIECE_BYTES = 1 << 28
_HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")


def has_huge_pages() -> bool:
    """Return whether the kernel gives huge pages to memory that asks for them."""
    return _HUGE_PAGES.exists() and "[never]" not in _HUGE_PAGES.read_text()


def loaded_bytes(requests: Requests, streams: Sequence[Stream]) -> Ints:
    """Return the bytes that each stream's loads read, which an engine allocates first.

    What is read ahead of another stream is dropped: it needs no memory of its own.
    """
    loads = (requests["op"] == Op.READ) & (requests["phase"] == Phase.LOAD)
    rows = requests.compress(loads)
    totals = np.bincount(rows["stream"], weights=rows["length"], minlength=len(streams))
    totals[[stream.leads >= 0 for stream in streams]] = 0
    return totals.astype(np.int64)


def allocate(size_bytes: int, huge: bool = False) -> float:
    """Take memory from the kernel, touch every page of it, give it back; return the seconds.

    Giving back is not counted. No more than 256 MiB are held at a time.

    Args:
        size_bytes: how much.
        huge: ask for huge pages (madvise), of which the kernel gives what it has.
    """
    spent_ns = 0
    left = size_bytes
    while left > 0:
        piece = min(left, _PIECE_BYTES)
        begin_ns = time.monotonic_ns()
        memory = mmap.mmap(-1, piece, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if huge:
            with suppress(OSError):  # a kernel without huge pages: `has_huge_pages` tells
                memory.madvise(mmap.MADV_HUGEPAGE)
        pages = np.frombuffer(memory, np.uint8)[:: mmap.PAGESIZE]
        pages[:] = 1
        spent_ns += time.monotonic_ns() - begin_ns
        del pages
        memory.close()
        left -= piece
    return spent_ns / 1e9
