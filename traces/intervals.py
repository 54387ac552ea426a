"""Sets of points in time, or of bytes, as sorted, disjoint intervals: two arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from iotrace.traces.columns import IntArray, Mask


@dataclass(frozen=True, eq=False)
class Intervals:
    """Sorted intervals that do not touch one another."""

    starts: IntArray
    ends: IntArray

    @classmethod
    def of(cls, starts: IntArray, ends: IntArray) -> Intervals:
        """Return the points in any of the given intervals, which may overlap.

        >>> Intervals.of(np.array([8, 0, 2]), np.array([9, 3, 8])).ends.tolist()
        [9]
        """
        real = ends > starts
        starts, ends = starts[real], ends[real]
        if not len(starts):
            return cls(starts, ends)
        order = np.argsort(starts, kind="stable")
        starts, reach = starts[order], np.maximum.accumulate(ends[order])
        apart = starts[1:] > reach[:-1]
        return cls(starts[np.r_[True, apart]], reach[np.r_[apart, True]])

    @classmethod
    def single(cls, start: int, end: int) -> Intervals:
        """Return one interval; nothing when it ends before it starts."""
        return cls.of(np.array([start], np.int64), np.array([end], np.int64))

    @property
    def total(self) -> int:
        """Length of all of them."""
        return int((self.ends - self.starts).sum())

    def also(self, other: Intervals) -> Intervals:
        """Return the points in either."""
        return Intervals.of(np.r_[self.starts, other.starts], np.r_[self.ends, other.ends])

    def within(self, other: Intervals) -> Intervals:
        """Return the points in both.

        >>> one, two = Intervals.single(0, 10), Intervals.of(np.array([2, 8]), np.array([4, 12]))
        >>> one.within(two).total
        4
        """
        return self._where(other, inside=True)

    def without(self, other: Intervals) -> Intervals:
        """Return the points of this set that are not in the other.

        >>> Intervals.single(0, 10).without(Intervals.single(3, 5)).total
        8
        """
        return self._where(other, inside=False)

    def _where(self, other: Intervals, *, inside: bool) -> Intervals:
        bounds = np.sort(np.concatenate([self.starts, self.ends, other.starts, other.ends]))
        starts, ends = bounds[:-1], bounds[1:]
        keep = self.contains(starts) & (other.contains(starts) == inside)
        return Intervals.of(starts[keep], ends[keep])

    def contains(self, points: IntArray) -> Mask:
        """Return which points lie in an interval; its end does not."""
        if not len(self.starts):
            return np.zeros(len(points), np.bool_)
        place = np.searchsorted(self.starts, points, "right") - 1
        return np.asarray((place >= 0) & (points < self.ends[place]))
