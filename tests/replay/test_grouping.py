"""Rows that belong together are found as sorting by their columns finds them."""

import numpy as np
import numpy.typing as npt
import pytest

from iotrace.replay.grouping import first_of_each, grouped, grouped_by_place, numbered

Ints = npt.NDArray[np.int64]
# Few and many for the radix sort, from below 0, and so many that three columns pass 63 bits.
RANGES = [(0, 1), (0, 5), (-1, 70_000), (-(2**30), 2**31 - 1)]


def column(low: int, high: int, rows: int = 500) -> Ints:
    """Return numbers of a range, its ends and some of them twice among them."""
    some = np.random.default_rng(high).integers(low, high, rows, endpoint=True)
    return np.concatenate([some, some[::3], [low, high]])


@pytest.mark.parametrize("low_high", RANGES)
def test_one_number_stands_for_several_columns(low_high: tuple[int, int]) -> None:
    """Also where all values of the columns together are more than a number can tell apart."""
    first = column(*low_high)
    columns = (first, np.roll(first, 1), np.roll(first, 2).astype(np.int32))
    number = numbered(*columns)
    order = np.lexsort(columns[::-1])
    assert np.array_equal(np.argsort(number, kind="stable"), order)
    apart = np.any([one[order][1:] != one[order][:-1] for one in columns], axis=0)
    assert np.array_equal(np.diff(number[order]) > 0, apart)


@pytest.mark.parametrize("low_high", RANGES)
def test_groups_stay_in_order(low_high: tuple[int, int]) -> None:
    """However the keys are sorted; so does `grouped_by_place` with places that go down."""
    keys = column(*low_high)
    order = np.argsort(keys, kind="stable")
    for given in (keys, keys.astype(np.int32)):
        assert np.array_equal(grouped(given), order)
        found, first = first_of_each(given)
        assert [found.tolist(), first.tolist()] == [
            part.tolist() for part in np.unique(keys, return_index=True)
        ]
    for places in (np.arange(len(keys)), np.arange(len(keys))[::-1]):
        assert np.array_equal(grouped_by_place(keys, places), np.lexsort((places, keys)))


def test_no_rows_make_no_groups() -> None:
    """A plan may have no request of a kind."""
    nothing = np.zeros(0, np.int64)
    assert len(numbered(nothing, nothing)) == len(grouped(nothing)) == 0
    assert len(grouped_by_place(nothing, nothing)) == len(first_of_each(nothing)[0]) == 0
