"""Requests in bins of time, of a file, of powers of two: what figures are drawn from.

A figure needs hundreds of points, a trace has millions of rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from iotrace.traces.columns import IntArray, ends_of
from iotrace.traces.requests import Requests
from iotrace.traces.trace import Trace

Floats = npt.NDArray[np.float64]

_QUANTILES = np.concatenate([np.linspace(0, 0.99, 100), 1 - np.geomspace(0.009, 1e-5, 40)])


@dataclass(frozen=True, eq=False)
class TimeBins:
    """Equal bins of time; `edges_ns` has one entry more than there are bins.

    Edges count from `origin_ns`: of large times a float has no single nanoseconds.
    """

    edges_ns: Floats
    origin_ns: int = 0

    @classmethod
    def of(cls, requests: Requests, count: int = 300) -> TimeBins:
        """Return bins over all of the requests."""
        begin, end = int(requests.start_ns.min()), int(requests.end_ns.max())
        return cls(np.linspace(0, max(end - begin, 1), count + 1), begin)

    @property
    def seconds(self) -> float:
        """Width of a bin."""
        return float(self.edges_ns[1] - self.edges_ns[0]) / 1e9

    @property
    def middles_seconds(self) -> Floats:
        """Middle of each bin, from the first edge on."""
        middles = self.edges_ns[:-1] + np.diff(self.edges_ns) / 2
        return np.asarray((middles - self.edges_ns[0]) / 1e9)

    def spread(self, start_ns: IntArray, end_ns: IntArray, amount: IntArray) -> Floats:
        """Return how much falls into each bin when each amount is spent evenly over its time.

        >>> bins = TimeBins(np.array([0.0, 10.0, 20.0]))
        >>> bins.spread(np.array([5]), np.array([15]), np.array([8])).tolist()
        [4.0, 4.0]
        """
        zero = self.edges_ns[0]
        start = start_ns - self.origin_ns - zero
        end = np.maximum(end_ns - self.origin_ns - zero, start + 1)
        edges = self.edges_ns - zero
        with np.errstate(all="ignore"):  # amounts and times no job ever had
            rate = amount / (end - start)
            total = _ramps(start, rate, edges) - _ramps(end, rate, edges)
            return np.nan_to_num(np.diff(total)).clip(min=0)


def bandwidth(requests: Requests, op: str, bins: TimeBins) -> Floats:
    """Return bytes per second of `op` in each bin."""
    rows = requests.where(requests.is_op(op))
    return bins.spread(rows.start_ns, rows.end_ns, rows.moved) / bins.seconds


def in_flight(requests: Requests, op: str, bins: TimeBins) -> Floats:
    """Return the mean number of requests of `op` in flight in each bin."""
    rows = requests.where(requests.is_op(op))
    return bins.spread(rows.start_ns, rows.end_ns, rows.elapsed_ns) / (bins.seconds * 1e9)


@dataclass(frozen=True, eq=False)
class Lane:
    """One row of the timeline: a process, or a thread where there is one process.

    `busy` has, per op, the share of each bin with a request in flight (above 1 is cut).
    """

    label: str
    busy: dict[str, Floats]


def lanes(
    requests: Requests, ops: dict[str, tuple[str, ...]], bins: TimeBins, most: int = 32
) -> list[Lane]:
    """Return the timeline: one lane per rank, or per thread of a single process.

    Args:
        requests: to be shown.
        ops: what each class of ops is called, and which ops are in it.
        bins: of time.
        most: lanes; of more, those with the most requests are taken.
    """
    processes = np.unique(requests.process)
    several = len(processes) > 1
    owner = requests.process if several else requests.thread
    values, counts = np.unique(owner, return_counts=True)
    chosen = np.sort(values[np.argsort(-counts, kind="stable")[:most]])
    found = []
    for value in chosen.tolist():
        own = requests.where(owner == value)
        rank = int(own.rank[0])
        label = f"thread {value}" if not several else f"rank {rank}" if rank >= 0 else f"#{value}"
        busy = {}
        for name, members in ops.items():
            rows = own.where(own.is_op(*members))
            used = bins.spread(rows.start_ns, rows.end_ns, rows.elapsed_ns)
            busy[name] = (used / (bins.seconds * 1e9)).clip(max=1)
        found.append((rank, Lane(label, busy)))
    return [lane for _, lane in sorted(found, key=lambda pair: pair[0])]


@dataclass(frozen=True, eq=False)
class Curve:
    """Values at `share` of all (0..1): a cumulative distribution."""

    share: Floats
    value: Floats


def latency_curve(requests: Requests, op: str) -> Curve | None:
    """Return the distribution of the latency of `op`, in seconds; `None` without any."""
    elapsed = requests.elapsed_ns[requests.is_op(op)]
    if not len(elapsed):
        return None
    values = np.quantile(elapsed / 1e9, _QUANTILES)
    return Curve(np.r_[_QUANTILES, 1.0], np.r_[values, elapsed.max() / 1e9])


def doubling(sizes: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Return lower bounds (powers of two, 0 for nothing), counts and bytes of the sizes.

    >>> [part.tolist() for part in doubling(np.array([0, 4, 5, 9]))]
    [[0, 4, 8], [1, 2, 1], [0, 9, 9]]
    """
    exponent = np.where(sizes > 0, np.frexp(sizes.astype(np.float64))[1], 0)
    buckets, place = np.unique(exponent, return_inverse=True)
    counts = np.bincount(place, minlength=len(buckets))
    held = np.zeros(len(buckets), np.int64)
    np.add.at(held, place, sizes)
    return np.where(buckets > 0, 1 << (buckets - 1).clip(min=0), 0), counts, held


