"""Rows that belong together: one number for several columns, their order, the first of each."""

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

_MOST = 2**62  # spans are below 2**31 where a column is one of a plan, and so are counts of rows
_RADIX = 1 << 16  # what numpy sorts in time that grows with the number of keys alone
_TABLE = 1 << 24  # numbers that a table of all is small for


def numbered(*columns: npt.NDArray[np.integer]) -> Ints:
    """Return a number per row, in the order of the columns' values, the first column's first.

    >>> numbered(np.array([7, 7, 2]), np.array([5, 4, 9])).tolist()
    [31, 30, 5]
    """
    values, size = np.zeros(len(columns[0]), np.int64), 1
    for column in columns if len(values) else ():
        least = int(column.min())
        span = int(column.max()) - least + 1
        if span == 1:
            continue
        if size * span > _MOST:
            found, values = np.unique(values, return_inverse=True)
            size = len(found)
        values *= span
        values += column
        values -= least
        size *= span
    return _dense(values, size) if _RADIX < size <= _TABLE else values


def _dense(values: Ints, size: int) -> Ints:
    """Return the ranks of values below `size`."""
    is_used = np.zeros(size, np.bool_)
    is_used[values] = True
    return (np.cumsum(is_used) - 1)[values]


def grouped(keys: npt.NDArray[np.integer]) -> Ints:
    """Return the order that brings equal keys together, ascending, each group as it is.

    Few keys, as of files and streams, are sorted by numpy's radix sort, which is for 16 bits; of
    more, up to twice as many bits, the upper half after the lower.

    >>> grouped(np.array([3, 1, 3, 1])).tolist()
    [1, 3, 0, 2]
    >>> grouped(np.array([3 << 16, 1, 3 << 16, 1 << 16])).tolist()
    [1, 3, 0, 2]
    """
    if np.all(keys[1:] >= keys[:-1]):
        return np.arange(len(keys))
    least = int(keys.min())
    span = int(keys.max()) - least + 1
    if span > _RADIX**2:
        return np.argsort(keys, kind="stable")
    keys = (keys - least).astype(np.uint32)
    order = np.argsort(keys.astype(np.uint16), kind="stable")
    if span > _RADIX:
        order = order[np.argsort((keys >> 16).astype(np.uint16)[order], kind="stable")]
    return order


def grouped_by_place(keys: npt.NDArray[np.integer], places: Ints) -> Ints:
    """Return the order by key, and by place where keys are equal; places often ascend already.

    >>> grouped_by_place(np.array([3, 1, 3]), np.array([9, 0, 8])).tolist()
    [1, 2, 0]
    """
    order = grouped(keys)
    key, place = keys[order], places[order]
    if np.any((key[1:] == key[:-1]) & (place[1:] < place[:-1])):
        return np.lexsort((places, keys))
    return order


def first_of_each(keys: npt.NDArray[np.integer]) -> tuple[Ints, Ints]:
    """Return the different keys, ascending, and the first row that has each.

    >>> found, first = first_of_each(np.array([3, 1, 3]))
    >>> found.tolist(), first.tolist()
    ([1, 3], [1, 0])
    """
    order = grouped(keys)
    key = keys[order]
    fresh = np.ones(len(key), np.bool_)
    fresh[1:] = key[1:] != key[:-1]
    return key[fresh].astype(np.int64), order[fresh]
