"""What the kernel knew while strace watched: descriptors, positions, names, processes."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

from iotrace.traces.formats.rows import absolute
from iotrace.traces.metadata import Process

STANDARD_STREAMS = (0, 1, 2)
# No regular file has such a name: pipe:[1], socket:[1], anon_inode:[eventpoll], /dev/null. Below
# /dev there are shared memory, which is files, and disks, which are meant when they are used.
_SPECIAL = re.compile(
    r"[^/]|/proc/|/sys/|/dev/(?!shm/|loop\d|sd[a-z]|vd[a-z]|xvd[a-z]|nvme\d|dm-|md\d|mapper/)"
)
DELETED = "(deleted)"


@dataclass
class OpenFile:
    """An open file description. `position` is None while it is not known."""

    path: str
    file: int
    position: int | None = 0
    appends: bool = False
    is_folder: bool = False


@dataclass
class Descriptor:
    """A descriptor's file, None if it is no regular one; whether exec closes it."""

    file: OpenFile | None
    closes_on_exec: bool = False


@dataclass
class Mapping:
    """A part of a file in memory."""

    open_file: OpenFile
    address: int
    offset: int
    length: int


@dataclass
class Space:
    """A process: its threads share all of this.

    Attributes:
        number: the one in the trace.
        closing: by thread, what its close that has not returned yet is of.
    """

    number: int
    pid: int
    cwd: str | None = None
    parent_pid: int | None = None
    argv: tuple[str, ...] = ()
    descriptors: dict[int, Descriptor] = field(default_factory=dict)
    mappings: dict[int, Mapping] = field(default_factory=dict)
    threads: dict[int, int] = field(default_factory=dict)
    closing: dict[int, Descriptor | None] = field(default_factory=dict)

    def thread(self, tid: int) -> int:
        """Return the dense number of a thread."""
        return self.threads.setdefault(tid, len(self.threads))

    def described(self) -> Process:
        """Return what the metadata say of the process."""
        executable = self.argv[0] if self.argv else ""
        return Process(self.pid, parent_pid=self.parent_pid, argv=self.argv, executable=executable)


class Names:
    """Which file a name means, and how large files are, over all processes.

    Attributes:
        sizes: bytes of the files whose size is known.
        folders: paths of which it is known that they are no files.
    """

    def __init__(self) -> None:
        self.sizes: dict[int, int] = {}
        self.folders: set[str] = set()
        self._files: dict[str, int] = {}
        self._count = 0

    def file(self, path: str) -> int:
        """Return the number of the file at `path`."""
        number = self._files.get(path)
        if number is None:
            number = self._files[path] = self._count
            self._count += 1
            folder = path.rpartition("/")[0]
            while folder and folder not in self.folders:
                self.folders.add(folder)
                folder = folder.rpartition("/")[0]
        return number

    def find(self, path: str) -> int | None:
        """Return the number of the file at `path` if it has been used."""
        return self._files.get(path)

    def rename(self, path: str, target: str) -> None:
        """Let `target` mean what `path` meant; of a folder, all that is in it."""
        if path in self._files:
            self._files[target] = self._files.pop(path)
        if path in self.folders:
            self.folders.add(target)
            for name in [name for name in self._files if name.startswith(f"{path}/")]:
                self._files[target + name[len(path) :]] = self._files.pop(name)

    def link(self, path: str, target: str) -> None:
        """Let both mean the same file."""
        self._files[target] = self.file(path)

    def unlink(self, path: str) -> None:
        """Let `path` mean nothing until it is made again."""
        self._files.pop(path, None)

    def grow(self, file: int, end: int) -> None:
        """Note that a file whose size is known reaches to `end` at least."""
        if file in self.sizes:
            self.sizes[file] = max(self.sizes[file], end)


