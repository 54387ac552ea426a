"""Opens of folders: of what is done through them a replay issues the syncs, by their names."""

import os
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from iotrace.replay.file_table import FileTable
from iotrace.replay.instances import Instances
from iotrace.replay.job import Op, is_op
from iotrace.replay.recorded import UNKNOWN, Recorded
from iotrace.traces.open_flags import opens_folder
from iotrace.traces.sync_kind import SyncKind, syncs_file_system

Mask = npt.NDArray[np.bool_]

_LEFT_OUT = "opens and closes of folders, left out"


def without_folder_opens(
    recorded: Recorded, instances: Instances, table: FileTable
) -> tuple[Recorded, Instances, Mask]:
    """Return the same with syncs through opens of folders as syncs of folders, through no open.

    Returns:
        And which of the rest is to be left out.
    """
    of_folder = _are_of_folders(recorded, instances, table)[instances.of_row]
    if not of_folder.any():
        return recorded, instances, of_folder
    flags = np.where(recorded["flags"] == UNKNOWN, SyncKind.FSYNC, recorded["flags"])
    syncs = of_folder & (recorded["op"] == Op.SYNC) & (recorded["path"] >= 0)
    for kind in (SyncKind.FSYNC, SyncKind.FDATASYNC):
        flags[syncs & (flags == kind)] = kind.of_folder
    syncs &= (flags >= SyncKind.FOLDER) | syncs_file_system(flags)
    left = of_folder & ~syncs
    table.surprises[_LEFT_OUT] += int(np.count_nonzero(left))
    requests = recorded.requests.having_at(syncs, flags=flags[syncs])
    of_row = np.where(syncs, np.int32(-1), instances.of_row)
    return replace(recorded, requests=requests), replace(instances, of_row=of_row), left


def _are_of_folders(recorded: Recorded, instances: Instances, table: FileTable) -> Mask:
    """Return which opens are of folders, and at the end that no open is.

    Those that say so and, as jobs that sync a folder often do not say it, those that only read,
    move nothing, and have other names below theirs.
    """
    count = len(instances.first_row)
    found = np.zeros(count + 1, np.bool_)
    found[instances.of_row[_say_so(recorded)]] = True
    found[-1] = False
    moving = is_op(recorded["op"], (Op.READ, Op.WRITE, Op.ALLOCATE, Op.TRUNCATE))
    moves = np.bincount(instances.of_row[moving] + 1, minlength=count + 1)[1:] > 0
    idle = np.flatnonzero(~moves & ~instances.is_implicit)
    flags, path = (recorded.at(name, instances.first_row[idle]) for name in ("flags", "path"))
    reads = (flags != UNKNOWN) & (flags & (os.O_ACCMODE | os.O_CREAT) == os.O_RDONLY) & (path >= 0)
    columns = (idle[reads].tolist(), path[reads].tolist())
    for instance, code in zip(*columns, strict=True):
        found[instance] |= table.is_folder(recorded.texts[code])
    return found


def _say_so(recorded: Recorded) -> Mask:
    """Return which opens are of directories, and not of unnamed files in them."""
    opens = np.flatnonzero(recorded["op"] == Op.OPEN)
    flags = recorded.at("flags", opens)
    found = np.zeros(len(recorded), np.bool_)
    found[opens] = (flags != UNKNOWN) & opens_folder(flags)
    return found
