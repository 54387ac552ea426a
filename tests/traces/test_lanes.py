"""What is done to the intervals of all lanes at once is what is done to each alone."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from iotrace.traces.columns import IntArray
from iotrace.traces.intervals import Intervals
from iotrace.traces.lanes import Lanes

LANES = 3
FAR = 1 << 61  # three lanes of such times are more than 64 bits hold

instants = st.one_of(st.integers(-5, 12), st.sampled_from([-FAR, FAR, FAR + 1]))
rows = st.lists(st.tuples(st.integers(0, LANES - 1), instants, instants), max_size=12)
Rows = list[tuple[int, int, int]]


def columns(of: Rows) -> tuple[IntArray, IntArray, IntArray]:
    lane, start_ns, end_ns = np.array(of, np.int64).reshape(-1, 3).T
    return lane, start_ns, end_ns


def alone(of: Rows, lane: int) -> Intervals:
    _, start_ns, end_ns = columns([row for row in of if row[0] == lane])
    return Intervals.of(start_ns, end_ns)


@given(rows, rows)
def test_sets_of_each_lane_are_those_of_it_alone(one: Rows, two: Rows) -> None:
    """Joined, cut, taken away and measured; lanes do not touch, whatever their times are."""
    a, b = columns(one), columns(two)
    lanes = Lanes.of(LANES, *a[1:], *b[1:])
    first, second = lanes.intervals(*a), lanes.intervals(*b)
    for lane in range(LANES):
        own, other = alone(one, lane), alone(two, lane)
        for all_lanes, expected in (
            (first, own),
            (first.also(second), own.also(other)),
            (first.within(second), own.within(other)),
            (first.without(second), own.without(other)),
        ):
            assert lanes.totals_ns(all_lanes)[lane] == expected.total
            of_lane = lanes.lane_of(all_lanes) == lane
            lengths = (expected.ends - expected.starts).tolist()
            assert lanes.lengths_ns(all_lanes)[of_lane].tolist() == lengths


@given(rows)
def test_places_ascend_with_lane_and_time(some: Rows) -> None:
    """So that rows in that order are found by bisection."""
    lane, start_ns, _ = columns(sorted(some))
    places = Lanes.of(LANES, start_ns).at(lane, start_ns)
    assert (np.diff(places) >= 0).all()
