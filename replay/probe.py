"""What a folder's storage gives: a few seconds of requests of known size and depth."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from iotrace.replay.build import plan_from_trace
from iotrace.replay.options import ReplayOptions
from iotrace.replay.result import RecordedSummary
from iotrace.replay.session import replay
from iotrace.replay.statistics import estimate
from iotrace.replay.target import MountPoint, mount_of
from iotrace.traces.metadata import Metadata, Process
from iotrace.traces.trace import Column, Ints, Strings, Trace

BUDGET_SECONDS = 8.0
# (bytes, queue depth), the most telling first: time may run out.
_POINTS = ((1 << 20, 8), (4096, 1), (1 << 20, 1), (64 << 10, 1))
_FIRST_COUNT = 32  # requests that show how slow the storage is
_MOST_BYTES = 64 << 20
_AIM_SECONDS = 0.06  # of requests per point
_LEAST_RUNS = 3  # of a point
_MOST_RUNS = 12
_NARROW = 0.05  # half width of the interval over the median, from which on it is good enough


@dataclass(frozen=True)
class ProbePoint:
    """What one size and depth gave: medians over `runs`.

    `durable_bytes_per_second` is with the sync of the file. Reads are cold, and need none.
    `low_...` and `high_...` are its scatter, see `iotrace.replay.statistics`.
    """

    op: str
    size_bytes: int
    depth: int
    direct: bool
    bytes_per_second: float
    durable_bytes_per_second: float
    p50_us: float
    runs: int = 1
    low_bytes_per_second: float | None = None
    high_bytes_per_second: float | None = None

    @property
    def scatter(self) -> float | None:
        """Half the width of the interval over the median; `None` of a single run."""
        low, high = self.low_bytes_per_second, self.high_bytes_per_second
        if low is None or high is None or self.runs < 2 or not self.durable_bytes_per_second:
            return None
        return (high - low) / 2 / self.durable_bytes_per_second

    @property
    def is_settled(self) -> bool:
        """Whether it was repeated until its interval was narrow."""
        return self.runs >= _LEAST_RUNS and (self.scatter or 0.0) <= _NARROW


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

    @property
    def is_settled(self) -> bool:
        """Whether every point is."""
        return all(point.is_settled for point in self.points)

    def best(self, op: str, size_bytes: int | None = None) -> ProbePoint | None:
        """Return the point of `op` (of this size) with the highest durable rate."""
        sizes = {point.size_bytes for point in self.points} if size_bytes is None else {size_bytes}
        own = [point for point in self.points if point.op == op and point.size_bytes in sizes]
        return max(own, key=lambda point: point.durable_bytes_per_second, default=None)

    def find(self, op: str, size_bytes: int, depth: int, direct: bool) -> ProbePoint | None:
        """Return the point that was probed so, if it was."""
        wanted = (op, size_bytes, depth, direct)
        own = (p for p in self.points if (p.op, p.size_bytes, p.depth, p.direct) == wanted)
        return next(own, None)

    def one_by_one_us(self, op: str, size_bytes: int, direct: bool) -> float | None:
        """Return what one request takes when they come one at a time, in microseconds.

        Between probed sizes it is interpolated (on logarithms); beyond the largest it grows with
        the size. `None` where nothing of the kind was probed.
        """
        own = sorted(
            (p.size_bytes, p.p50_us)
            for p in self.points
            if p.op == op and p.direct == direct and p.depth == 1 and p.p50_us > 0
        )
        if not own:
            return None
        sizes, times = (np.log(np.array(column)) for column in zip(*own, strict=True))
        wanted = np.log(max(size_bytes, 1))
        over = max(0.0, float(wanted - sizes[-1]))
        return float(np.exp(np.interp(wanted, sizes, times) + over))


def probe(
    root: Path,
    budget_seconds: float = BUDGET_SECONDS,
    progress: Callable[[str, int, int], None] = lambda stage, done, total: None,
) -> Capability:
    """Try the storage of `root`, in a fresh folder that is removed.

    Each point is tried a few times, then all that scatter again, in turn, until their intervals are
    narrow.

    Args:
        root: an existing folder that can be written.
        budget_seconds: no further run is begun after this.
        progress: called with a stage, points done and points in all.

    Raises:
        PlanError: nothing can be written there, or there is too little room.
    """
    deadline = time.monotonic() + budget_seconds
    mount = mount_of(root)
    kinds = [
        _Kind(op, size, depth, direct)
        for size, depth in _POINTS
        for op in ("write", "read")
        for direct in (False, True)
    ]
    tried: list[_Point] = []
    for number, kind in enumerate(kinds):
        progress("probe", number, len(kinds))
        if time.monotonic() > deadline:
            break
        first = _first_run(root, kind)
        tried += [] if first is None else [first]
    progress("probe", len(kinds), len(kinds))
    # All in turn, so that a while in which the machine is busy does not fall on one of them.
    while again := [one for one in tried if not one.result.is_settled and one.can_run]:
        for one in again:
            if time.monotonic() > deadline:
                return _capability(mount, tried)
            more = _runs(root, one.kind, one.count, _LEAST_RUNS)
            one.runs += more
            one.left = one.left - len(more) if more else 0
    return _capability(mount, tried)


def _capability(mount: MountPoint, tried: Sequence[_Point]) -> Capability:
    points = tuple(one.result for one in tried)
    return Capability(mount.file_system, mount.source, time.time_ns(), points)


@dataclass(frozen=True)
class _Kind:
    """What is tried."""

    op: str
    size_bytes: int
    depth: int
    direct: bool


class _Run(NamedTuple):
    """What one try gave; of `count` requests."""

    seconds: float
    durable_seconds: float
    p50_us: float


@dataclass
class _Point:
    """The runs of a kind, each of `count` requests; `left`: how many more are worth their time."""

    kind: _Kind
    count: int
    runs: list[_Run]
    left: int = _MOST_RUNS

    @property
    def can_run(self) -> bool:
        return self.left > 0

    @property
    def result(self) -> ProbePoint:
        """What they gave."""
        moved = self.kind.size_bytes * self.count
        found = estimate([moved / max(run.durable_seconds, 1e-9) for run in self.runs])
        return ProbePoint(
            op=self.kind.op,
            size_bytes=self.kind.size_bytes,
            depth=self.kind.depth,
            direct=self.kind.direct,
            bytes_per_second=float(
                np.median([moved / max(run.seconds, 1e-9) for run in self.runs])
            ),
            durable_bytes_per_second=found.median,
            p50_us=float(np.median([run.p50_us for run in self.runs])),
            runs=len(self.runs),
            low_bytes_per_second=found.low,
            high_bytes_per_second=found.high,
        )


def _first_run(root: Path, kind: _Kind) -> _Point | None:
    """Return a point after a few runs of as many requests as tell; None: it cannot be had."""
    count = _FIRST_COUNT
    runs = _runs(root, kind, count, 1)
    if not runs:
        return None
    seconds = max(runs[0].durable_seconds, 1e-6)
    wanted = min(int(count * _AIM_SECONDS / seconds), _MOST_BYTES // kind.size_bytes)
    count = max(count, wanted)
    runs = _runs(root, kind, count, _LEAST_RUNS)
    return _Point(kind, count, runs) if runs else None


def _runs(root: Path, kind: _Kind, count: int, repeat: int) -> list[_Run]:
    """Return what `repeat` runs gave; nothing where it cannot be had."""
    trace = _requests(kind.op, kind.size_bytes, count, kind.direct)
    options = ReplayOptions(queue_depth=kind.depth, root=root, repeat=repeat)
    outcome = replay(plan_from_trace(trace), RecordedSummary.of(trace), options)
    if outcome.failed:  # no direct I/O
        return []
    p50_us = float(np.median(outcome.latencies_ns())) / 1e3
    if kind.op == "write":
        both = [(one.write_seconds, one.durable_seconds) for one in outcome.repetitions]
    else:
        both = [(one.read_seconds, one.read_seconds) for one in outcome.repetitions]
    return [_Run(seconds, durable, p50_us) for seconds, durable in both]


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
