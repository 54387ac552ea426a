"""Files of one name that are not one: each on storage that its host alone has."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

import numpy as np

from iotrace.traces.columns import CodeArray, IntArray
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
    if not _may_differ(trace.metadata):
        return None
    codes, paths = trace.codes("path")
    owner = hosts_with_own(trace.metadata, trace.ints("process"), codes, paths)
    own = np.flatnonzero(owner >= 0)
    pairs = np.unique(owner[own] << 32 | codes[own])
    _, users = np.unique(pairs & 0xFFFFFFFF, return_counts=True)
    return owner if users.max(initial=0) > 1 else None


def hosts_with_own(
    metadata: Metadata, process: IntArray, codes: CodeArray, paths: Sequence[str]
) -> IntArray:
    """Return which host has each file to itself, whoever else has one of that name; -1: none.

    Args:
        metadata: of the trace.
        process: that used the file.
        codes: of its path in `paths`, -1 for none.
        paths: of files.
    """
    owner = np.full(len(codes), -1, np.int64)
    if not _may_differ(metadata):
        return owner
    mounts: defaultdict[int, list[Mount]] = defaultdict(list)
    for mount in metadata.mounts:
        mounts[mount.host].append(mount)
    host = _hosts(metadata, process)
    rows = np.flatnonzero((host >= 0) & (codes >= 0))
    pairs, group = np.unique(host[rows] << 32 | codes[rows], return_inverse=True)
    is_own = np.array(
        [_is_of_one_host(mounts[pair >> 32], paths[pair & 0xFFFFFFFF]) for pair in pairs.tolist()],
        np.bool_,
    )
    owner[rows] = np.where(is_own[group.ravel()], host[rows], -1)
    return owner


def _may_differ(metadata: Metadata) -> bool:
    """Return whether several hosts have local storage."""
    hosts = range(len(metadata.hosts))
    own = {m.host for m in metadata.mounts if m.file_system in _OF_ONE_HOST and m.host in hosts}
    return len(own) > 1


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