class Machine:
    """All processes of a log.

    Attributes:
        lost: what could not be told, counted.
        given: names of the files that were the job's standard streams when it began.
    """

    def __init__(self) -> None:
        self.names = Names()
        self.spaces: list[Space] = []
        self.lost: Counter[str] = Counter()
        self.given: set[str] = set()
        self._space_of: dict[int, Space] = {}
        self._unborn: list[tuple[int, bool]] = []

    def space(self, tid: int) -> Space:
        """Return the process of a thread; a new one where nothing is known of it."""
        found = self._space_of.get(tid)
        if found is None and self._unborn:  # it runs before its creation has returned
            parent, is_thread = self._unborn.pop(0)
            self.born(parent, tid, is_thread)
            found = self._space_of.get(tid)
        if found is None:
            found = self._new(tid)
        return found

    def expect(self, tid: int, is_thread: bool) -> None:
        """Note that a thread is about to create another, whose id is not known yet."""
        self._unborn.append((tid, is_thread))

    def born(self, parent: int, tid: int, is_thread: bool, was_expected: bool = False) -> None:
        """Note that `parent` has created `tid`."""
        if was_expected and (parent, is_thread) in self._unborn:
            self._unborn.remove((parent, is_thread))
        if tid in self._space_of and (is_thread or self._space_of[tid].parent_pid is not None):
            return
        above = self._space_of.get(parent) or self._new(parent)
        if is_thread:
            self._space_of[tid] = above
            return
        child = self._space_of.get(tid) or self._new(tid)
        child.parent_pid, child.cwd, child.argv = above.pid, above.cwd, above.argv
        for fd, descriptor in above.descriptors.items():
            copy = Descriptor(descriptor.file, descriptor.closes_on_exec)
            child.descriptors.setdefault(fd, copy)

    def _new(self, tid: int) -> Space:
        space = Space(len(self.spaces), tid)
        self.spaces.append(space)
        self._space_of[tid] = space
        return space

    def open(self, space: Space, fd: int, path: str, closes_on_exec: bool = False) -> OpenFile:
        """Give a descriptor a file, at its beginning."""
        file = OpenFile(path, self.names.file(path))
        space.descriptors[fd] = Descriptor(file, closes_on_exec)
        return file

    def resolve(self, space: Space, fd: int, shown: str | None) -> OpenFile | None:
        """Return the open file of a descriptor; None if it is no regular file, or not known.

        Args:
            shown: what -y says of it.
        """
        known = space.descriptors.get(fd)
        if shown is None:
            if known is None and fd not in STANDARD_STREAMS:
                self.lost["descriptors"] += 1
            return known.file if known else None
        if not is_regular(shown):
            return None
        path = absolute(shown.removesuffix(DELETED))
        if known is not None and known.file is not None:
            is_gone = shown.endswith(DELETED)
            if is_gone or known.file.path == path or known.file.file == self.names.find(path):
                return known.file
        if known is None and fd in STANDARD_STREAMS and self.names.find(path) is None:
            self.given.add(path)
        file = OpenFile(path, self.names.file(path), position=None)
        space.descriptors[fd] = Descriptor(file)
        return file

    def path_of(self, space: Space, folder_fd: int | None, shown: str | None, path: str) -> str:
        """Return the absolute path that a call names, relative to a folder or to the current one.

        Args:
            folder_fd: None for the current folder.
            shown: what -y says of that folder.
        """
        if path.startswith("/"):
            return absolute(path)
        folder = shown
        if folder is None and folder_fd is None:
            folder = space.cwd
        elif folder is None and folder_fd is not None:
            known = space.descriptors.get(folder_fd)
            folder = known.file.path if known and known.file else None
        if folder is None:
            self.lost["folders"] += 1
        elif folder_fd is None:
            space.cwd = folder
        return absolute(path, folder or "/")


def is_regular(shown: str) -> bool:
    """Return whether a descriptor that -y shows so may be a regular file."""
    return shown != "" and _SPECIAL.match(shown) is None
