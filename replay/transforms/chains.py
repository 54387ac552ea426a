"""Which requests may change places, and which go on where another ends."""

import numpy as np

from iotrace.replay.barriers import places_of
from iotrace.replay.fences import fence_epochs, find_fences
from iotrace.replay.grouping import grouped, numbered
from iotrace.replay.job import DATA_OPS, Fence, Op, is_op
from iotrace.replay.pieces import Ints
from iotrace.replay.plan import Plan
from iotrace.replay.requests import Requests


def exchangeable(plan: Plan) -> tuple[Ints, Ints]:
    """Return the requests with bytes, and a key that is equal where nothing must stay between.

    Returns:
        Indices of requests, ascending, and keys, as many.
    """
    requests = plan.requests
    index = np.flatnonzero(is_op(requests["op"], DATA_OPS) & (requests["length"] > 0))
    # At a larger queue depth opens part saving from loading, so that these do not meet.
    _, fence = find_fences(requests, plan.pieces, len(plan.files), queue_depth=2)
    domain = np.where(requests["file"] < 0, -1, requests["file"]).astype(np.int64)
    fence[requests["op"] == Op.CLOSE] = Fence.FILE
    fence[places_of(plan.barriers_ns, requests)] = Fence.ALL
    columns = (requests.at(name, index) for name in ("stream", "handle", "op", "phase", "step"))
    epochs = (_stream_epochs(requests)[index], fence_epochs(domain, fence)[index])
    return index, numbered(*columns, *epochs)


def adjacent(plan: Plan) -> tuple[Ints, Ints]:
    """Return the requests with bytes, chains of adjacent ones together, and their chains."""
    requests = plan.requests
    index, key = exchangeable(plan)
    order = grouped(key)  # equal ones stay in order of time
    index, key = index[order], key[order]
    offset = requests.at("offset", index)
    ends = offset + requests.at("length", index)
    apart = (key[1:] != key[:-1]) | (offset[1:] != ends[:-1])
    return index, np.cumsum(np.concatenate([[False], apart])[: len(index)])


def _stream_epochs(requests: Requests) -> Ints:
    """Return how many requests that must not be crossed lie before each in its stream."""
    stops = ~is_op(requests["op"], (*DATA_OPS, Op.OPEN))
    order = grouped(requests["stream"])
    epoch = np.empty(len(requests), np.int64)
    epoch[order] = np.cumsum(stops[order])
    return epoch
