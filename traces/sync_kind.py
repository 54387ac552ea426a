"""What a sync makes durable: the `flags` of its row."""

from enum import IntEnum

import numpy as np

from iotrace.traces.columns import IntArray, Mask


class SyncKind(IntEnum):
    """Kinds of `sync`, as in the raw log."""

    FSYNC = 0
    FDATASYNC = 1
    RANGE = 2
    MSYNC = 3
    FILE_SYSTEM = 4
    EVERYTHING = 5
    FOLDER = 6  # fsync of a folder: the names in it
    FOLDER_DATA = 7  # fdatasync of one

    @property
    def of_folder(self) -> "SyncKind":
        """What this call is where its descriptor is a folder's."""
        return {SyncKind.FSYNC: SyncKind.FOLDER, SyncKind.FDATASYNC: SyncKind.FOLDER_DATA}.get(
            self, self
        )


OF_FOLDER = (SyncKind.FOLDER, SyncKind.FOLDER_DATA)
OF_FILE_SYSTEM = (SyncKind.FILE_SYSTEM, SyncKind.EVERYTHING)


def syncs_folder(flags: IntArray) -> Mask:
    """Return which syncs are of a folder: their path is its own, and they have no file.

    >>> syncs_folder(np.array([0, 4, 6, 7])).tolist()
    [False, False, True, True]
    """
    return np.asarray(np.isin(flags, OF_FOLDER))


def syncs_file_system(flags: IntArray) -> Mask:
    """Return which syncs are of everything on a file system, or on all."""
    return np.asarray(np.isin(flags, OF_FILE_SYSTEM))
