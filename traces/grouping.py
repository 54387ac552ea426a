"""Rows that agree in several integer columns, numbered."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from iotrace.traces.columns import IntArray


def number_groups(*keys: npt.NDArray[np.integer]) -> IntArray:
    """Return one number per row, equal where all keys are; ascending with the keys.

    Sorting column by column is several times faster than `np.unique` over rows.

    >>> number_groups(np.array([7, 5, 7]), np.array([1, 1, 1])).tolist()
    [1, 0, 1]
    """
    count = len(keys[0])
    if not count:
        return np.zeros(0, np.int64)
    order = np.lexsort(keys[::-1])
    fresh = np.zeros(count, np.bool_)
    for key in keys:
        ordered = key[order]
        fresh[1:] |= ordered[1:] != ordered[:-1]
    numbers = np.empty(count, np.int64)
    numbers[order] = np.cumsum(fresh)
    return numbers


def first_rows(numbers: IntArray) -> IntArray:
    """Return, per group, the row that it occurs in first."""
    first = np.full(int(numbers.max(initial=-1)) + 1, len(numbers))
    np.minimum.at(first, numbers, np.arange(len(numbers)))
    return first
