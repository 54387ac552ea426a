"""A request of a plan: the fields of the job's that a transform has to know, in fewer bytes."""

import numpy as np

from iotrace.replay.job import REQUEST
from iotrace.replay.pieces import Rows

# The fences are left to `schedule`. Pieces and rows of the trace are counted in 31 bits: a plan
# of more takes 200 GB.
ROW = np.dtype(
    [
        ("offset", "<i8"),
        ("length", "<i8"),
        ("due_ns", "<i8"),
        ("think_ns", "<i8"),
        ("first_piece", "<i4"),
        ("piece_count", "<i4"),
        ("source_row", "<i4"),
        ("file", "<i4"),
        ("handle", "<i4"),
        ("path", "<i4"),
        ("target", "<i4"),
        ("stream", "<i4"),
        ("flags", "<u4"),
        ("step", "<i4"),
        ("mode", "<u2"),
        ("op", "u1"),
        ("gather", "u1"),
        ("may_be_short", "u1"),
        ("phase", "u1"),
    ],
    align=True,
)


def lowered(rows: Rows) -> Rows:
    """Return the rows as the job has them, REQUEST, without fences."""
    requests = np.zeros(len(rows), REQUEST)
    for first in range(0, len(rows), _AT_A_TIME):
        some = slice(first, first + _AT_A_TIME)
        for name in ROW.names or ():
            requests[name][some] = rows[name][some]
    return requests


_AT_A_TIME = 4096  # rows that stay in the processor's cache while their fields are copied
