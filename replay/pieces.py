"""Pieces: where the bytes of a data request come from, and how they are cut anew.

A request's bytes are its pieces, packed. Laying the pieces of many requests one after the other
gives a single line of bytes; a transform chooses new cuts on that line, and every byte keeps
its source.
"""

from typing import ClassVar

import numpy as np
import numpy.typing as npt

from iotrace.replay.job import PIECE
from iotrace.replay.requests import Requests
from iotrace.replay.table import Table

# `file` of a piece that no recorded file is the source of.
PADDING = -1  # zeros that fill a block up, written or read back
PAST_END = -2  # beyond the end of the file: a read gets nothing here
NEIGHBOUR = -3  # whatever lies beside the wanted bytes; a read drops it
HOLE = -4  # zeros that the recorded job read where nothing lay: never written, cut off, punched
STALE = -5  # the same where bytes lie now that were gone by then; a read does not look at them

Ints = npt.NDArray[np.int64]
Rows = npt.NDArray[np.void]


class Pieces(Table):
    """Parts of requests: which bytes each is; a negative `file` is one of the kinds above."""

    RECORD = PIECE
    DEFAULTS: ClassVar = {"file": PADDING, "offset": 0, "length": 0}


def spread(first: Ints, count: Ints) -> Ints:
    """Return the indices first[0], first[0]+1, ... of `count[0]`, then those of 1, and so on.

    >>> spread(np.array([5, 0]), np.array([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    if np.all(count == 1):
        return first
    starts = np.cumsum(count) - count
    return np.repeat(first - starts, count) + np.arange(int(count.sum()), dtype=np.int64)


def distinct(values: Ints) -> Ints:
    """Return the values in ascending order, each once.

    A stable sort is linear in runs that are sorted already, which positions on a line are; the
    hash table of numpy.unique is many times slower there.

    >>> distinct(np.array([3, 5, 3, 4])).tolist()
    [3, 4, 5]
    """
    values = np.sort(values, kind="stable")
    keep = np.ones(len(values), np.bool_)
    keep[1:] = values[1:] != values[:-1]
    return values[keep]


def all_but(count: int, chosen: Ints) -> Ints:
    """Return the indices below `count` that are not among `chosen`, ascending."""
    rest = np.ones(count, np.bool_)
    rest[chosen] = False
    return np.flatnonzero(rest)


def line_of(requests: Requests, pieces: Pieces, chosen: Ints | None = None) -> Pieces:
    """Return the pieces of the chosen requests (None: all), in that order."""
    first, count = (_column(requests, name, chosen) for name in ("first_piece", "piece_count"))
    return pieces.take(spread(first, count.astype(np.int64)))


def packed(requests: Requests, pieces: Pieces, chosen: Ints | None = None) -> Pieces:
    """Return the pieces of the chosen requests (None: all), in that order, without empty ones."""
    line = line_of(requests, pieces, chosen)
    some = line["length"] > 0
    return line if some.all() else line.compress(some)


def pieces_in_place(
    requests: Requests, pieces: Pieces, chosen: Ints | None = None
) -> tuple[Pieces, Ints, Ints]:
    """Return the pieces of requests, the request each belongs to, and its offset in the file.

    Args:
        requests: what has pieces.
        pieces: what it indexes.
        chosen: which requests; None: all. Owners are places in it.
    """
    line = line_of(requests, pieces, chosen)
    counts, offset = (_column(requests, name, chosen) for name in ("piece_count", "offset"))
    if np.all(counts == 1):
        return line, np.arange(len(counts), dtype=np.int64), offset
    owner = np.repeat(np.arange(len(counts)), counts)
    length = line["length"]
    place = np.cumsum(length) - length
    first = np.cumsum(counts, dtype=np.int64) - counts
    # What lies before a request's first piece on the line is taken off again.
    shift = offset - (place[first.clip(max=len(place) - 1)] if len(place) else 0)
    return line, owner, place + shift[owner]


def _column(requests: Requests, name: str, chosen: Ints | None) -> Ints:
    return requests[name] if chosen is None else requests.at(name, chosen)


def append_pieces(requests: Requests, pieces: Pieces, to: Pieces) -> tuple[Requests, Pieces]:
    """Return requests and the pieces `to` followed by those of the requests, which index them."""
    line = line_of(requests, pieces)
    first = np.cumsum(requests["piece_count"], dtype=np.int64) - requests["piece_count"]
    return requests.having(first_piece=first + len(to)), Pieces.joined(to, line)


def positions(line: Pieces) -> Ints:
    """Return where each piece begins on the line, and the line's end: one more than pieces."""
    return np.concatenate([[0], np.cumsum(line["length"])]).astype(np.int64)