def alignment_shares(requests: Requests, op: str, exponents: range = range(21)) -> Floats:
    """Return the share of the requests of `op` that are aligned to 2**e, per e."""
    rows = requests.where(requests.is_op(op) & requests.has_offset)
    if not len(rows):
        return np.zeros(len(exponents))
    edges = rows.offset | rows.length
    return np.array([float((edges & ((1 << e) - 1) == 0).mean()) for e in exponents])


@dataclass(frozen=True, eq=False)
class FileMap:
    """Where things lie in one file, in equal bins.

    Attributes:
        bin_bytes: of file per bin.
        tensors: bytes of tensors per bin, over `bin_bytes` where they overlap.
        written, read: bytes moved per bin; more than `bin_bytes` is more than once.
    """

    path: str
    size_bytes: int
    bin_bytes: float
    tensors: Floats
    written: Floats
    read: Floats


def file_maps(requests: Requests, trace: Trace, most: int = 8, count: int = 240) -> list[FileMap]:
    """Return the maps of the files that most bytes were moved of."""
    placed = requests.has_offset & (requests.home >= 0)
    data = requests.where(requests.is_op("read", "write", "fault") & placed)
    if not len(data):
        return []
    moved = np.bincount(data.home, weights=data.moved, minlength=len(data.homes))
    order = np.argsort(-moved, kind="stable")[:most]
    tensors = trace.layer("tensor")
    home = requests.homes_of(tensors)
    offset, length = tensors.ints("offset"), tensors.ints("length", null=0)
    found = []
    for code in order[moved[order] > 0].tolist():
        own = data.where(data.home == code)
        mine = (home == code) & (offset >= 0)
        reach = [ends_of(own.offset, own.moved), ends_of(offset[mine], length[mine]), np.array([1])]
        size = int(max(part.max(initial=0) for part in reach))
        bins = TimeBins(np.linspace(0, size, count + 1))
        writes, reads = own.where(own.is_op("write")), own.where(~own.is_op("write"))
        found.append(
            FileMap(
                path=data.homes[code],
                size_bytes=size,
                bin_bytes=size / count,
                tensors=bins.spread(
                    offset[mine], ends_of(offset[mine], length[mine]), length[mine]
                ),
                written=bins.spread(
                    writes.offset, ends_of(writes.offset, writes.moved), writes.moved
                ),
                read=bins.spread(reads.offset, ends_of(reads.offset, reads.moved), reads.moved),
            )
        )
    return found


def _ramps(begin: Floats, rate: Floats, at: Floats) -> Floats:
    """Return the sum of `rate * max(0, t - begin)` at each t."""
    order = np.argsort(begin)
    begin, rate = begin[order], rate[order]
    place = np.searchsorted(begin, at)
    slope = np.r_[0.0, np.cumsum(rate)]
    shift = np.r_[0.0, np.cumsum(rate * begin)]
    return np.asarray(slope[place] * at - shift[place])
