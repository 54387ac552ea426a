"""The shape of one kind of request: how large, how many at a time, how long each, how adjacent."""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np

from iotrace.traces.columns import IntArray
from iotrace.traces.intervals import Intervals
from iotrace.traces.lanes import Lanes
from iotrace.traces.open_flags import has_flag
from iotrace.traces.requests import Requests
from iotrace.traces.summary import ALIGNMENT_BYTES

SMALL_BYTES = 64 << 10  # below this a request costs more than its bytes on any storage
JOINED_BYTES = 8 << 20  # the most that adjacent requests are joined to, in `joined_count`
ROUND_TRIP_US = 200.0  # no local storage takes longer for a small buffered request
_MIXED = 2  # mean over median size, from which on the median says little of the bytes


@dataclass(frozen=True)
class Shape:
    """Requests of one op in one save or load.

    Attributes:
        op: `write`, `read` or `sync`.
        count: how many.
        bytes: moved by them.
        processes: how many issued them.
        typical_bytes: size of the median request.
        mean_us, p50_us, p99_us, max_us: latency of one.
        busy_seconds: at least one in flight, over all ranks.
        depth: in flight per process, averaged over the time with at least one.
        max_depth: most in flight at a time in one process.
        small_share: part of the requests below `SMALL_BYTES`.
        aligned_share: part of those whose place is known with offset and length multiples of
            `ALIGNMENT_BYTES`; `None` without any.
        joined_count: requests left if adjacent ones of a thread were joined up to
            `JOINED_BYTES`.
        direct_share: part of the requests on files opened with O_DIRECT.
        rank_busy_seconds: `busy_seconds` of the process with most of it.
    """

    op: str
    count: int
    bytes: int
    processes: int
    typical_bytes: int
    mean_us: float
    p50_us: float
    p99_us: float
    max_us: float
    busy_seconds: float
    depth: float
    max_depth: int
    small_share: float
    aligned_share: float | None
    joined_count: int
    direct_share: float
    rank_busy_seconds: float

    @property
    def is_round_trips(self) -> bool:
        """Whether small requests, one at a time, take far longer than a local device's."""
        slow = self.p50_us >= ROUND_TRIP_US and self.small_share >= 0.5
        return slow and self.depth < 2 and self.count >= 10

    @property
    def is_mixed(self) -> bool:
        """Whether few large requests among many small ones carry the bytes."""
        return self.bytes > _MIXED * self.typical_bytes * self.count

    @property
    def rate(self) -> float | None:
        """Bytes per second of all processes while at least one request is in flight, or `None`."""
        return self.bytes / self.busy_seconds if self.busy_seconds else None


def shape_of(requests: Requests, op: str) -> Shape | None:
    """Return the shape of the requests of `op`; `None` without any."""
    rows = requests.where(requests.is_op(op))
    if not len(rows):
        return None
    sizes = rows.length
    edges = (rows.offset | sizes)[rows.has_offset]
    elapsed_us = rows.elapsed_ns / 1e3
    p50, p99 = np.percentile(elapsed_us, [50, 99]).tolist()
    processes, lane = np.unique(rows.process, return_inverse=True)
    lanes = Lanes.of(len(processes), rows.start_ns, rows.end_ns)
    busy_ns = lanes.totals_ns(lanes.intervals(lane, rows.start_ns, rows.end_ns))
    busy = busy_ns.sum(dtype=np.float64)
    return Shape(
        op=op,
        count=len(rows),
        bytes=int(rows.moved.sum()),
        processes=len(processes),
        typical_bytes=int(np.median(sizes)),
        mean_us=float(elapsed_us.mean()),
        p50_us=p50,
        p99_us=p99,
        max_us=float(elapsed_us.max()),
        busy_seconds=Intervals.of(rows.start_ns, rows.end_ns).total / 1e9,
        depth=float(rows.elapsed_ns.sum(dtype=np.float64) / busy) if busy else 1.0,
        max_depth=_max_depth(lanes.at(lane, rows.start_ns), lanes.at(lane, rows.end_ns)),
        small_share=float((sizes < SMALL_BYTES).mean()),
        aligned_share=float((edges % ALIGNMENT_BYTES == 0).mean()) if len(edges) else None,
        joined_count=joined_count(rows),
        direct_share=float(has_flag(rows.opened, os.O_DIRECT).mean()),
        rank_busy_seconds=int(busy_ns.max()) / 1e9,
    )


def joined_count(rows: Requests, up_to_bytes: int = JOINED_BYTES) -> int:
    """Return how many requests are left when adjacent ones of a thread and file are joined."""
    if not len(rows):
        return 0
    order = np.lexsort((rows.start_ns, rows.file, rows.thread, rows.process))
    keys = [getattr(rows, name)[order] for name in ("process", "thread", "file")]
    offset, length = rows.offset[order], rows.length[order].clip(min=0)
    fresh = np.r_[True, np.any([np.diff(key) != 0 for key in keys], axis=0)]
    fresh[1:] |= offset[1:] != offset[:-1] + length[:-1]
    runs = np.add.reduceat(length, np.flatnonzero(fresh))
    # A run is cut where it reaches the limit; a longer request stays one.
    most = np.maximum.reduceat(length, np.flatnonzero(fresh))
    counts = np.bincount(np.cumsum(fresh) - 1)
    return int(
        np.minimum(counts, -(-runs // np.maximum(up_to_bytes, most).clip(min=1))).clip(1).sum()
    )


def _max_depth(starts: IntArray, ends: IntArray) -> int:
    """Return the most requests at a time in one lane: where one ends, the next is not beside it."""
    changes = np.r_[np.full(len(ends), -1), np.full(len(starts), 1)]
    order = np.argsort(np.r_[ends, starts], kind="stable")
    return max(1, int(np.cumsum(changes[order]).max()))