def cut(line: Pieces, bounds: Ints) -> tuple[Pieces, Ints, Ints]:
    """Cut a line of pieces at `bounds`.

    Args:
        line: pieces without empty ones.
        bounds: ascending positions from 0 to the line's end, both included.

    Returns:
        The pieces, and `first_piece` and `piece_count` of each interval of `bounds`.

    >>> line = Pieces.of(2, file=[0, 1], offset=[100, 0], length=[10, 5])
    >>> pieces, first, count = cut(line, np.array([0, 4, 15]))
    >>> [pieces[name].tolist() for name in ("file", "offset", "length")]
    [[0, 0, 1], [100, 104, 0], [4, 6, 5]]
    >>> first.tolist(), count.tolist()
    ([0, 1], [1, 2])
    """
    at = positions(line)
    if np.array_equal(at, bounds):
        return line, np.arange(len(line)), np.ones(len(line), np.int64)
    cuts = distinct(np.concatenate([at, bounds]))
    if len(cuts) == len(at):  # all bounds are between pieces
        places = np.searchsorted(at, bounds)
        return line, places[:-1], np.diff(places)
    source = np.searchsorted(at, cuts[:-1], side="right") - 1
    pieces = parts_of(line, source, cuts[:-1] - at[source], np.diff(cuts))
    places = np.searchsorted(cuts, bounds)
    return pieces, places[:-1], np.diff(places)


def parts_of(line: Pieces, source: Ints, shift: Ints, length: Ints) -> Pieces:
    """Return parts of the pieces `source`: from `shift` bytes into each on, that long."""
    pieces = line.take(source, length=length)
    # What is in no recorded file has no place in it.
    return pieces.having(offset=pieces["offset"] + np.where(pieces["file"] >= 0, shift, 0))


def surround(requests: Requests, pieces: Pieces, before: Pieces, *after: Pieces) -> Pieces:
    """Return the line of `requests` with pieces put before and after each request's own.

    Args:
        requests: whose pieces make the line.
        pieces: what they index.
        before: one piece per request; empty ones are left out.
        after: likewise, each time one piece per request.
    """
    count = requests["piece_count"].astype(np.int64)
    added = 1 + len(after)
    first = np.cumsum(count) - count + added * np.arange(len(requests), dtype=np.int64)
    line = Pieces.placed(
        [before, *after, line_of(requests, pieces)],
        [
            first,
            *(first + 1 + count + place for place in range(len(after))),
            spread(first + 1, count),
        ],
    )
    return line.compress(line["length"] > 0)


def is_payload(kind: npt.NDArray[np.int32]) -> npt.NDArray[np.bool_]:
    """Return which pieces, by their `file`, are bytes that the recorded job moved."""
    return np.asarray((kind >= 0) | (kind == HOLE) | (kind == STALE))


def is_padding(kind: npt.NDArray[np.int32]) -> npt.NDArray[np.bool_]:
    """Return which pieces, by their `file`, are bytes moved besides the recorded ones."""
    return np.asarray((kind == PADDING) | (kind == NEIGHBOUR))
