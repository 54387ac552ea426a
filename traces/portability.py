"""What a job asks of its file system, and which of that some file systems do not do.

What each does is as its own documentation says: of Mountpoint for Amazon S3 (doc/SEMANTICS.md), of
Cloud Storage FUSE 3 (docs/semantics.md), of the NFS gateway of HDFS (its user guide).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np

from iotrace.traces.columns import CodeArray, Mask
from iotrace.traces.requests import Requests
from iotrace.traces.trace import Trace

_WAYS = {
    "rename": "rename",
    "link": "hard or symbolic links",
    "truncate": "truncate to a size",
    "allocate": "fallocate",
    "scattered": "writes out of order",
    "reopened": "writes into a file that was there",
    "after sync": "writes after fsync",
    "folder sync": "fsync of a folder",
    "overwritten": "overwriting a file",
    "unlink": "unlink",
}


@dataclass(frozen=True)
class FileSystem:
    """What one does not do, and what it does at a price or with an option; keys of the needs."""

    refuses: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)


FILE_SYSTEMS: Mapping[str, FileSystem] = MappingProxyType(
    {
        "mountpoint-s3": FileSystem(
            refuses=(
                "rename", "link", "truncate", "allocate", "scattered", "reopened", "after sync",
                "folder sync",
            ),
            options={"overwritten": "--allow-overwrite", "unlink": "--allow-delete"},
        ),
        "gcsfuse": FileSystem(
            refuses=("link",),
            options=dict.fromkeys(
                ("truncate", "scattered", "reopened"), "the file is staged on local disk first"
            ),
        ),
        "hdfs": FileSystem(refuses=("scattered", "link")),
        "nfs": FileSystem(),
    }
)  # fmt: skip


@dataclass(frozen=True)
class Need:
    """Something that a job asks of its file system: how often, and of which file first."""

    what: str
    count: int
    path: str | None


@dataclass(frozen=True)
class Fit:
    """How a file system suits a job: needs that it refuses, and those with a price or option."""

    name: str
    refused: tuple[Need, ...]
    conditional: tuple[tuple[Need, str], ...]


def fit(trace: Trace, name: str) -> Fit:
    """Return how the file system `name`, of `FILE_SYSTEMS`, suits what a trace did.

    Only what worked counts: an answer such as `not supported` was dealt with by the job.
    """
    target = FILE_SYSTEMS[name]
    found = needs(trace)
    return Fit(
        name,
        tuple(_named(found[key]) for key in target.refuses if key in found),
        tuple((_named(found[key]), how) for key, how in target.options.items() if key in found),
    )


def _named(need: Need) -> Need:
    return Need(_WAYS[need.what], need.count, need.path)


def needs(trace: Trace) -> dict[str, Need]:
    """Return what a trace asks of its file system beyond writing new files from end to end."""
    requests = Requests.of(trace)
    requests = requests.where(requests.done)
    return {
        what: Need(what, int(mask.sum()), _lasting_path(requests, int(mask.argmax())))
        for what, mask in _masks(requests)
        if mask.any()
    }


def _lasting_path(requests: Requests, row: int) -> str | None:
    """Return the file of a request; of a rename, what it is called afterwards."""
    target = int(requests.target[row])
    return requests.targets[target] if target >= 0 else requests.path_of(row)


def _masks(requests: Requests) -> Iterator[tuple[str, Mask]]:
    for op in ("rename", "link", "allocate", "unlink", "truncate"):
        yield op, requests.is_op(op)
    writes = requests.is_op("write")
    syncs = requests.is_op("sync")
    opens = requests.is_op("open") & (requests.flags >= 0)
    to_write = opens & (requests.flags & os.O_ACCMODE != os.O_RDONLY)
    cut = to_write & (requests.flags & os.O_TRUNC != 0)
    made = to_write & (requests.flags & os.O_EXCL != 0)  # whatever one of its name was before
    yield "scattered", _scattered(requests, writes & requests.has_offset, cut | made)
    yield "folder sync", requests.is_folder_sync
    yield "after sync", writes & _after(requests.home, syncs, since=to_write)
    again = to_write & ~made & _after(requests.home, writes)
    yield "reopened", again & ~cut
    yield "overwritten", again & cut


def _scattered(requests: Requests, writes: Mask, empty: Mask) -> Mask:
    """Return the writes that do not begin where the one before of their file ended.

    After an open that finds the file `empty` that is its beginning again.
    """
    rows = np.flatnonzero((writes | empty) & (requests.file >= 0))
    rows = rows[np.lexsort((rows, requests.file[rows]))]
    file, offset = requests.file[rows], requests.offset[rows]
    ends = np.where(writes[rows], offset + requests.moved[rows], 0)
    fresh = np.r_[True, np.diff(file) != 0][: len(rows)]
    expected = np.where(fresh, 0, np.r_[0, ends[:-1]][: len(rows)])
    out = np.zeros(len(requests), np.bool_)
    out[rows] = writes[rows] & (offset != expected)
    return out


def _after(file: CodeArray, events: Mask, since: Mask | None = None) -> Mask:
    """Return the rows that come after an event of the same file, later than the last `since`."""
    rows = np.flatnonzero(file >= 0)
    order = rows[np.lexsort((rows, file[rows]))]
    places = np.arange(len(order))
    begins = np.r_[True, np.diff(file[order]) != 0][: len(order)]
    if since is not None:
        begins = begins | since[order]
    begin = np.maximum.accumulate(np.where(begins, places, 0))
    last = np.maximum.accumulate(np.where(events[order], places, -1))
    out = np.zeros(len(file), np.bool_)
    out[order] = np.r_[-1, last[:-1]][: len(order)] >= begin
    return out
