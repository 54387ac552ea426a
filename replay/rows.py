"""A request of a plan: the fields of the job's that a transform has to know, in fewer bytes."""

from typing import Any

import numpy as np

from iotrace.replay.job import REQUEST
from iotrace.replay.pieces import Rows
from iotrace.traces.errors import PlanError

_BY_SCHEDULE = ("fence", "file_before", "file_fences", "global_fences", "reserved")
# Pieces and rows of the trace are counted in 31 bits: a plan of more takes 200 GB.
_MOST = 2**31 - 1
_NARROW: dict[str, np.dtype[Any]] = {
    "first_piece": np.dtype("<i4"),
    "source_row": np.dtype("<i4"),
    "mode": np.dtype("<u2"),
}


def _row() -> np.dtype[np.void]:
    types: dict[str, np.dtype[Any]] = {
        name: REQUEST[name] for name in REQUEST.names or () if name not in _BY_SCHEDULE
    }
    types |= _NARROW
    by_size = sorted(types.items(), key=lambda field: -field[1].itemsize)  # without gaps
    return np.dtype(by_size, align=True)


ROW = _row()


def require_countable(what: str, count: int) -> None:
    """Refuse more of something than a ROW can count.

    Raises:
        PlanError: saying so.
    """
    if count > _MOST:
        raise PlanError(
            f"{count:,} {what} are more than a plan holds ({_MOST:,}); take fewer steps or ranks"
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
