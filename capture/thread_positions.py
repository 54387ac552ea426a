"""Where threads read or wrote at once through one descriptor of their process.

The kernel lets one of them after the other at the position, and tells nobody in which order.
Each is counted on from where the last one ended, in the order in which they came back: together
the places are right, but which request got which is not known.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from iotrace.capture.completeness import Requests, Rows
from iotrace.traces.grouping import number_groups, running_max


def mark_swapped(requests: Requests) -> int:
    """Mark offsets that may be swapped between threads as `inferred`.

    Returns:
        How many of them are among requests of several lengths, so that the extents may be wrong as
        well as who moved them.
    """
    if "offset_source" not in requests.block:  # no process
        return 0
    rows, clusters = overlapping(requests)
    requests.block["offset_source"][rows] = requests.words.offset_source.code("inferred")
    moved = requests.block["result"][rows]
    shortest, longest = extremes(clusters, moved)
    return int(np.count_nonzero(shortest[clusters] != longest[clusters]))


def overlapping(requests: Requests) -> tuple[Rows, Rows]:
    """Return requests at a tracked position that overlap in time with another thread's.

    Returns:
        The rows, and the number of the cluster of each: what no moment separates.
    """
    block = requests.block
    rows = requests.succeeded("read", "write")
    is_tracked = block["offset_source"][rows] == requests.words.offset_source.find("tracked")
    rows = rows[is_tracked & (block["result"][rows] > 0)]
    rows = rows[np.lexsort((block["start_ns"][rows], block["open"][rows], block["process"][rows]))]
    opens = number_groups(block["process"][rows], block["open"][rows])
    latest_ns = running_max(block["end_ns"][rows], opens)
    is_apart = np.ones(len(rows), np.bool_)
    is_apart[1:] = opens[1:] != opens[:-1]
    is_apart[1:] |= block["start_ns"][rows[1:]] > latest_ns[:-1]
    clusters = np.cumsum(is_apart) - 1
    lowest, highest = extremes(clusters, block["thread"][rows])
    is_shared = lowest[clusters] != highest[clusters]
    return rows[is_shared], clusters[is_shared]


def extremes(clusters: Rows, values: Rows) -> tuple[Rows, Rows]:
    """Return the least and the largest value of each cluster."""
    count = int(clusters.max(initial=-1)) + 1
    least = np.full(count, np.iinfo(np.int64).max)
    largest = np.full(count, np.iinfo(np.int64).min)
    np.minimum.at(least, clusters, values)
    np.maximum.at(largest, clusters, values)
    return least, largest


def swapped_places(count: int) -> Iterator[str]:
    """Yield how many requests may have taken each other's places."""
    if count:
        yield (
            f"{count:,} reads or writes of threads at once through one position: "
            "their places may be swapped"
        )
