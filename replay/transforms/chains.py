"""Which requests may change places, and which go on where another ends."""

import numpy as np

from iotrace.replay.fences import fence_epochs, find_fences
from iotrace.replay.job import DATA_OPS, Fence, Op
from iotrace.replay.pieces import Ints, Rows
from iotrace.replay.plan import Plan


def exchangeable(plan: Plan) -> tuple[Ints, Ints]:
    """Return the requests with bytes, and keys that are equal where nothing must stay between.

    Returns:
        Indices of requests, ascending, and keys: one column per index.
    """
    requests = plan.requests
    index = np.flatnonzero(np.isin(requests["op"], DATA_OPS) & (requests["length"] > 0))
    # At a larger queue depth opens part saving from loading, so that these do not meet.
    _, fence = find_fences(requests, plan.pieces, len(plan.files), queue_depth=2)
    domain = np.where(requests["file"] < 0, -1, requests["file"]).astype(np.int64)
    fence[requests["op"] == Op.CLOSE] = Fence.FILE
    keys = np.stack(
        [
            requests["stream"],
            requests["handle"],
            requests["op"],
            requests["phase"],
            requests["step"],
            _stream_epochs(requests),
            fence_epochs(domain, fence),
        ]
    )[:, index]
    return index, keys


def adjacent(plan: Plan) -> tuple[Ints, Ints]:
    """Return the requests with bytes, chains of adjacent ones together, and their chains."""
    requests = plan.requests
    index, keys = exchangeable(plan)
    order = np.lexsort((index, *keys))
    index, keys = index[order], keys[:, order]
    ends = requests["offset"][index] + requests["length"][index]
    apart = np.any(keys[:, 1:] != keys[:, :-1], axis=0) | (
        requests["offset"][index[1:]] != ends[:-1]
    )
    return index, np.cumsum(np.concatenate([[False], apart])[: len(index)])


def _stream_epochs(requests: Rows) -> Ints:
    """Return how many requests that must not be crossed lie before each in its stream."""
    stops = ~np.isin(requests["op"], (*DATA_OPS, Op.OPEN))
    order = np.argsort(requests["stream"], kind="stable")
    epoch = np.empty(len(requests), np.int64)
    epoch[order] = np.cumsum(stops[order])
    return epoch
