"""Which requests may change places, and which go on where another ends."""

import numpy as np
import numpy.typing as npt

from iotrace.replay.barriers import places_of
from iotrace.replay.fences import fence_epochs, find_fences
from iotrace.replay.job import DATA_OPS, Fence, Op
from iotrace.replay.pieces import Ints, Rows
from iotrace.replay.plan import Plan


def exchangeable(plan: Plan) -> tuple[Ints, Ints]:
    """Return the requests with bytes, and a key that is equal where nothing must stay between.

    Returns:
        Indices of requests, ascending, and keys, as many.
    """
    requests = plan.requests
    index = np.flatnonzero(np.isin(requests["op"], DATA_OPS) & (requests["length"] > 0))
    key = _Key(len(index))
    for name in ("stream", "handle", "op", "phase", "step"):
        key.add(requests[name][index])
    key.add(_stream_epochs(requests)[index])
    # At a larger queue depth opens part saving from loading, so that these do not meet.
    _, fence = find_fences(requests, plan.pieces, len(plan.files), queue_depth=2)
    domain = np.where(requests["file"] < 0, -1, requests["file"]).astype(np.int64)
    fence[requests["op"] == Op.CLOSE] = Fence.FILE
    fence[places_of(plan.barriers_ns, requests)] = Fence.ALL
    key.add(fence_epochs(domain, fence)[index])
    return index, key.values


def adjacent(plan: Plan) -> tuple[Ints, Ints]:
    """Return the requests with bytes, chains of adjacent ones together, and their chains."""
    requests = plan.requests
    index, key = exchangeable(plan)
    order = np.argsort(key, kind="stable")  # equal ones stay in order of time
    index, key = index[order], key[order]
    offset = requests["offset"][index]
    ends = offset + requests["length"][index]
    apart = (key[1:] != key[:-1]) | (offset[1:] != ends[:-1])
    return index, np.cumsum(np.concatenate([[False], apart])[: len(index)])


class _Key:
    """One number per row for the values of several columns; a plan has many rows."""

    def __init__(self, count: int) -> None:
        self.values = np.zeros(count, np.int64)
        self._size = 1

    def add(self, column: npt.NDArray[np.integer]) -> None:
        """Tell apart the rows that differ in `column`."""
        if not len(column):
            return
        least = int(column.min())
        span = int(column.max()) - least + 1
        if span == 1:
            return
        if self._size * span > _MOST:
            found, self.values = np.unique(self.values, return_inverse=True)
            self._size = len(found)
        self.values = self.values * span
        self.values += column
        self.values -= least
        self._size *= span


_MOST = 2**62  # spans are below 2**31, and there are fewer rows than that


def _stream_epochs(requests: Rows) -> Ints:
    """Return how many requests that must not be crossed lie before each in its stream."""
    stops = ~np.isin(requests["op"], (*DATA_OPS, Op.OPEN))
    order = np.argsort(requests["stream"], kind="stable")
    epoch = np.empty(len(requests), np.int64)
    epoch[order] = np.cumsum(stops[order])
    return epoch
