"""What a folder's storage gives: a few seconds of requests of known size and depth."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from iotrace.replay.build import plan_from_trace
from iotrace.replay.options import ReplayOptions
from iotrace.replay.result import RecordedSummary
from iotrace.replay.session import replay
from iotrace.replay.target import mount_of
from iotrace.traces.metadata import Metadata, Process
from iotrace.traces.trace import Column, Ints, Strings, Trace

BUDGET_SECONDS = 8.0
# (bytes, queue depth), the most telling first: time may run out.
_POINTS = ((1 << 20, 8), (4096, 1), (1 << 20, 1), (64 << 10, 1))
_FIRST_COUNT = 32  # requests that show how slow the storage is
_MOST_BYTES = 64 << 20
_AIM_SECONDS = 0.06  # of requests per point


@dataclass(frozen=True)
class ProbePoint:
    """What one size and depth gave: `rate` in bytes/s, `durable_rate` with the sync of the file.

    Reads are cold; their `durable_rate` is the rate.
    """

    op: str
    size_bytes: int
    depth: int
    direct: bool
    rate: float
    durable_rate: float
    p50_us: float


@dataclass(frozen=True)
class Capability:
    """What the storage behind a folder gives.

    Attributes:
        file_system, source: of the mount.
        realtime_ns: when it was found out.
        points: what was tried before time ran out; not all may be there.
    """

    file_system: str
    source: str
    realtime_ns: int
    points: tuple[ProbePoint, ...]

    def best(self, op: str, size_bytes: int | None = None) -> ProbePoint | None:
        """Return the point of `op` (of this size) with the highest durable rate."""
        sizes = {point.size_bytes for point in self.points} if size_bytes is None else {size_bytes}
        own = [point for point in self.points if point.op == op and point.size_bytes in sizes]
        return max(own, key=lambda point: point.durable_rate, default=None)

    def find(self, op: str, size_bytes: int, depth: int, direct: bool) -> ProbePoint | None:
        """Return the point that was probed so, if it was."""
        wanted = (op, size_bytes, depth, direct)
        own = (p for p in self.points if (p.op, p.size_bytes, p.depth, p.direct) == wanted)
        return next(own, None)


def probe(
    root: Path,
    budget_seconds: float = BUDGET_SECONDS,
    progress: Callable[[str, int, int], None] = lambda stage, done, total: None,
) -> Capability:
    """Try the storage of `root`, in a fresh folder that is removed.

    Args:
        root: an existing folder that can be written.
        budget_seconds: no further point is begun after this.
        progress: called with a stage, points done and points in all.

    Raises:
        PlanError: nothing can be written there, or there is too little room.
    """
    begin = time.monotonic()
    mount = mount_of(root)
    kinds = [
        (op, size, depth, direct)
        for size, depth in _POINTS
        for op in ("write", "read")
        for direct in (False, True)
    ]
    points: list[ProbePoint] = []
    for number, kind in enumerate(kinds):
        progress("probe", number, len(kinds))
        if time.monotonic() - begin > budget_seconds:
            break
        points += _try(root, *kind)
    progress("probe", len(kinds), len(kinds))
    return Capability(mount.file_system, mount.source, time.time_ns(), tuple(points))


def _try(root: Path, op: str, size: int, depth: int, direct: bool) -> Iterator[ProbePoint]:
    """Yield the point, or nothing where it cannot be had (no direct I/O)."""
    count = _FIRST_COUNT
    for _ in range(2):
        trace = _requests(op, size, count, direct)
        options = ReplayOptions(queue_depth=depth, root=root)
        outcome = replay(plan_from_trace(trace), RecordedSummary.of(trace), options)
        if outcome.failed:
            return
        one = outcome.repetitions[0]
        seconds = one.write_seconds if op == "write" else one.read_seconds
        durable = one.durable_seconds if op == "write" else seconds
        wanted = min(int(count * _AIM_SECONDS / max(durable, 1e-6)), _MOST_BYTES // size)
        if wanted <= 2 * count:
            break
        count = wanted
    moved = size * count
    yield ProbePoint(
        op=op,
        size_bytes=size,
        depth=depth,
        direct=direct,
        rate=moved / max(seconds, 1e-9),
        durable_rate=moved / max(durable, 1e-9),
        p50_us=float(np.median(outcome.latencies_ns())) / 1e3,
    )


def _requests(op: str, size: int, count: int, direct: bool) -> Trace:
    """Return a trace of one file written or read from end to end."""
    rows = count + 2
    is_data = np.ones(rows, np.bool_)
    is_data[[0, -1]] = False
    creating = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    flags = creating if op == "write" else os.O_RDONLY
    lengths = np.where(is_data, size, 0)
    columns: dict[str, Column] = {
        "layer": Strings.constant("request", rows),
        "op": Strings.of(["open", *[op] * count, "close"]),
        "api": Strings.constant("posix", rows),
        "start_ns": np.arange(rows, dtype=np.int64),
        "end_ns": np.arange(rows, dtype=np.int64) + 1,
        "path": Strings.constant("/probe", rows),
        "file": np.zeros(rows, np.int32),
        "offset": Ints(np.cumsum(lengths) - lengths, is_data),
        "length": Ints(lengths, is_data),
        "result": lengths,
        "flags": Ints(
            np.where(np.arange(rows) == 0, flags | (os.O_DIRECT if direct else 0), 0),
            np.arange(rows) == 0,
        ),
    }
    return Trace.from_columns(columns, Metadata(processes=(Process(1),)))
