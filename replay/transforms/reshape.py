"""What transforms share: new requests from new cuts, put back among the others."""

import numpy as np
import numpy.typing as npt

from iotrace.replay.grouping import grouped
from iotrace.replay.pieces import Ints, Pieces, cut
from iotrace.replay.requests import Requests


def recut(
    requests: Requests, line: Pieces, bounds: Ints, parent: Ints, offset: Ints
) -> tuple[Requests, Pieces]:
    """Return one request per interval of `bounds`, and their pieces.

    Args:
        requests: what `parent` indexes.
        line: pieces laid out one after the other.
        bounds: positions on the line, from 0 to its end.
        parent: per interval, the request it takes everything but place and bytes from.
        offset: per interval, where it lies in its file.
    """
    pieces, first, count = cut(line, bounds)
    rows = requests.take(
        parent, offset=offset, length=np.diff(bounds), first_piece=first, piece_count=count
    )
    return rows, pieces


def merge(*parts: tuple[Requests, Ints, int]) -> Requests:
    """Return all rows in order of time.

    Args:
        parts: rows, the index in the old plan that each stands at, and the rank of the part
            among rows at one index; rows of equal index and rank keep their order.
    """
    least = min(part[2] for part in parts)
    span = max(part[2] for part in parts) - least + 1
    keys = [part[1] * span + (part[2] - least) for part in parts]
    order = np.argsort(np.concatenate(keys), kind="stable")
    del keys
    return _placed([part[0] for part in parts], order)


def in_order(*parts: tuple[Requests, Ints]) -> tuple[Requests, Ints]:
    """Return all rows in order of time, and the index in the old plan that each stands at."""
    parts = tuple(part for part in parts if len(part[1])) or parts[:1]
    when = np.concatenate([part[1] for part in parts])
    if len(parts) == 1 and np.all(when[1:] >= when[:-1]):
        return parts[0][0], when
    order = np.argsort(when, kind="stable")
    return _placed([part[0] for part in parts], order), when[order]


def _placed(parts: list[Requests], order: Ints) -> Requests:
    """Return the rows of all parts, one after the other, in `order`."""
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    ends = np.cumsum([len(part) for part in parts])
    return Requests.placed(parts, np.split(place, ends[:-1]))


def carried_think(requests: Requests, dropped: npt.NDArray[np.bool_]) -> Ints:
    """Return, per request, the pauses of the dropped ones right before it in its stream, in ns."""
    carried = np.zeros(len(requests), np.int64)
    if not np.any(requests["think_ns"][dropped]):
        return carried
    order = grouped(requests["stream"])
    at = np.flatnonzero(dropped[order])
    stream = requests.at("stream", order[at])
    begins = np.ones(len(at), np.bool_)  # runs of dropped ones, each before one that is kept
    begins[1:] = (at[1:] != at[:-1] + 1) | (stream[1:] != stream[:-1])
    lost = np.add.reduceat(requests.at("think_ns", order[at]), np.flatnonzero(begins))
    behind = at[np.append(begins[1:], True)] + 1
    following = order[behind.clip(max=len(order) - 1)]
    same = (behind < len(order)) & (requests.at("stream", following) == stream[begins])
    carried[following[same]] = lost[same]
    return carried
