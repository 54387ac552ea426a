"""Files that a replay finds there: written with payload, off the clock, and made cold."""

import os
from collections import Counter
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from iotrace.replay.files import EXTENT, by_place, resets_of
from iotrace.replay.job import Op, is_op
from iotrace.replay.loop import Tape, fill_file, open_beneath, resident_bytes
from iotrace.replay.pieces import Rows
from iotrace.replay.plan import Plan
from iotrace.replay.workspace import make_folders

_ZEROS = -1  # as a file, to the tape
_SHIFT_BYTES = 2049  # of old bytes against the payload there: off blocks, as no relocation is


@dataclass(frozen=True)
class Prepared:
    """What was written before the run, and how much of it a page cache still holds."""

    files: int
    size_bytes: int
    resident_bytes: int


NOTHING = Prepared(0, 0, 0)


def prepare(plan: Plan, tape: Tape, root_fd: int) -> None:
    """Write the files that the plan finds there, sync them, and evict them here.

    A file that is there already was left by an earlier repetition, as it must be. One that is to
    be written over gets its blocks here, with bytes that are not the payload.

    Args:
        plan: says which files, and how many of their recorded bytes.
        tape: the payload.
        root_fd: the workspace.

    Raises:
        OSError: as open and write.
    """
    extents = plan.initial_extents()
    extents = by_place(extents) if plan.payload_is_placed else extents
    bounds = np.searchsorted(extents["file"], np.arange(len(plan.files) + 1))
    for file in np.flatnonzero(plan.files.exists).tolist():
        path = plan.files[file].path
        try:
            os.close(open_beneath(root_fd, path, os.O_RDONLY))
        except FileNotFoundError:
            own = extents[bounds[file] : bounds[file + 1]]
            _write(path, np.concatenate([old_extent(plan, file), own]), tape, root_fd)


def evict_prepared(plan: Plan, chosen: npt.NDArray[np.bool_], root_fd: int) -> Counter[int]:
    """Drop prepared files from this machine's page cache; return the bytes that stay, by file.

    Args:
        plan: says which files are prepared.
        chosen: per file, whether it is of concern here.
        root_fd: the workspace.

    Raises:
        OSError: as mmap and mincore.
    """
    resident = Counter[int]()
    for file in np.flatnonzero(plan.files.exists & chosen).tolist():
        try:
            fd = open_beneath(root_fd, plan.files[file].path, os.O_RDONLY)
        except OSError:
            continue  # another machine made it; that it cannot be had here, its open will tell
        try:
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            resident[file] = resident_bytes(fd)
        finally:
            os.close(fd)
    return +resident  # without those of no byte, of which there may be many to gather


def _write(path: str, extents: Rows, tape: Tape, root_fd: int) -> None:
    fd = open_beneath(root_fd, path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        at = 0
        columns = (extents[name].tolist() for name in ("offset", "length", "source", "origin"))
        for offset, length, source, origin in zip(*columns, strict=True):
            fill_file(tape, fd, at, offset - at, _ZEROS, 0)
            fill_file(tape, fd, offset, length, source, origin)
            at = max(at, offset + length)
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(fd)


def old_extent(plan: Plan, file: int) -> Rows:
    """Return what lies in a file that is to be written over: at most one EXTENT row."""
    old_bytes = int(plan.files.old_bytes[file])
    extent = (file, file, 0, _SHIFT_BYTES, old_bytes)
    return np.array([extent] if old_bytes else [], EXTENT)


def prepare_copies(plan: Plan, tape: Tape, root_fd: int) -> None:
    """Write the files that copies of the plan's files are to be written over, sync and evict them.

    Args:
        plan: says which files have blocks of older ones.
        tape: the payload.
        root_fd: where the copies go to; it is empty.

    Raises:
        OSError: as mkdir, open and write.
    """
    for file in np.flatnonzero(plan.files.old_bytes).tolist():
        path = plan.files[file].final_path
        if path is not None:
            make_folders(root_fd, path)
            _write(path, old_extent(plan, file), tape, root_fd)


def steady_files(plan: Plan, payload_stays: bool) -> frozenset[str]:
    """Return the prepared files that a run leaves as it found them, by name.

    Args:
        plan: what runs.
        payload_stays: whether a file that is written over may be left with the bytes of the last
            run: its blocks are written, which is all that matters unless bytes are to be proven.
    """
    rows = plan.requests
    harmless = is_op(rows["op"], (Op.READ, Op.CLOSE, Op.SYNC, Op.EVICT))
    harmless |= (rows["op"] == Op.OPEN) & ~resets_of(rows)
    steady = plan.files.exists.copy()
    if payload_stays:
        files = plan.files
        over = (files.old_bytes > 0) & (files.initial_bytes == 0)
        over &= (files.final_bytes == files.old_bytes) & (files.final_path == files.path)
        harmless |= (
            is_op(rows["op"], (Op.WRITE, Op.TRUNCATE)) & np.append(over, False)[rows["file"]]
        )
    changed = rows["file"][~harmless]
    steady[changed[changed >= 0]] = False
    return frozenset(plan.files[file].path for file in np.flatnonzero(steady).tolist())
