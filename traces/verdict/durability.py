"""Whether a save was on storage when it returned, and what a crash in it would leave."""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np

from iotrace.traces.columns import IntArray, Mask
from iotrace.traces.open_flags import has_flag
from iotrace.traces.renames import itself_and_folders
from iotrace.traces.requests import Requests
from iotrace.traces.sync_kind import syncs_file_system
from iotrace.traces.verdict.background import blocking_spans
from iotrace.traces.verdict.episodes import Episode

_CHANGES = ("write", "truncate", "allocate")
_NAMES = 3


@dataclass(frozen=True)
class Durability:
    """How the files that a save wrote were made to last. What failed changed and stored nothing.

    Attributes:
        files: written by it; one that several ranks write is one.
        synced: of these, synced after their last write (or opened with O_SYNC or O_DSYNC).
        early: synced, but written to afterwards: names, the first few.
        in_place: written under the name they keep; the others are renamed, or linked, into place.
        truncated: of these, opened with O_TRUNC.
        renamed: written under another name first.
        file_syncs: syncs of files, or of all.
        folder_syncs: syncs of folders after the last rename.
        late_bytes: written after the saving call had returned; 0 where no call was seen.
        unsynced_bytes: of the files not synced.
    """

    files: int
    synced: int
    early: tuple[str, ...]
    in_place: int
    truncated: int
    renamed: int
    file_syncs: int
    folder_syncs: int
    late_bytes: int
    unsynced_bytes: int

    @property
    def durable(self) -> bool:
        """Whether every byte was on storage when the call returned."""
        return self.files > 0 and self.synced == self.files and not self.late_bytes


def durability(episode: Episode) -> Durability:
    """Return how the files of a save were made to last."""
    requests = episode.requests.where(episode.requests.done)
    changes = requests.is_op(*_CHANGES)
    renames, links = requests.is_op("rename"), requests.is_op("link")
    # By the order of rows, which is that of time, and of issue where no times are known.
    everything = _last(requests.is_op("sync") & syncs_file_system(requests.flags))
    identity = requests.identity
    touched = np.isin(identity, identity[changes & (requests.file >= 0)])
    files, first, owner = np.unique(identity[touched], return_index=True, return_inverse=True)
    own, count = requests.where(touched), len(files)
    writes = own.is_op("write")
    row = np.flatnonzero(touched)
    sync = _last_of_each(row, own.is_op("sync"), owner, count)
    last = _last_of_each(row, own.is_op(*_CHANGES), owner, count)
    unsafe = writes & ~has_flag(own.opened, os.O_SYNC | os.O_DSYNC)
    through = _any_of_each(writes, owner, count) & ~_any_of_each(unsafe, owner, count)
    synced = through | (np.maximum(sync, everything) >= last)
    emptied = (writes & has_flag(own.opened, os.O_TRUNC)) | (
        own.is_op("open") & has_flag(own.flags, os.O_TRUNC)
    )
    names, homes = own.path[first], own.home[first]
    linked = (own.file >= 0) & np.isin(own.file, requests.file[links])
    renamed = _moved(requests, renames)[names] | (
        _any_of_each(linked, owner, count) & (homes != names)
    )
    early = np.flatnonzero(~synced & (sync >= 0))[:_NAMES].tolist()
    return Durability(
        files=count,
        synced=int(synced.sum()),
        early=tuple(own.paths[names[i]] if names[i] >= 0 else "" for i in early),
        in_place=int((~renamed).sum()),
        truncated=int((_any_of_each(emptied, owner, count) & ~renamed).sum()),
        renamed=int(renamed.sum()),
        file_syncs=int((requests.is_op("sync") & ~requests.is_folder_sync).sum()),
        folder_syncs=_folder_syncs(requests, _last(renames | links)),
        late_bytes=_late_bytes(episode),
        unsynced_bytes=int(own.moved[writes & ~synced[owner]].sum()),
    )


def _last_of_each(row: IntArray, mask: Mask, owner: IntArray, count: int) -> IntArray:
    """Return the last row among some of the requests of each file, -1 without any."""
    last = np.full(count, -1, np.int64)
    np.maximum.at(last, owner[mask], row[mask])
    return last


def _any_of_each(mask: Mask, owner: IntArray, count: int) -> Mask:
    """Return which files have any of some requests."""
    return np.asarray(np.bincount(owner[mask], minlength=count) > 0)


def _moved(requests: Requests, renames: Mask) -> Mask:
    """Return, per path and for none at the end, whether it, or a folder above it, was renamed."""
    codes = np.unique(requests.path[renames])
    sources = {requests.paths[code].rstrip("/") for code in codes.tolist() if code >= 0}
    used = np.unique(requests.path[requests.path >= 0]).tolist() if sources else []
    moved = np.zeros(len(requests.paths) + 1, np.bool_)
    moved[used] = [
        any(name in sources for name in itself_and_folders(requests.paths[code])) for code in used
    ]
    return moved


def _last(mask: Mask) -> int:
    return int(np.flatnonzero(mask).max(initial=-1))


def _folder_syncs(requests: Requests, after: int) -> int:
    """Count the syncs of folders behind a row."""
    return int(requests.is_folder_sync[after + 1 :].sum())


def _late_bytes(episode: Episode) -> int:
    """Return what was written after the last call of the save that held its process up."""
    calls = blocking_spans(episode)
    if not calls:
        return 0
    processes = np.array([*calls], np.int64)
    last_ns = np.array([max(span.end_ns for span in own) for own in calls.values()], np.int64)
    requests = episode.requests
    place = np.searchsorted(processes, requests.process).clip(max=len(processes) - 1)
    late = requests.is_op("write") & (processes[place] == requests.process)
    late &= requests.start_ns > last_ns[place]
    return int(requests.moved[late].sum())
