"""Which requests were under way at the same time."""

from __future__ import annotations

import numpy as np

from iotrace.capture.blocks import Block
from iotrace.capture.requests import Rows
from iotrace.traces.grouping import number_groups, running_max


def clusters_of(block: Block, rows: Rows, *group: str) -> tuple[Rows, Rows]:
    """Return rows in order, and the number of the cluster of each: what no moment separates.

    Args:
        rows: requests that have ended.
        group: columns; rows that differ in one of them are never in one cluster.
    """
    rows = rows[np.lexsort((block["start_ns"][rows], *(block[name][rows] for name in group)))]
    groups = number_groups(*(block[name][rows] for name in group))
    latest_ns = running_max(block["end_ns"][rows], groups)
    is_apart = np.ones(len(rows), np.bool_)
    is_apart[1:] = groups[1:] != groups[:-1]
    is_apart[1:] |= block["start_ns"][rows[1:]] > latest_ns[:-1]
    return rows, np.cumsum(is_apart) - 1


def extremes(clusters: Rows, values: Rows) -> tuple[Rows, Rows]:
    """Return the least and the largest value of each cluster."""
    count = int(clusters.max(initial=-1)) + 1
    least = np.full(count, np.iinfo(np.int64).max)
    largest = np.full(count, np.iinfo(np.int64).min)
    np.minimum.at(least, clusters, values)
    np.maximum.at(largest, clusters, values)
    return least, largest
