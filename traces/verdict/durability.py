"""Whether a save was on storage when it returned, and what a crash in it would leave."""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np

from iotrace.traces.open_flags import has_flag
from iotrace.traces.requests import Requests
from iotrace.traces.verdict.episodes import Episode

# `flags` of a sync: fsync, fdatasync and msync are of one file, syncfs and sync of all.
_OF_ONE_FILE = (0, 1, 2, 3)


@dataclass(frozen=True)
class Durability:
    """How the files that a save wrote were made to last.

    Attributes:
        files: written by it.
        synced: of these, synced after their last write (or opened with O_SYNC or O_DSYNC).
        early: synced, but written to afterwards: names, the first few.
        in_place: written under the name they keep; the others are renamed, or linked, into place.
        truncated: of these, opened with O_TRUNC.
        renamed: written under another name first.
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
    folder_syncs: int
    late_bytes: int
    unsynced_bytes: int

    @property
    def durable(self) -> bool:
        """Whether every byte was on storage when the call returned."""
        return self.files > 0 and self.synced == self.files and not self.late_bytes


def durability(episode: Episode) -> Durability:
    """Return how the files of a save were made to last."""
    requests = episode.requests
    writes = requests.is_op("write", "truncate", "allocate") & (requests.file >= 0)
    written = np.unique(requests.file[writes]).tolist()
    everything_ns = _last(requests, requests.is_op("sync") & ~np.isin(requests.flags, _OF_ONE_FILE))
    renames = requests.is_op("rename") & (requests.result >= 0)
    links = requests.is_op("link") & (requests.result >= 0)
    linked = set(requests.file[links].tolist())
    sources = {requests.paths[code] for code in requests.path[renames].tolist() if code >= 0}
    folders = [source.rstrip("/") + "/" for source in sources]
    synced, unsynced_bytes, truncated, renamed = 0, 0, 0, 0
    early: list[str] = []
    for file in written:
        own = requests.where(requests.file == file)
        last_ns = _last(own, own.is_op("write", "truncate", "allocate"))
        sync_ns = _last(own, own.is_op("sync"))
        opened = own.opened[own.is_op("write")]
        through = bool(len(opened) and has_flag(opened, os.O_SYNC | os.O_DSYNC).all())
        first = int(own.path[0])
        path = own.paths[first] if first >= 0 else ""
        if through or max(sync_ns, everything_ns) >= last_ns:
            synced += 1
        else:
            unsynced_bytes += int(own.moved[own.is_op("write")].sum())
            early += [path] if sync_ns >= 0 else []
        moved = path in sources or any(path.startswith(folder) for folder in folders)
        if moved or (file in linked and own.path_of(0) != path):
            renamed += 1
        elif has_flag(np.r_[opened, own.flags[own.is_op("open")]], os.O_TRUNC).any():
            truncated += 1
    return Durability(
        files=len(written),
        synced=synced,
        early=tuple(early),
        in_place=len(written) - renamed,
        truncated=truncated,
        renamed=renamed,
        folder_syncs=_folder_syncs(requests, _last(requests, renames | links)),
        late_bytes=_late_bytes(episode),
        unsynced_bytes=unsynced_bytes,
    )


def _last(requests: Requests, mask: np.ndarray) -> int:
    return int(requests.start_ns[mask].max(initial=-1))


def _folder_syncs(requests: Requests, after_ns: int) -> int:
    """Count the syncs of files that were opened as folders."""
    syncs = requests.is_op("sync") & requests.is_of_folder
    return int((syncs & (requests.start_ns >= after_ns)).sum())


def _late_bytes(episode: Episode) -> int:
    """Return what was written after the process's last call of the save had ended."""
    requests = episode.requests
    late = 0
    ends: dict[int, int] = {}
    for span in episode.spans:
        if span.op in ("save", "stage", "wait", "commit"):
            ends[span.process] = max(ends.get(span.process, 0), span.end_ns)
    for process, end_ns in ends.items():
        rows = requests.is_op("write") & (requests.process == process)
        late += int(requests.moved[rows & (requests.start_ns > end_ns)].sum())
    return late
