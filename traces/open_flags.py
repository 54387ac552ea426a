"""What the flags of an open say, and what they say of the requests that follow it."""

import os

import numpy as np

from iotrace.traces.columns import IntArray, Mask
from iotrace.traces.schema import DATA_OPS
from iotrace.traces.trace import Trace

# O_TMPFILE as the kernel has it comes with the bit of O_DIRECTORY, for kernels that know it not.
TMPFILE_BIT = os.O_TMPFILE & ~os.O_DIRECTORY


_MODES = {"r": os.O_RDONLY, "w": os.O_WRONLY | os.O_CREAT | os.O_TRUNC}
_MODES["a"] = os.O_WRONLY | os.O_CREAT | os.O_APPEND


def flags_of_mode(mode: str) -> int:
    """Return the flags that `fopen` makes of a mode.

    Raises:
        KeyError: it is none.

    >>> flags_of_mode("a+") == os.O_RDWR | os.O_CREAT | os.O_APPEND
    True
    """
    flags = _MODES[mode[:1]]
    return flags & ~os.O_ACCMODE | os.O_RDWR if "+" in mode else flags


def opens_folder(flags: IntArray) -> Mask:
    """Return which opens are of folders, and not of unnamed files in them."""
    return np.asarray((flags & os.O_DIRECTORY != 0) & (flags & TMPFILE_BIT == 0))


def has_flag(flags: IntArray, bits: int) -> Mask:
    """Return which flags have one of some bits; those not known have none."""
    return np.asarray((flags >= 0) & (flags & bits != 0))


def opened_with(requests: Trace) -> IntArray:
    """Return the flags that the file of each read and write was last opened with; -1: not known.

    The open may be long before: of another step, or of none. Other requests have -1.
    """
    opens = requests.row_mask(op="open") & requests.valid("flags")
    data = requests.row_mask(op=DATA_OPS)
    source = last_opens(requests, opens, data)
    flags = np.full(len(requests), -1, np.int64)
    flags[data] = np.where(source >= 0, requests.ints("flags")[source], -1)
    return flags


def last_opens(trace: Trace, opens: Mask, followers: Mask) -> IntArray:
    """Return, per follower, the row of its process's last open of its file before it, or -1."""
    rows = np.flatnonzero((opens | followers) & trace.valid("file"))
    process, file = trace.ints("process")[rows], trace.ints("file")[rows]
    order = np.lexsort((rows, file, process))
    rows, process, file = rows[order], process[order], file[order]

    places = np.arange(len(rows))
    is_first = np.ones(len(rows), np.bool_)
    is_first[1:] = (process[1:] != process[:-1]) | (file[1:] != file[:-1])
    group_start = np.maximum.accumulate(np.where(is_first, places, 0))
    last_open = np.maximum.accumulate(np.where(opens[rows], places, -1))

    source = np.full(len(trace), -1, np.int64)
    source[rows] = np.where(last_open >= group_start, rows[last_open], -1)
    return source[followers]
