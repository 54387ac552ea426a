"""What a foreign record may hide: bytes that a job moved through mapped memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from iotrace.traces.columns import IntArray, Mask
from iotrace.traces.intervals import Intervals
from iotrace.traces.requests import Requests
from iotrace.traces.trace import Trace
from iotrace.traces.words import plural, sized

_PROT_WRITE = 2


def with_mapped_noted(trace: Trace) -> Trace:
    """Return a trace made of another tool's log, with what it maps and does not show noted.

    Leave out first what is out of scope: every program maps its libraries.
    """
    notes = tuple(mapped_unseen(trace)) if trace.row_mask(op="map").any() else ()
    whole = trace.metadata.completeness
    completeness = replace(whole, notes=(*whole.notes, *notes))
    return trace.with_metadata(replace(trace.metadata, completeness=completeness))


def mapped_unseen(trace: Trace) -> Iterator[str]:
    """Yield how many bytes were mapped for reading, and for writing, without a page fault shown.

    A capture says the same in the same words (`iotrace.capture.mapped`).
    """
    requests = Requests.of(trace)
    maps = requests.is_op("map") & (requests.result >= 0)
    users = (requests.process << 32) + requests.file
    # One that may be written and is of a file opened for reading is private: it changes no file.
    writes = maps & (requests.flags >= 0) & (requests.flags & _PROT_WRITE != 0)
    writes &= _opened_for_writing(requests, users)
    reads = maps & ~writes & ~np.isin(users, users[requests.is_op("fault")])
    for rows, verb, unseen in (
        (np.flatnonzero(reads), "reading", "what was read of them from memory"),
        (np.flatnonzero(writes), "writing", "which of them were used"),
    ):
        touched, files = _extent(requests, rows)
        if touched:
            yield (
                f"{sized(touched)} of {plural(files, 'file')} were mapped into memory for "
                f"{verb}; {unseen} was not seen"
            )


def _opened_for_writing(requests: Requests, users: IntArray) -> Mask:
    """Return whether the last open of each row's file by its process was one for writing."""
    opens = np.flatnonzero(requests.is_op("open") & (requests.flags >= 0) & (requests.result >= 0))
    user = np.unique(users, return_inverse=True)[1]
    place = user * len(users) + np.arange(len(users))
    opened = np.sort(place[opens])
    last = opened[np.searchsorted(opened, place, side="right") - 1] if len(opens) else place - 1
    is_known = (last <= place) & (last // max(len(users), 1) == user)
    flags = requests.flags[last % max(len(users), 1)]
    return np.asarray(is_known & ((flags & os.O_ACCMODE) != os.O_RDONLY))


def _extent(requests: Requests, rows: IntArray) -> tuple[int, int]:
    """Return how many different bytes of how many files some rows lie on."""
    starts, files = requests.offset[rows], requests.identity[rows]
    ends = starts + requests.length[rows]
    each = [Intervals.of(starts[files == f], ends[files == f]) for f in np.unique(files).tolist()]
    return sum(one.total for one in each), len(each)
