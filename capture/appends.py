"""Where writes went that append without a position: to the end that their file had then.

What is known of each is the size of the file when it was seen to have ended. Of several at once to
one file all others may be in that size: together they fill what lies before it, one behind the
other, and in which order the kernel took them is not known, unless they are links of one chain.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from iotrace.capture.overlaps import clusters_of, extremes
from iotrace.capture.requests import Requests, Rows
from iotrace.traces.words import plural

APPENDED = ("end", "linked end")  # the second: it ran after the append before it in the log


def place_appends(requests: Requests) -> int:
    """Put writes at once to the end of a file one behind the other, and mark them `inferred`.

    Links of one chain run in turn: nothing about them is inferred.

    Returns:
        How many may lie elsewhere: their lengths differ, or others wrote to the file meanwhile.
    """
    block, sources = requests.block, requests.words.offset_source
    if "offset_source" not in block:  # no process
        return 0
    known = [code for code in requests.codes("offset_source", APPENDED) if code >= 0]
    is_linked = block["offset_source"] == sources.find("linked end")
    is_end = np.isin(block["offset_source"], known)
    if not is_end.any():
        return 0
    block["offset_source"][is_end] = sources.code("queried")
    writes = requests.succeeded("write")
    writes = writes[requests.moved_bytes(writes) > 0]
    appends = writes[is_end[writes]]
    rows, clusters = clusters_of(
        block, writes[np.isin(block["file"][writes], block["file"][appends])], "file"
    )
    is_append = is_end[rows]
    members, own = np.bincount(clusters), np.bincount(clusters, is_append)
    is_several = (members > 1)[clusters] & is_append
    rows, clusters = rows[is_several], clusters[is_several]
    moved = block["result"][rows]
    ends = block["offset"][rows] + moved
    order = np.lexsort((block["start_ns"][rows], ends, clusters))
    rows, clusters, moved, ends = rows[order], clusters[order], moved[order], ends[order]
    _, last_end = extremes(clusters, ends)
    behind: Rows = np.cumsum(moved[::-1])[::-1]  # bytes from each to the last of all clusters
    after = np.zeros(len(members), np.int64)
    np.maximum.at(after, clusters[:-1], np.where(np.diff(clusters) > 0, behind[1:], 0))
    offsets = last_end[clusters] - (behind - after[clusters])
    least, _ = extremes(clusters, offsets)
    late = np.bincount(clusters, offsets + moved > ends, len(least))
    fits = ((least >= 0) & (late == 0))[clusters]  # or the file was cut, or grew by others
    block["offset"][rows[fits]] = offsets[fits]
    is_first = np.diff(clusters, prepend=-1) > 0
    strays = np.bincount(clusters, is_first == is_linked[rows], len(members))
    is_in_turn = fits & ((members == own) & (strays == 0))[clusters]
    block["offset_source"][rows[~is_in_turn]] = sources.code("inferred")
    shortest, longest = extremes(clusters, moved)
    is_equal = (shortest == longest)[clusters] & (members == own)[clusters]
    is_certain = is_in_turn | (fits & is_equal)
    return int(np.count_nonzero(~is_certain))


def swapped_appends(count: int) -> Iterator[str]:
    """Yield how many writes may have taken each other's places."""
    if count:
        yield (
            f"{plural(count, 'write')} to the end of a file while others went there: "
            "their places may be swapped"
        )
