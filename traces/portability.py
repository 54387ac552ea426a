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
    requests = requests.where(~requests.has_result | (requests.result >= 0))
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
    yield "scattered", _scattered(requests, writes)
    opens = requests.is_op("open") & (requests.flags >= 0)
    yield "folder sync", syncs & requests.is_of_folder
    yield "after sync", writes & _after(requests.home, syncs)
    to_write = opens & (requests.flags & os.O_ACCMODE != os.O_RDONLY)
    again = to_write & _after(requests.home, writes)
    emptied = requests.flags & os.O_TRUNC != 0
    yield "reopened", again & ~emptied
    yield "overwritten", again & emptied


def _scattered(requests: Requests, writes: Mask) -> Mask:
    """Return the writes that do not begin where the one before of their file ended."""
    rows = np.flatnonzero(writes)
    rows = rows[np.lexsort((rows, requests.file[rows]))]
    file, offset = requests.file[rows], requests.offset[rows]
    ends = offset + requests.moved[rows]
    fresh = np.r_[True, np.diff(file) != 0][: len(rows)]
    expected = np.where(fresh, 0, np.r_[0, ends[:-1]][: len(rows)])
    out = np.zeros(len(requests), np.bool_)
    out[rows] = offset != expected
    return out


def _after(file: CodeArray, events: Mask) -> Mask:
    """Return the rows that come after an event of the same file."""
    firsts: dict[int, int] = {}
    for row in np.flatnonzero(events)[::-1].tolist():
        firsts[int(file[row])] = row
    first = np.full(int(file.max(initial=-1)) + 2, len(file))  # code -1, no file, is the last
    for code, row in firsts.items():
        if code >= 0:
            first[code] = row
    return np.asarray(np.arange(len(file)) > first[file])
