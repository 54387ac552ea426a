"""Intervals of many processes at once: those of each on a stretch of its own of one axis.

What is done to sets of intervals is then done to those of all processes in one step.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from iotrace.traces.columns import IntArray
from iotrace.traces.intervals import Intervals


@dataclass(frozen=True, eq=False)
class Lanes:
    """The axis: a lane for each process, on which its instants stand by their rank.

    Ranks and not nanoseconds, for these of many lanes are more than 64 bits hold. `instants`
    ascend; one that is there several times has the place of the first.
    """

    instants: IntArray
    count: int

    @classmethod
    def of(cls, count: int, *instants: IntArray) -> Lanes:
        """Return `count` lanes that have places for some instants, in ns."""
        return cls(np.sort(np.concatenate(instants)), count)

    @property
    def _width(self) -> int:
        return len(self.instants) + 1  # so that no lane touches the next

    def at(self, lane: IntArray, ns: IntArray) -> IntArray:
        """Return the places of instants of some lanes; ascending with lane and time."""
        return np.asarray(lane * self._width + np.searchsorted(self.instants, ns))

    def intervals(self, lane: IntArray, start_ns: IntArray, end_ns: IntArray) -> Intervals:
        """Return the points in any of some intervals of each lane.

        >>> lanes = Lanes.of(2, np.array([0, 5, 9]))
        >>> both = lanes.intervals(np.array([0, 1, 1]), np.array([0, 0, 5]), np.array([5, 5, 9]))
        >>> lanes.totals_ns(both).tolist()
        [5, 9]
        """
        return Intervals.of(self.at(lane, start_ns), self.at(lane, end_ns))

    def totals_ns(self, places: Intervals) -> IntArray:
        """Return the length of a set in each lane."""
        totals = np.zeros(self.count, np.int64)
        np.add.at(totals, self.lane_of(places), self.lengths_ns(places))
        return totals

    def lane_of(self, places: Intervals) -> IntArray:
        """Return the lane of each interval."""
        return np.asarray(places.starts // self._width)

    def lengths_ns(self, places: Intervals) -> IntArray:
        """Return the length of each interval."""
        starts, ends = (self.instants[at % self._width] for at in (places.starts, places.ends))
        return np.asarray(ends - starts)
