"""Files of one name that are not one: each on storage that its host alone has."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from iotrace.traces.columns import IntArray
from iotrace.traces.metadata import Metadata, Mount
from iotrace.traces.trace import Trace

# No two hosts see the same files on these.
_OF_ONE_HOST: Final = frozenset(
    (
        *("ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "bcachefs", "jfs", "reiserfs"),
        *("tmpfs", "ramfs", "hugetlbfs", "overlay", "vfat", "exfat", "ntfs"),
    )
)


def owners(trace: Trace) -> IntArray | None:
    """Return which host has the file of each row to itself, -1 for none; None: of no row.

    Only where hosts have files of one name there: else their names tell them apart.
    """
    metadata = trace.metadata
    mounts = [
        [mount for mount in metadata.mounts if mount.host == host]
        for host in range(len(metadata.hosts))
    ]
    if sum(any(mount.file_system in _OF_ONE_HOST for mount in own) for own in mounts) < 2:
        return None
    host, codes = _hosts(metadata, trace.ints("process")), trace.text_codes("path")
    rows = np.flatnonzero((host >= 0) & (codes >= 0))
    pairs, group = np.unique(host[rows] << 32 | codes[rows].astype(np.int64), return_inverse=True)
    paths = trace.codes("path")[1]
    is_own = np.array(
        [_is_of_one_host(mounts[pair >> 32], paths[pair & 0xFFFFFFFF]) for pair in pairs.tolist()],
        np.bool_,
    )
    _, users = np.unique(pairs[is_own] & 0xFFFFFFFF, return_counts=True)
    if users.max(initial=0) < 2:
        return None
    owner = np.full(len(trace), -1, np.int64)
    owner[rows] = np.where(is_own[group.ravel()], host[rows], -1)
    return owner


def _hosts(metadata: Metadata, process: IntArray) -> IntArray:
    """Return the host of each row, -1 where it is not known."""
    known = [p.host if 0 <= p.host < len(metadata.hosts) else -1 for p in metadata.processes]
    inside = (process >= 0) & (process < len(known))
    return np.array([*known, -1], np.int64)[np.where(inside, process, -1)]


def _is_of_one_host(mounts: Sequence[Mount], path: str) -> bool:
    """Return whether a path lies on local storage, as far as the mounts that were used tell.

    Where others were used too, one below the root may lead to them by a symbolic link.
    """
    above = [m for m in mounts if m.path == "/" or f"{path}/".startswith(f"{m.path}/")]
    if not above:
        return False
    holder = max(above, key=lambda mount: len(mount.path))
    holders = mounts if holder.path == "/" else [holder]
    return all(mount.file_system in _OF_ONE_HOST for mount in holders)
