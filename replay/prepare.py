"""Files that a replay finds there: written with payload, off the clock, and made cold."""

import os
from dataclasses import dataclass

import numpy as np

from iotrace.replay.files import resets_of
from iotrace.replay.job import Op
from iotrace.replay.loop import Tape, fill_file, open_beneath, resident_bytes
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
    there = [file for file, spec in enumerate(plan.files) if spec.exists]
    resident = 0
    for file in there:
        fd = _open(plan, tape, root_fd, file)
        try:
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            resident += resident_bytes(fd)
        finally:
            os.close(fd)
    size_bytes = sum(plan.files[file].initial_size_bytes for file in there)
    return Prepared(len(there), size_bytes, resident)


def _open(plan: Plan, tape: Tape, root_fd: int, file: int) -> int:
    try:
        return open_beneath(root_fd, plan.files[file].path, os.O_RDONLY)
    except FileNotFoundError:
        _write(plan, tape, root_fd, file)
        return open_beneath(root_fd, plan.files[file].path, os.O_RDONLY)


def _write(plan: Plan, tape: Tape, root_fd: int, file: int) -> None:
    spec = plan.files[file]
    fd = open_beneath(root_fd, spec.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        parts = plan.relocation.split(
            np.array([file]), np.array([0]), np.array([spec.initial_bytes])
        )
        at = 0
        order = np.argsort(parts.to_offset)
        columns = (parts.to_offset[order], parts.length[order], parts.offset[order])
        for to_offset, length, offset in zip(*(c.tolist() for c in columns), strict=True):
            fill_file(tape, fd, at, to_offset - at, _ZEROS, 0)
            fill_file(tape, fd, to_offset, length, file, offset)
            at = to_offset + length
        os.fsync(fd)
    finally:
        os.close(fd)


def steady_files(plan: Plan) -> frozenset[str]:
    """Return the prepared files that a run leaves as it found them, by name."""
    rows = plan.requests
    harmless = np.isin(rows["op"], (Op.READ, Op.CLOSE, Op.SYNC))
    harmless |= (rows["op"] == Op.OPEN) & ~resets_of(rows)
    changed = set(rows["file"][~harmless].tolist())
    return frozenset(
        spec.path for file, spec in enumerate(plan.files) if spec.exists and file not in changed
    )
