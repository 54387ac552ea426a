"""Files that a replay finds there: written with payload, off the clock, and made cold."""

import os
from dataclasses import dataclass

import numpy as np

from iotrace.replay.files import by_place, resets_of
from iotrace.replay.job import Op
from iotrace.replay.loop import Tape, fill_file, open_beneath, resident_bytes
from iotrace.replay.pieces import Rows
from iotrace.replay.plan import Plan

_ZEROS = -1  # as a file, to the tape


@dataclass(frozen=True)
class Prepared:
    """What was written before the run, and how much of it the page cache still holds."""

    files: int
    size_bytes: int
    resident_bytes: int


def prepare(plan: Plan, tape: Tape, root_fd: int) -> Prepared:
    """Write the files that the plan finds there, sync them, and evict them.

    A file that is there already was left by an earlier repetition, as it must be.

    Args:
        plan: says which files, and how many of their recorded bytes.
        tape: the payload.
        root_fd: the workspace.

    Raises:
        OSError: as open and write.
    """
    there = np.flatnonzero(plan.files.exists).tolist()
    extents = plan.initial_extents()
    extents = by_place(extents) if plan.payload_is_placed else extents
    bounds = np.searchsorted(extents["file"], np.arange(len(plan.files) + 1))
    resident = 0
    for file in there:
        own = extents[bounds[file] : bounds[file + 1]]
        fd = _open(plan.files[file].path, own, tape, root_fd)
        try:
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            resident += resident_bytes(fd)
        finally:
            os.close(fd)
    size_bytes = int(plan.files.initial_size_bytes[there].sum())
    return Prepared(len(there), size_bytes, resident)


def _open(path: str, extents: Rows, tape: Tape, root_fd: int) -> int:
    try:
        return open_beneath(root_fd, path, os.O_RDONLY)
    except FileNotFoundError:
        _write(path, extents, tape, root_fd)
        return open_beneath(root_fd, path, os.O_RDONLY)


def _write(path: str, extents: Rows, tape: Tape, root_fd: int) -> None:
    fd = open_beneath(root_fd, path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        at = 0
        columns = (extents[name].tolist() for name in ("offset", "length", "source", "origin"))
        for offset, length, source, origin in zip(*columns, strict=True):
            fill_file(tape, fd, at, offset - at, _ZEROS, 0)
            fill_file(tape, fd, offset, length, source, origin)
            at = offset + length
        os.fsync(fd)
    finally:
        os.close(fd)


def steady_files(plan: Plan) -> frozenset[str]:
    """Return the prepared files that a run leaves as it found them, by name."""
    rows = plan.requests
    harmless = np.isin(rows["op"], (Op.READ, Op.CLOSE, Op.SYNC))
    harmless |= (rows["op"] == Op.OPEN) & ~resets_of(rows)
    steady = plan.files.exists.copy()
    changed = rows["file"][~harmless]
    steady[changed[changed >= 0]] = False
    return frozenset(plan.files[file].path for file in np.flatnonzero(steady).tolist())
