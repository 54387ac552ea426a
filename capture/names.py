"""What files are called over time."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import NamedTuple

from iotrace.capture.paths import PathTable, moved

UNKNOWN = -1
NAMELESS = 0x10000  # in the flags of a "file": it had no name (any more) when it was described


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
    flags: int
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
        """Start before the first event."""
        self.paths = paths
        self.last: dict[int, int] = {}
        self.gone: set[int] = set()
        self.histories: dict[int, History] = {}
        self._holders: dict[str, int] = {}  # by name without links: who had it last

    def see(self, event: Event, identity: int) -> int:
        """Take one event in; return the file it is about."""
        if event.op in ("truncate", "stat", "getxattr"):
            return self.named(event.path, event.time_ns)
        if event.op == "file":
            self.call(identity, event.path, event.time_ns)
            if event.flags & NAMELESS:
                self.gone.add(identity)
        elif event.result == 0:
            self.change(event, identity)
        return identity

    def change(self, event: Event, identity: int) -> None:
        """Take in a call that changed names."""
        if event.op == "rename":
            self.rename(event, identity)
        elif event.op == "link" and identity >= 0:
            self.hold(identity, event.target, event.time_ns)
            if identity in self.gone:
                self.last[identity] = event.target
                self.gone.discard(identity)
        elif event.op == "unlink" and identity >= 0:
            was_last = event.address == 1  # name of the inode, whichever spelling of it
            if was_last or self.is_called(identity, event.path):
                self.gone.add(identity)

    def named(self, path: int, time_ns: int) -> int:
        """Return the file that has this name, -1 if it is not known."""
        history = self.histories.get(path)
        if history is None:
            return self._holders.get(self.paths.real(path), UNKNOWN)
        return history.at(time_ns)

    def is_called(self, identity: int, path: int) -> bool:
        """Return whether a path is the last name of a file, by whichever links."""
        last = self.last.get(identity, UNKNOWN)
        return last == path or (last >= 0 and self.paths.real(last) == self.paths.real(path))

    def call(self, identity: int, path: int, time_ns: int) -> None:
        """Give a file a name."""
        self.last[identity] = path
        self.gone.discard(identity)
        self.hold(identity, path, time_ns)

    def hold(self, identity: int, path: int, time_ns: int) -> None:
        """Let a path mean a file from now on."""
        self.histories.setdefault(path, History()).add(time_ns, identity)
        self._holders[self.paths.real(path)] = identity

    def rename(self, event: Event, identity: int) -> None:
        """Move a file, or all files of a folder, and forget the file that is replaced."""
        replaced = self.named(event.target, event.time_ns)
        if UNKNOWN != replaced != identity and self.is_called(replaced, event.target):
            self.gone.add(replaced)
        if identity >= 0:
            self.call(identity, event.target, event.time_ns)
            return
        folder, target = self.paths[event.path], self.paths[event.target]
        real = self.paths.real(event.path)
        for file, path in list(self.last.items()):
            new_path = moved(self.paths[path], folder, target)
            if new_path is None and self.paths.has_links:
                new_path = moved(self.paths.real(path), real, target)
            if new_path is not None and file not in self.gone:
                self.call(file, self.paths.code(new_path), event.time_ns)
