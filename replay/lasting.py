"""Making what a run wrote last: synced where it is or, staged, copied to where it belongs.

Staging is what engines do whose job must not wait for slow storage: the job writes to a fast tier
(memory, a local disk), and what lies there is drained to the destination when the job has gone on.
A staged replay issues its requests in the tier, prepared files and loads included. Once the last
of them has ended, every file that was made or changed and is left is copied to the destination,
whole and under its last name, by as many threads as there are workers, and synced there; over the
blocks of an older copy where the plan writes over old blocks. Folders that were made are made
there, but not empty ones that were renamed. The time until all is staged is that of the requests;
until it is durable at the destination, that and the drain's.
"""

import errno
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import numpy as np
import numpy.typing as npt

from iotrace.replay.job import Op
from iotrace.replay.loop import open_beneath
from iotrace.replay.plan import Plan
from iotrace.replay.workspace import make_folders
from iotrace.traces.errors import ReplayError

_CHUNK_BYTES = 8 << 20


def sync_files(
    plan: Plan,
    chosen: npt.NDArray[np.bool_],
    root_fd: int,
    round_trip_seconds: float,
    threads: int,
) -> float:
    """Sync the chosen files that are still there; return how long that took, in seconds.

    Args:
        plan: what was replayed.
        chosen: per file, whether it is to be synced.
        root_fd: the directory it was replayed in.
        round_trip_seconds: how much longer each sync takes.
        threads: that sync, each a file at a time.

    Raises:
        OSError: as open and fsync.
    """
    names = _left(plan, chosen)
    with ThreadPoolExecutor(max(threads, 1)) as pool:
        begin = time.monotonic()
        each = pool.map if threads > 1 and len(names) > 1 else map
        for _ in each(lambda name: _sync(name, root_fd, round_trip_seconds), names):
            pass
        return time.monotonic() - begin


def _sync(name: str, root_fd: int, round_trip_seconds: float) -> None:
    try:
        fd = open_beneath(root_fd, name, os.O_RDONLY)
    except FileNotFoundError:
        return  # a run that failed may not have come to it
    try:
        os.fsync(fd)
        time.sleep(round_trip_seconds)
    finally:
        os.close(fd)


def drain(plan: Plan, tier_fd: int, root_fd: int, copiers: int) -> float:
    """Copy every changed file that is still there and sync the copy; return the seconds.

    Args:
        plan: what was replayed.
        tier_fd: the directory it was replayed in.
        root_fd: the destination.
        copiers: threads that copy, each a file at a time.

    Raises:
        OSError: as read, write and fsync.
    """
    begin = time.monotonic()
    stop = threading.Event()
    for name in _made_folders(plan):
        with suppress(FileNotFoundError, NotADirectoryError):
            os.close(open_beneath(tier_fd, name, os.O_RDONLY | os.O_DIRECTORY))
            make_folders(root_fd, f"{name}/")
    names = _left(plan, plan.files.changed)
    with ThreadPoolExecutor(max(copiers, 1)) as pool:
        try:
            for _ in pool.map(lambda name: _copy(name, tier_fd, root_fd, stop), names):
                pass
        except BaseException:
            stop.set()  # the pool waits for what it has begun, on slow storage perhaps for long
            raise
    return time.monotonic() - begin


def _left(plan: Plan, chosen: npt.NDArray[np.bool_]) -> list[str]:
    files = plan.files
    left = files.final_path[chosen & (files.final_path >= 0)]
    return [files.paths[path] for path in left.tolist()]


def _made_folders(plan: Plan) -> list[str]:
    made = plan.requests["path"][plan.requests["op"] == Op.MKDIR]
    return [plan.paths[path] for path in np.unique(made).tolist()]


def _copy(name: str, tier_fd: int, root_fd: int, stop: threading.Event) -> None:
    try:
        source = open_beneath(tier_fd, name, os.O_RDONLY)
    except FileNotFoundError:
        return  # a run that failed may not have come to it
    try:
        make_folders(root_fd, name)
        copy = open_beneath(root_fd, name, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            _copy_data(source, copy, name, stop)
            if not stop.is_set():
                os.fsync(copy)
        finally:
            os.close(copy)
    finally:
        os.close(source)


def _copy_data(source: int, copy: int, name: str, stop: threading.Event) -> None:
    """Copy a file's bytes, unless stopped; holes stay holes."""
    size_bytes = os.fstat(source).st_size
    os.ftruncate(copy, size_bytes)
    end = 0
    while end < size_bytes:
        try:
            at = os.lseek(source, end, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:  # a hole up to the end
                raise
            return
        end = os.lseek(source, at, os.SEEK_HOLE)
        os.lseek(copy, at, os.SEEK_SET)
        while at < end:
            if stop.is_set():
                return
            moved = os.sendfile(copy, source, at, min(end - at, _CHUNK_BYTES))
            if not moved:
                raise ReplayError(f"{name} became shorter while it was drained")
            at += moved
