"""Pieces: where the bytes of a data request come from, and how they are cut anew.

A request's bytes are its pieces, packed. Laying the pieces of many requests one after the other
gives a single line of bytes; a transform chooses new cuts on that line, and every byte keeps
its source.

Records are chosen by `take` and `compress`: numpy copies them whole there, and field by field where
they are indexed, which takes ten times as long.
"""

import numpy as np
import numpy.typing as npt

from iotrace.replay.job import PIECE

# `file` of a piece that no recorded file is the source of.
PADDING = -1  # zeros that fill a block up, written or read back
PAST_END = -2  # beyond the end of the file: a read gets nothing here
NEIGHBOUR = -3  # whatever lies beside the wanted bytes; a read drops it
HOLE = -4  # zeros that the recorded job read where nothing lay: never written, cut off, punched
STALE = -5  # the same where bytes lie now that were gone by then; a read does not look at them

Ints = npt.NDArray[np.int64]
Rows = npt.NDArray[np.void]


def spread(first: Ints, count: Ints) -> Ints:
    """Return the indices first[0], first[0]+1, ... of `count[0]`, then those of 1, and so on.

    >>> spread(np.array([5, 0]), np.array([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
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


def packed(requests: Rows, pieces: Rows, chosen: Ints | None = None) -> Rows:
    """Return the pieces of the chosen requests (None: all), in that order, without empty ones."""
    counts = _column(requests, "piece_count", chosen).astype(np.int64)
    line = pieces.take(spread(_column(requests, "first_piece", chosen), counts))
    some = line["length"] > 0
    return line if some.all() else line.compress(some)


def pieces_in_place(
    requests: Rows, pieces: Rows, chosen: Ints | None = None
) -> tuple[Rows, Ints, Ints]:
    """Return the pieces of requests, the request each belongs to, and its offset in the file.

    Args:
        requests: what has pieces.
        pieces: what it indexes.
        chosen: which requests; None: all. Owners are places in it.
    """
    counts = _column(requests, "piece_count", chosen).astype(np.int64)
    line = pieces.take(spread(_column(requests, "first_piece", chosen), counts))
    owner = np.repeat(np.arange(len(counts), dtype=np.int64), counts)
    place = np.cumsum(line["length"]) - line["length"]
    first = np.cumsum(counts) - counts
    # What lies before a request's first piece on the line is taken off again.
    shift = _column(requests, "offset", chosen)
    shift = shift - (place[first.clip(max=len(place) - 1)] if len(place) else 0)
    place += shift[owner]
    return line, owner, place


def _column(rows: Rows, name: str, chosen: Ints | None) -> Ints:
    column: Ints = rows[name]
    return column if chosen is None else column.take(chosen)


def make_pieces(file: npt.ArrayLike, offset: npt.ArrayLike, length: npt.ArrayLike) -> Rows:
    """Return PIECE rows of the given columns, which broadcast."""
    columns = np.broadcast_arrays(file, offset, length)
    rows = np.zeros(columns[0].shape, PIECE)
    rows["file"], rows["offset"], rows["length"] = columns
    return rows


def append_pieces(requests: Rows, pieces: Rows, to: Rows) -> tuple[Rows, Rows]:
    """Return requests and the pieces `to` followed by those of the requests, which index them."""
    counts = requests["piece_count"].astype(np.int64)
    own = pieces.take(spread(requests["first_piece"], counts))
    requests = requests.copy()
    requests["first_piece"] = np.cumsum(counts) - counts + len(to)
    return requests, np.concatenate([to, own]) if len(own) else to


def positions(line: Rows) -> Ints:
    """Return where each piece begins on the line, and the line's end: one more than pieces."""
    return np.concatenate([[0], np.cumsum(line["length"])]).astype(np.int64)


def cut(line: Rows, bounds: Ints) -> tuple[Rows, Ints, Ints]:
    """Cut a line of pieces at `bounds`.

    Args:
        line: pieces without empty ones.
        bounds: ascending positions from 0 to the line's end, both included.

    Returns:
        The pieces, and `first_piece` and `piece_count` of each interval of `bounds`.

    >>> line = make_pieces([0, 1], [100, 0], [10, 5])
    >>> pieces, first, count = cut(line, np.array([0, 4, 15]))
    >>> pieces[["file", "offset", "length"]].tolist()
    [(0, 100, 4), (0, 104, 6), (1, 0, 5)]
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
    pieces = line.take(source)
    recorded = pieces["file"] >= 0
    pieces["offset"] += np.where(recorded, cuts[:-1] - at[source], 0)
    pieces["length"] = np.diff(cuts)
    places = np.searchsorted(cuts, bounds)
    return pieces, places[:-1], np.diff(places)


def surround(requests: Rows, pieces: Rows, before: Rows, *after: Rows) -> Rows:
    """Return the line of `requests` with pieces put before and after each request's own.

    Args:
        requests: rows whose pieces make the line.
        pieces: what they index.
        before: one piece per request; empty ones are left out.
        after: likewise, each time one piece per request.
    """
    count = requests["piece_count"].astype(np.int64)
    own = pieces.take(spread(requests["first_piece"], count))
    added = 1 + len(after)
    first = np.cumsum(count) - count + added * np.arange(len(requests), dtype=np.int64)
    line = np.empty(len(own) + added * len(requests), PIECE)
    line.put(first, before)
    for place, piece in enumerate(after):
        line.put(first + 1 + count + place, piece)
    line.put(spread(first + 1, count), own)
    return line.compress(line["length"] > 0)


def is_payload(kind: npt.NDArray[np.int32]) -> npt.NDArray[np.bool_]:
    """Return which pieces, by their `file`, are bytes that the recorded job moved."""
    return np.asarray((kind >= 0) | (kind == HOLE) | (kind == STALE))


def is_padding(kind: npt.NDArray[np.int32]) -> npt.NDArray[np.bool_]:
    """Return which pieces, by their `file`, are bytes moved besides the recorded ones."""
    return np.asarray((kind == PADDING) | (kind == NEIGHBOUR))


def request_index(requests: Rows) -> Ints:
    """Return, for the pieces in the order of `packed` with empty ones kept, their request."""
    return np.repeat(np.arange(len(requests), dtype=np.int64), requests["piece_count"])
