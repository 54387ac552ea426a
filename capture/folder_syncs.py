"""Syncs of folders: under the name that the job goes by, and of the step whose names they keep.

The kernel's name for an open folder leads through no link, and no engine's file tells whose it is.
"""

from __future__ import annotations

import os
import posixpath
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from iotrace.capture.blocks import NULLS
from iotrace.capture.names import UNKNOWN
from iotrace.capture.paths import PathTable
from iotrace.capture.requests import Requests, Rows
from iotrace.traces.sync_kind import syncs_folder

_NAMING_OPS = ("open", "rename", "link", "unlink", "mkdir", "rmdir")


def place_folder_syncs(requests: Requests, paths: PathTable) -> None:
    """Give folder syncs the folder's name in the job's paths, engine and step, where known.

    Those outside of any save are of what changed a name in their folder last.
    """
    block = requests.block
    syncs = requests.rows("sync")
    syncs = syncs[syncs_folder(block["flags"][syncs])]
    if not len(syncs):
        return
    changes = _changes(requests)
    used = np.union1d(block["path"][block["file"] >= 0], block["path"][changes])
    used = np.union1d(used, block["target"][changes])
    folders = _above(paths[code] for code in used.tolist() if code >= 0)
    kernel_names = {code: paths[code] for code in np.unique(block["path"][syncs]).tolist()}
    spellings = _spellings(kernel_names.values(), folders)
    changed = _changed(requests, changes, paths, {s for own in spellings.values() for s in own})

    def last_before(folder: str, sync: int) -> int:
        rows = changed.get(folder, ())
        place = bisect_left(rows, sync)
        return rows[place - 1] if place else UNKNOWN

    for sync in syncs.tolist():
        name = kernel_names[int(block["path"][sync])]
        last, own = max((last_before(one, sync), one) for one in spellings[name])
        block["path"][sync] = paths.code(own)
        if last != UNKNOWN and (block["engine"][sync], block["step"][sync]) == (
            UNKNOWN,
            NULLS["step"],
        ):
            for column in ("engine", "step"):
                block[column][sync] = block[column][last]


def _changes(requests: Requests) -> Rows:
    """Return the requests that changed names in folders."""
    block = requests.block
    rows = requests.rows(*_NAMING_OPS)
    opens = np.isin(block["op"][rows], requests.codes("op", ("open",)))
    makes = ~opens | (block["flags"][rows] & os.O_CREAT != 0)
    changes: Rows = rows[makes & (block["result"][rows] >= 0)]
    return changes


def _above(names: Iterable[str]) -> set[str]:
    """Return all folders above some paths."""
    above: set[str] = set()
    for name in names:
        folder = posixpath.dirname(name)
        while folder not in above:
            above.add(folder)
            folder = posixpath.dirname(folder)
    return above


def _spellings(names: Iterable[str], folders: set[str]) -> Mapping[str, Sequence[str]]:
    """Return for each folder of the kernel's what the job calls it; itself where it does not."""
    spellings = {name: [name] for name in names}
    strange = spellings.keys() - folders
    if strange:
        by_real: defaultdict[str, list[str]] = defaultdict(list)
        for folder in folders:
            by_real[os.path.realpath(folder)].append(folder)
        spellings |= {name: by_real[name] for name in strange if by_real[name]}
    return spellings


def _changed(
    requests: Requests, changes: Rows, paths: PathTable, wanted: set[str]
) -> Mapping[str, Sequence[int]]:
    """Return for each wanted folder the requests that changed names in it, in order of time."""
    changed: defaultdict[str, list[int]] = defaultdict(list)
    for column in ("path", "target"):
        codes = requests.block[column][changes]
        inside = {
            code: folder
            for code in np.unique(codes[codes >= 0]).tolist()
            if (folder := posixpath.dirname(paths[code])) in wanted
        }
        chosen = np.isin(codes, list(inside))
        for row, code in zip(changes[chosen].tolist(), codes[chosen].tolist(), strict=True):
            changed[inside[code]].append(row)
    return {folder: sorted(rows) for folder, rows in changed.items()}
