"""What transforms share: new requests from new cuts, put back among the others."""

import numpy as np

from iotrace.replay.pieces import Ints, Rows, cut


def recut(
    requests: Rows, line: Rows, bounds: Ints, parent: Ints, offset: Ints
) -> tuple[Rows, Rows]:
    """Return one request per interval of `bounds`, and their pieces.

    Args:
        requests: what `parent` indexes.
        line: pieces laid out one after the other.
        bounds: positions on the line, from 0 to its end.
        parent: per interval, the request it takes everything but place and bytes from.
        offset: per interval, where it lies in its file.
    """
    pieces, first, count = cut(line, bounds)
    rows = requests[parent]
    rows["offset"], rows["length"] = offset, np.diff(bounds)
    rows["first_piece"], rows["piece_count"] = first, count
    return rows, pieces


def merge(*parts: tuple[Rows, Ints, int]) -> Rows:
    """Return all rows in order of time.

    Args:
        parts: rows, the index in the old plan that each stands at, and the rank of the part
            among rows at one index; rows of equal index and rank keep their order.
    """
    rows = np.concatenate([part[0] for part in parts])
    when = np.concatenate([part[1] for part in parts])
    rank = np.concatenate([np.full(len(part[0]), part[2]) for part in parts])
    return rows[np.lexsort((rank, when))]
