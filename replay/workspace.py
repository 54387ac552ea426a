"""The fresh directory a replay happens in, and nothing outside it."""

import errno
import os
import shutil
import tempfile
from collections.abc import Set
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from iotrace.replay.bindings import Bindings
from iotrace.replay.folders import Folders
from iotrace.replay.group import Group, Solo, once
from iotrace.replay.intervals import unions
from iotrace.replay.job import Op, is_op
from iotrace.replay.paths import ancestors
from iotrace.replay.pieces import Ints
from iotrace.replay.plan import Plan
from iotrace.traces.errors import PlanError, ReplayError
from iotrace.traces.remedies import with_remedy
from iotrace.traces.words import sized

PREFIX = "iotrace-replay-"
_SPARE_SHARE = 0.05
_BLOCK_BYTES = 4096  # what the smallest extent takes on the file systems in use
_REMOVALS = 5  # an interrupted run may still be making files


class Workspace:
    """A directory below `root`, removed at the end.

    Args:
        root: where to make it; it must exist.
        keep: leave it there.
        group: the processes that use it together; the first makes and removes it.
        option: that chooses another root, for messages.

    Raises:
        PlanError: on entering, when the directory cannot be made.
    """

    def __init__(
        self, root: Path, keep: bool = False, group: Group | None = None, option: str = "--root"
    ) -> None:
        self._option = option
        self._group = group or Solo()
        self._root = root
        self._keep = keep
        self.path = root
        self.fd = -1

    def __enter__(self) -> Self:
        self.path = Path(once(self._group, self._make))
        try:
            self.fd = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise PlanError(
                f"{self.path} cannot be opened here: "
                + with_remedy(error, "choose storage that all machines see with --root")
            ) from error
        return self

    def _make(self) -> str:
        try:
            return tempfile.mkdtemp(prefix=PREFIX, dir=self._root.absolute())
        except OSError as error:
            raise PlanError(
                f"no directory can be made in {self._root}: "
                + with_remedy(error, f"choose another with {self._option}")
            ) from error

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self.fd)
        if error is None:
            self._group.gather(None)  # all are done with it
        if self._keep or self._group.rank != 0:
            return
        for _ in range(_REMOVALS):
            shutil.rmtree(self.path, ignore_errors=True)
            if not self.path.exists():
                return
        if error is None:
            raise ReplayError(f"{self.path} could not be removed; remove it by hand")

    def check_space(self, plan: Plan) -> None:
        """Refuse a plan that would fill the file system.

        Raises:
            PlanError: there is less room than the plan's files take at a time, and 5 % more.
        """
        needed_bytes = int(peak_bytes(plan) * (1 + _SPARE_SHARE))
        state = os.statvfs(self.path)
        free_bytes = state.f_bavail * state.f_frsize
        if needed_bytes > free_bytes:
            raise PlanError(
                f"the replay needs {sized(needed_bytes)} in {self._root} and "
                f"{sized(free_bytes)} are free; choose another place with {self._option}, or half "
                "of it with --op"
            )

    def make_directories(self, plan: Plan) -> None:
        """Make the directories that the plan finds there.

        Raises:
            PlanError: a directory has the name of a file, or cannot be made.
        """
        for directory in Folders.of(plan).before:
            try:
                make_below(self.fd, directory)
            except FileExistsError:
                continue
            except OSError as error:
                raise PlanError(
                    f"directory {directory!r} cannot be made in {self.path}: "
                    + with_remedy(error, "choose another place with --root")
                ) from error

    def clear(self, keep: Set[str] = frozenset()) -> None:
        """Remove everything but the files in `keep` (relative names); follow no link."""
        for folder, folders, names, fd in os.fwalk(".", topdown=False, dir_fd=self.fd):
            for name in names:
                if os.path.normpath(f"{folder}/{name}") not in keep:
                    os.unlink(name, dir_fd=fd)
            for name in folders:
                try:
                    os.rmdir(name, dir_fd=fd)
                except NotADirectoryError:  # a link that somebody put here
                    os.unlink(name, dir_fd=fd)
                except OSError as error:
                    if error.errno != errno.ENOTEMPTY:
                        raise


def make_below(fd: int, directory: str) -> None:
    """Make a directory below `fd`, through no symbolic link on the way.

    Raises:
        OSError: as mkdir, or a folder above it is a link.
    """
    *above, name = directory.split("/")
    opened: list[int] = []
    try:
        for part in above:
            flags = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW
            opened.append(os.open(part, flags, dir_fd=opened[-1] if opened else fd))
        os.mkdir(name, dir_fd=opened[-1] if opened else fd)
    finally:
        for one in opened:
            os.close(one)


def make_folders(fd: int, path: str) -> None:
    """Make the folders above a relative path that are not there.

    Raises:
        OSError: as for `make_below`.
    """
    for directory in ancestors(path):
        with suppress(FileExistsError):
            make_below(fd, directory)


def peak_bytes(plan: Plan) -> int:
    """Return the most bytes the plan's files take at any time; holes take none."""
    rows = plan.requests
    used = rows["file"] >= 0
    grown = _taken_bytes(plan)
    first = np.full(len(plan.files), 0)
    index = np.arange(len(rows))
    files, begin = np.unique(rows["file"][used], return_index=True)
    first[files] = index[used][begin]
    first[plan.files.exists] = 0
    changes = np.zeros(len(rows) + 1, np.int64)
    np.add.at(changes, first, grown)
    removal = Bindings.of(rows, plan.paths).removals(len(plan.files))
    gone = removal >= 0
    np.subtract.at(changes, removal[gone], grown[gone])
    return int(np.cumsum(changes).max(initial=0))


def _taken_bytes(plan: Plan) -> Ints:
    """Return the bytes that each file takes once all of it is written, in whole blocks."""
    rows = plan.requests
    fills = is_op(rows["op"], (Op.WRITE, Op.ALLOCATE)) & (rows["file"] >= 0)
    there = plan.files.initial_size_bytes
    before = np.flatnonzero(there)
    file = np.concatenate([rows["file"][fills].astype(np.int64), before])
    start = np.concatenate([rows["offset"][fills], np.zeros(len(before), np.int64)])
    length = np.concatenate([rows["length"][fills], there[before]])
    end = -(-(start + length) // _BLOCK_BYTES) * _BLOCK_BYTES
    start = np.where(length > 0, start // _BLOCK_BYTES * _BLOCK_BYTES, end)
    file, start, end = unions(file, start, end)
    taken = np.zeros(len(plan.files), np.int64)
    np.add.at(taken, file, end - start)
    return taken
