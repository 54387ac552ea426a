"""What files are called over time."""

from __future__ import annotations

import posixpath
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from iotrace.capture.paths import PathTable, folders_of, moved

UNKNOWN = -1
SAVED = "saved"  # the event of a save that ended: no record, but it names a file
NAMELESS = " (deleted)"  # how the kernel ends the path of a file that has no name


class Event(NamedTuple):
    """A record that says what a file is (op "file") or what it is called.

    The fields are those of the record; `path` and `target` are codes, -1 for none.
    """

    time_ns: int
    log: int
    row: int
    op: str
    number: int
    offset: int
    length: int
    result: int
    address: int
    path: int
    target: int


@dataclass(frozen=True)
class History:
    """What something was over time: `values[i]` from `times_ns[i]` on."""

    times_ns: list[int] = field(default_factory=list)
    values: list[int] = field(default_factory=list)

    def add(self, time_ns: int, value: int) -> None:
        """Append a change; times must not decrease."""
        if not self.values or self.values[-1] != value:
            self.times_ns.append(time_ns)
            self.values.append(value)

    def at(self, time_ns: int) -> int:
        """Return the value at a time; before the first change, the first value."""
        return self.values[max(0, bisect_right(self.times_ns, time_ns) - 1)]


class Naming:
    """Follows, in time order, which file has which name."""

    def __init__(self, paths: PathTable) -> None:
        """Start before the first event, with all paths of the job known."""
        self.paths = paths
        self.folders = folders_of(paths.values())
        self.last: dict[int, int] = {}
        self.gone: set[int] = set()
        self.histories: dict[int, History] = {}
        self.created: list[tuple[int, int, int]] = []
        self.hidden_renames: list[tuple[str, str]] = []

    def see(self, event: Event, identity: int) -> int:
        """Take one event in; return the file it is about."""
        if event.op == "truncate":
            return self.named(event.path, event.time_ns)
        if event.op == "file":
            self.call(identity, event.path, event.time_ns)
            if event.address == 0:
                self.created.append((event.time_ns, event.log, identity))
        elif event.op == SAVED:
            self.find_saved(event)
        elif event.result == 0:
            self.change(event, identity)
        return identity

    def change(self, event: Event, identity: int) -> None:
        """Take in a call that changed names."""
        if event.op == "rename":
            self.rename(event, identity)
        elif event.op == "link" and identity >= 0:
            self.histories.setdefault(event.target, History()).add(event.time_ns, identity)
            if self.paths[self.last[identity]].endswith(NAMELESS):
                self.last[identity] = event.target
        elif event.op == "unlink" and self.last.get(identity) == event.path:
            self.gone.add(identity)

    def named(self, path: int, time_ns: int) -> int:
        """Return the file that has this name, -1 if it is not known."""
        history = self.histories.get(path)
        return history.at(time_ns) if history else UNKNOWN

    def call(self, identity: int, path: int, time_ns: int) -> None:
        """Give a file a name."""
        self.last[identity] = path
        self.gone.discard(identity)
        self.histories.setdefault(path, History()).add(time_ns, identity)

    def replace(self, path: int, identity: int, time_ns: int) -> None:
        """Forget the file that had a name which another gets."""
        replaced = self.named(path, time_ns)
        if replaced != identity and self.last.get(replaced) == path:
            self.gone.add(replaced)

    def rename(self, event: Event, identity: int) -> None:
        """Move a file, or all files of a folder."""
        self.replace(event.target, identity, event.time_ns)
        if identity >= 0:
            self.call(identity, event.target, event.time_ns)
            return
        folder, target = self.paths[event.path], self.paths[event.target]
        for file, path in list(self.last.items()):
            new_path = moved(self.paths[path], folder, target)
            if new_path is not None and file not in self.gone:
                self.call(file, self.paths.code(new_path), event.time_ns)

    def find_saved(self, event: Event) -> None:
        """Look for the file that a save made under another name and then renamed unseen.

        That is the last one that the process created meanwhile in the same folder, if nothing
        got the name that the save was asked for. `event.offset` is when the save began.
        """
        history = self.histories.get(event.path)
        if history and history.times_ns[-1] >= event.offset:
            return
        path = self.paths[event.path]
        if path in self.folders:
            return
        for identity in self.created_since(event):
            old_path = self.paths[self.last[identity]]
            if posixpath.dirname(old_path) == posixpath.dirname(path):
                self.replace(event.path, identity, event.offset)
                self.call(identity, event.path, event.offset)
                self.hidden_renames.append((old_path, path))
                return

    def created_since(self, event: Event) -> Iterator[int]:
        """Yield the files that the process of a save created meanwhile, the last one first."""
        for time_ns, log, identity in reversed(self.created):
            if time_ns < event.offset:
                return
            if log == event.log:
                yield identity
