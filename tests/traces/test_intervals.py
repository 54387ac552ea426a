"""Intervals, against sets of points."""

import numpy as np
import pytest

from iotrace.traces.intervals import Intervals


@pytest.mark.parametrize("seed", range(3))
def test_intervals_agree_with_sets_of_points(seed: int) -> None:
    """Union, intersection and difference against counting."""
    random = np.random.default_rng(seed)
    starts = random.integers(80, size=(2, 12))
    ends = starts + random.integers(9, size=(2, 12))
    one, two = (Intervals.of(s, e) for s, e in zip(starts, ends, strict=True))
    points = [
        {p for s, e in zip(a.tolist(), b.tolist(), strict=True) for p in range(s, e)}
        for a, b in zip(starts, ends, strict=True)
    ]
    assert one.total == len(points[0])
    assert one.also(two).total == len(points[0] | points[1])
    assert one.within(two).total == len(points[0] & points[1])
    assert one.without(two).total == len(points[0] - points[1])
