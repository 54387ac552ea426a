"""What moved through memory, as far as page faults and the page cache tell."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

import numpy as np

from iotrace.capture.blocks import Block
from iotrace.capture.completeness import writable_maps
from iotrace.capture.extents import Extents
from iotrace.capture.faults import Faults
from iotrace.capture.requests import Requests, Rows, by_file
from iotrace.traces.words import plural, sized

# A counter of the preload library, see csrc/maps.c.
MAPPED_CACHED = "mapped_cached_bytes"
CACHED_BYTES_TOLERATED = 1 << 20
CACHED_SHARE_TOLERATED = 0.02  # one of the 64 places it looks at, in a large mapping


def mapped_bytes(requests: Requests, faults: Faults) -> Iterator[str]:
    """Yield what may have moved through memory, where no request shows it.

    Reads show as page faults, if these could be seen and the pages were not in memory already;
    writes do not. Read-ahead brings pages without a fault of their own.
    """
    if faults.lost:
        yield (
            f"{plural(faults.lost, 'page fault')} not kept: they came too fast, or the disk of the "
            "raw logs was full"
        )
    block = requests.block
    for_writing = writable_maps(requests)
    for_reading = np.setdiff1d(requests.succeeded("map"), for_writing)
    unused = "which of them were used was not seen"
    faulted, faulted_bytes = for_reading[:0], 0
    if faults.refused:
        told = f"{unused} (page faults: {faults.refused})"
    else:
        every, for_reading = for_reading, without_faults(requests, for_reading)
        faulted = np.setdiff1d(every, for_reading)
        yield from partly_cached(requests, faulted)
        pages = requests.rows("fault")
        pages = pages[np.isin(block["file"][pages], block["file"][faulted])]
        faulted_bytes = covered_bytes(block, pages)
        told = "what was read of them from memory was not seen"
    for rows, verb, unseen, seen_bytes in (
        (for_reading, "reading", told, 0),
        (faulted, "reading", "what read-ahead brought of them was not seen", faulted_bytes),
        (for_writing, "writing", unused, 0),
    ):
        touched = covered_bytes(block, rows)
        if touched - seen_bytes > touched * CACHED_SHARE_TOLERATED:
            count = len(np.unique(block["file"][rows]))
            yield (
                f"{sized(touched)} of {plural(count, 'file')} were mapped into memory for {verb}; "
                f"{unseen}"
            )


def covered_bytes(block: Block, rows: Rows) -> int:
    """Return how many different bytes of files some rows lie on."""
    covered = 0
    for _, own in by_file(block["file"][rows], rows):
        starts = block["offset"][own].clip(min=0)
        extents = Extents.union(starts, starts + block["length"][own].clip(min=0))
        covered += int((extents.ends - extents.starts).sum())
    return covered


def partly_cached(requests: Requests, maps: Rows) -> Iterator[str]:
    """Yield how much of the mapped files was in memory before, so that it made no fault.

    Counts where a file was mapped for the first time: what a second mapping finds is the job's own
    doing. What read-ahead brings around the header of a file is no news.

    Args:
        maps: mappings for reading of files that had faults.
    """
    block = requests.block
    rows = np.flatnonzero(
        (block["layer"] == requests.words.layer.find("counter"))
        & (block["name"] == requests.words.name.find(MAPPED_CACHED))
        & np.isin(block["file"], block["file"][maps])
    )
    cached, mapped, files = 0, 0, 0
    for _, own in by_file(block["file"][rows], rows):
        own = first_looks(block, own[np.argsort(block["start_ns"][own], kind="stable")])
        found, length = int(block["result"][own].sum()), int(block["length"][own].sum())
        if found > max(CACHED_BYTES_TOLERATED, int(length * CACHED_SHARE_TOLERATED)):
            cached, mapped, files = cached + found, mapped + length, files + 1
    if files:
        yield (
            f"about {sized(cached)} of {sized(mapped)} of {plural(files, 'file')} were in memory "
            "already when they were mapped into it for reading: such a load is partly warm"
        )


def first_looks(block: Block, rows: Rows) -> Rows:
    """Return those of the rows on one file whose extent meets none of an earlier row."""
    starts: list[int] = []
    ends: list[int] = []
    first = []
    for row in rows.tolist():
        start = int(block["offset"][row])
        end = start + int(block["length"][row])
        place = bisect_left(ends, start + 1)
        if place == len(starts) or starts[place] >= end:
            starts.insert(place, start)
            ends.insert(place, end)
            first.append(row)
    return np.array(first, np.int64)


def without_faults(requests: Requests, maps: Rows) -> Rows:
    """Return the mappings of files on which their process had no page fault."""
    block = requests.block
    faults = requests.rows("fault")

    def users(rows: Rows) -> Rows:
        return (block["process"][rows].astype(np.int64) << 32) + block["file"][rows]

    return maps[~np.isin(users(maps), users(faults))]
