"""Where threads read or wrote at once through one descriptor of their process.

The kernel lets one of them after the other at the position, and tells nobody in which order.
Each is counted on from where the last one ended, in the order in which they came back: together
the places are right, but which request got which is not known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from iotrace.capture.blocks import Block, empty_block, joined
from iotrace.capture.clock import Clock
from iotrace.capture.overlaps import clusters_of, extremes
from iotrace.capture.rawlog import RawLog
from iotrace.capture.requests import Requests, Rows

UNLOCKED_APIS = ("io_uring",)  # the kernel keeps nobody else from the position meanwhile


def seeks_of(logs: Sequence[RawLog], clock: Clock) -> Block:
    """Return when threads moved a position that others use too: process, open, start and end."""
    blocks = []
    for place, log in enumerate(logs):
        slots = log.slots[log.positions[log.rows("seek")]]
        block = {name: clock.times(log, slots[name]) for name in ("start_ns", "end_ns")}
        block["process"] = np.full(len(slots), place, np.int32)
        block["open"] = slots["file"].astype(np.int32)
        blocks.append(block)
    return joined(blocks or [empty_block()])


def mark_swapped(requests: Requests) -> int:
    """Mark offsets that may be swapped between threads as `inferred`.

    Returns:
        How many of them are among requests of several lengths, or may have gone to one place, or
        before or behind a seek, so that the extents may be wrong as well as who moved them.
    """
    if "offset_source" not in requests.block:  # no process
        return 0
    block, sources = requests.block, requests.words.offset_source
    rows, clusters = overlapping(requests)
    around = beside_seeks(requests)
    is_queried = block["offset_source"][rows] == sources.find("queried")
    marked = np.append(rows, around)
    block["offset_source"][marked] = sources.code("inferred")
    shortest, longest = extremes(clusters, block["result"][rows])
    is_unlocked = np.isin(block["api"][rows], requests.codes("api", UNLOCKED_APIS))
    one_place = np.bincount(clusters, is_unlocked | is_queried)
    is_doubtful = (shortest != longest) | (one_place > 0)
    return len(np.union1d(rows[is_doubtful[clusters]], around))


def overlapping(requests: Requests) -> tuple[Rows, Rows]:
    """Return requests at one position that overlap in time with another thread's.

    It is tracked, or was until one of the threads moved it elsewhere: since then each asks for it,
    and may be told what others have moved it to by then.

    Returns:
        The rows, and the number of the cluster of each: what no moment separates.
    """
    block, sources = requests.block, requests.words.offset_source
    rows = requests.succeeded("read", "write")
    is_at_position = block["offset_source"][rows] == sources.find("tracked")
    is_queried = block["offset_source"][rows] == sources.find("queried")
    is_at_position |= is_queried & is_of_seeked(requests, rows)
    rows = rows[is_at_position & (block["result"][rows] > 0)]
    rows, clusters = clusters_of(block, rows, "process", "open")
    lowest, highest = extremes(clusters, block["thread"][rows])
    is_shared = lowest[clusters] != highest[clusters]
    return rows[is_shared], clusters[is_shared]


def is_of_seeked(requests: Requests, rows: Rows) -> npt.NDArray[np.bool_]:
    """Return whether each row is of an open file whose position threads moved elsewhere."""
    keys = open_keys(requests.block, rows), open_keys(requests.seeks, slice(None))
    return np.isin(*keys)


def open_keys(block: Block, rows: Rows | slice) -> Rows:
    """Return a number for the open file of each row, of one process, that no other has."""
    keys: Rows = (block["process"][rows].astype(np.int64) << 32) + block["open"][rows]
    return keys


def beside_seeks(requests: Requests) -> Rows:
    """Return requests at a position that another thread moved elsewhere meanwhile."""
    block, sources = requests.block, requests.words.offset_source
    rows = requests.succeeded("read", "write")
    at_position = [sources.find(source) for source in ("tracked", "queried")]
    rows = rows[np.isin(block["offset_source"][rows], at_position)]
    names = ("process", "open", "start_ns", "end_ns")
    both = {name: np.append(block[name][rows], requests.seeks[name]) for name in names}
    places, clusters = clusters_of(both, np.arange(len(both["open"])), "process", "open")
    is_seek = places >= len(rows)
    has_seek = np.bincount(clusters, is_seek)[clusters] > 0
    return rows[places[has_seek & ~is_seek]]


def swapped_places(count: int) -> Iterator[str]:
    """Yield how many requests may have taken each other's places."""
    if count:
        yield (
            f"{count:,} reads or writes of threads at once through one position: "
            "their places may be swapped"
        )
