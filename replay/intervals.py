"""Sets of bytes of many files as sorted, disjoint intervals; of one: `traces/intervals`."""

from bisect import bisect_left, bisect_right

import numpy as np
import numpy.typing as npt

from iotrace.replay.grouping import grouped_by_place
from iotrace.replay.pieces import spread

Ints = npt.NDArray[np.int64]


def clusters(group: Ints, starts: Ints, ends: Ints) -> tuple[Ints, Ints, Ints]:
    """Return the hulls of intervals of one group that overlap; those that touch stay apart.

    >>> found = clusters(np.array([1, 1, 1]), np.array([8, 0, 2]), np.array([9, 3, 8]))
    >>> [part.tolist() for part in found]
    [[1, 1], [0, 8], [8, 9]]
    """
    return _hulls(group, starts, ends, least_gap=0)


def unions(group: Ints, starts: Ints, ends: Ints) -> tuple[Ints, Ints, Ints]:
    """Return the bytes in any of the intervals of one group; those that touch become one.

    >>> found = unions(np.array([1, 1, 2]), np.array([8, 0, 2]), np.array([9, 8, 8]))
    >>> [part.tolist() for part in found]
    [[1, 2], [0, 2], [9, 8]]
    """
    return _hulls(group, starts, ends, least_gap=1)


def _hulls(group: Ints, starts: Ints, ends: Ints, least_gap: int) -> tuple[Ints, Ints, Ints]:
    """Return the hulls of intervals of one group that have no gap of `least_gap` between them."""
    if not len(group):
        return group, starts, ends
    order = grouped_by_place(group, starts)
    group, starts = group[order], starts[order]
    other = group[1:] != group[:-1]
    reach = running_max(ends[order], np.concatenate([[True], other]))
    apart = other | (starts[1:] - reach[:-1] >= least_gap)
    first = np.concatenate([[True], apart])
    return group[first], starts[first], reach[np.concatenate([apart, [True]])]


def first_claims(
    group: Ints, starts: Ints, ends: Ints, claim: Ints
) -> tuple[Ints, Ints, Ints, Ints]:
    """Give each byte of a group to the lowest of the claims on it.

    Returns:
        Groups, starts, ends and claims of disjoint intervals, in order; those that touch and
        have one claim are one.

    >>> found = first_claims(np.array([7, 7]), np.array([0, 4]), np.array([6, 9]), np.array([2, 1]))
    >>> [part.tolist() for part in found]
    [[7, 7], [0, 4], [4, 9], [2, 1]]
    """
    if not len(group):
        return group, starts, ends, claim
    groups, places = np.concatenate([group, group]), np.concatenate([starts, ends])
    order = np.lexsort((places, groups))
    groups, places = groups[order], places[order]
    news = np.concatenate([[True], (groups[1:] != groups[:-1]) | (places[1:] != places[:-1])])
    rank = np.empty(len(order), np.int64)
    rank[order] = np.cumsum(news) - 1
    groups, places = groups[news], places[news]
    low, high = rank[: len(group)], rank[len(group) :]
    count = high - low
    cell = spread(low, count)
    best = np.full(len(groups), np.iinfo(np.int64).max)
    np.minimum.at(best, cell, np.repeat(claim, count))
    taken = np.flatnonzero(best < np.iinfo(np.int64).max)
    group, starts, ends, claim = groups[taken], places[taken], places[taken + 1], best[taken]
    apart = (group[1:] != group[:-1]) | (starts[1:] != ends[:-1]) | (claim[1:] != claim[:-1])
    first, last = np.concatenate([[True], apart]), np.concatenate([apart, [True]])
    return group[first], starts[first], ends[last], claim[first]


def running_max(values: Ints, fresh: npt.NDArray[np.bool_]) -> Ints:
    """Return the running maximum of `values`, begun anew where `fresh`.

    >>> running_max(np.array([5, 3, 1, 2]), np.array([True, False, True, False])).tolist()
    [5, 5, 1, 2]
    """
    if np.all((values[1:] >= values[:-1]) | fresh[1:]):
        return values
    group = np.cumsum(fresh)
    order = np.lexsort((values, group))
    rank = np.empty(len(values), np.int64)
    rank[order] = np.arange(len(values))
    # Ranks grow with the group, so a running maximum over all never sees an earlier group's.
    return np.asarray(values[order][np.maximum.accumulate(rank)])


class Coverage:
    """A growing set of bytes, for walks in order of time. Sequential writes cost O(1)."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    def add(self, start: int, end: int) -> None:
        """Add [start, end)."""
        low = bisect_left(self._ends, start)
        high = bisect_right(self._starts, end)
        if low < high:
            start, end = min(start, self._starts[low]), max(end, self._ends[high - 1])
        self._starts[low:high], self._ends[low:high] = [start], [end]

    def remove(self, start: int, end: int) -> None:
        """Drop [start, end)."""
        low, high = bisect_right(self._ends, start), bisect_left(self._starts, end)
        if low < high:
            left, right = (self._starts[low], start), (end, self._ends[high - 1])
            rest = [part for part in (left, right) if part[0] < part[1]]
            self._starts[low:high] = [part[0] for part in rest]
            self._ends[low:high] = [part[1] for part in rest]

    def parts(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return the parts of [start, end) that are in the set, in order."""
        low, high = bisect_right(self._ends, start), bisect_left(self._starts, end)
        found = zip(self._starts[low:high], self._ends[low:high], strict=True)
        return [(max(start, first), min(end, last)) for first, last in found]

    def meets(self, start: int, end: int) -> bool:
        """Return whether any byte of [start, end) is in the set."""
        place = bisect_right(self._ends, start)
        return place < len(self._starts) and self._starts[place] < end

    def cut_to(self, size: int) -> None:
        """Drop everything from byte `size` on."""
        keep = bisect_left(self._starts, size)
        del self._starts[keep:], self._ends[keep:]
        if keep:
            self._ends[-1] = min(self._ends[-1], size)

    def missing(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return the parts of [start, end) that are not in the set, in order."""
        gaps = []
        for index in range(bisect_right(self._ends, start), len(self._starts)):
            if self._starts[index] >= end:
                break
            if self._starts[index] > start:
                gaps.append((start, self._starts[index]))
            start = max(start, self._ends[index])
        if start < end:
            gaps.append((start, end))
        return gaps
