"""What the requests of a plan have made durable by a moment."""

import numpy as np
import numpy.typing as npt

from iotrace.replay.files import resets_of
from iotrace.replay.job import Op, is_op
from iotrace.replay.pieces import Ints
from iotrace.replay.requests import Requests
from iotrace.traces.sync_kind import SyncKind, syncs_file_system

Mask = npt.NDArray[np.bool_]

_DURABLE = (SyncKind.FSYNC, SyncKind.FDATASYNC, SyncKind.MSYNC)


def is_durable(rows: Requests) -> Mask:
    """Return which requests make the data of one file durable."""
    return np.asarray((rows["op"] == Op.SYNC) & np.isin(rows["flags"], _DURABLE))


def are_synced(requests: Requests, file: Ints, place: Ints, chosen: Mask | None = None) -> Mask:
    """Return which files have been synced since they were changed last, before the given places.

    To sync them once more takes a flush of the device each, and makes nothing durable.

    Args:
        requests: in order of issue.
        file: files asked for.
        place: for each a request, or their number.
        chosen: which requests count; None: all.
    """
    chosen = np.ones(len(requests), np.bool_) if chosen is None else chosen
    changes = is_op(requests["op"], (Op.WRITE, Op.ALLOCATE)) | resets_of(requests)
    changed = last_before(requests, np.flatnonzero(changes & chosen), file, place)
    syncs = (is_durable(requests) | (requests["op"] == Op.EVICT)) & chosen  # drops what is clean
    synced = last_before(requests, np.flatnonzero(syncs), file, place)
    whole = (requests["op"] == Op.SYNC) & syncs_file_system(requests["flags"])
    wholes = np.append(-1, np.flatnonzero(whole & chosen))
    synced = np.maximum(synced, wholes[np.searchsorted(wholes, place) - 1])
    return np.asarray(synced > changed)


def last_before(requests: Requests, rows: Ints, file: Ints, place: Ints) -> Ints:
    """Return the last of `rows` that is on each file and before each place, or -1."""
    if not len(file):
        return np.zeros(0, np.int64)
    count = len(requests) + 1
    keys = np.sort(requests.at("file", rows).astype(np.int64) * count + rows)
    found = np.searchsorted(keys, file * count + place) - 1
    key = keys[found.clip(0)] if len(keys) else np.zeros(len(file), np.int64)
    return np.where((found >= 0) & (key // count == file), key % count, -1)
