"""Bins that figures are drawn from, against counting one by one."""

import numpy as np
import pytest

from iotrace.traces.binned import (
    TimeBins,
    alignment_shares,
    bandwidth,
    doubling,
    file_maps,
    in_flight,
    lanes,
    latency_curve,
)
from iotrace.traces.requests import Requests
from iotrace.traces.trace import Ints

from .conftest import small_trace


def requests(start_ns: list[int], end_ns: list[int], length: list[int], **more: object) -> Requests:
    """Return writes of one file, one after another in it."""
    rows = len(start_ns)
    every = np.ones(rows, np.bool_)
    sizes = np.array(length)
    return Requests.of(
        small_trace(
            rows,
            start_ns=np.array(start_ns),
            end_ns=Ints(np.array(end_ns), every),
            offset=Ints(np.cumsum(sizes) - sizes, every),
            length=Ints(sizes, every),
            result=Ints(sizes, every),
            file=Ints(np.zeros(rows, np.int64), every),
            **more,
        )
    )


@pytest.mark.parametrize("seed", range(3))
def test_amounts_are_spread_evenly_over_their_time(seed: int) -> None:
    """Against a sum over nanoseconds; nothing is lost or made."""
    random = np.random.default_rng(seed)
    start = random.integers(900, size=50)
    end = start + random.integers(1, 100, size=50)
    amount = random.integers(1000, size=50)
    bins = TimeBins(np.linspace(0, 1000, 8))
    expected = np.zeros(7)
    for s, e, a in zip(start.tolist(), end.tolist(), amount.tolist(), strict=True):
        for low, high, i in zip(bins.edges_ns[:-1], bins.edges_ns[1:], range(7), strict=True):
            expected[i] += a * max(0.0, min(e, high) - max(s, low)) / (e - s)
    assert bins.spread(start, end, amount) == pytest.approx(expected)
    assert bins.spread(start, end, amount).sum() == pytest.approx(amount.sum())


def test_bandwidth_and_depth_are_means_over_bins() -> None:
    """Two writes at a time for 10 ns, then none, then one that takes no time at all."""
    found = requests([0, 0, 19], [10, 10, 19], [5, 5, 8])
    bins = TimeBins(np.array([0.0, 10.0, 20.0]))
    assert bandwidth(found, "write", bins) == pytest.approx([10 / 10e-9, 8 / 10e-9])
    assert in_flight(found, "write", bins) == pytest.approx([2.0, 0.0])
    (lane,) = lanes(found, {"write": ("write",)}, bins)
    assert lane.busy["write"] == pytest.approx([1.0, 0.0])


def test_sizes_alignment_and_latency_are_distributions() -> None:
    """Known ones."""
    found = requests([0, 10, 20], [1, 13, 29], [4096, 4096, 100])
    low, counts, held = doubling(found.length)
    assert (low.tolist(), counts.tolist(), held.tolist()) == ([64, 4096], [1, 2], [100, 8192])
    assert alignment_shares(found, "write", range(13))[[0, 2, 3, 12]] == pytest.approx(
        [1, 1, 2 / 3, 2 / 3]
    )
    curve = latency_curve(found, "write")
    assert curve is not None
    assert (curve.value[0], curve.value[-1]) == (pytest.approx(1e-9), pytest.approx(9e-9))
    assert latency_curve(found, "read") is None


def test_a_file_map_has_every_byte() -> None:
    """What was written, in its place."""
    from iotrace.traces.trace import Strings

    rows = 2
    trace = small_trace(
        rows,
        offset=Ints(np.array([0, 300]), np.ones(rows, np.bool_)),
        length=Ints(np.array([100, 100]), np.ones(rows, np.bool_)),
        result=Ints(np.array([100, 100]), np.ones(rows, np.bool_)),
        path=Strings.constant("/a", rows),
        file=Ints(np.zeros(rows, np.int64), np.ones(rows, np.bool_)),
    )
    (one,) = file_maps(Requests.of(trace), trace, count=4)
    assert one.size_bytes == 400
    assert one.written == pytest.approx([100, 0, 0, 100])
    assert one.read == pytest.approx([0, 0, 0, 0])
