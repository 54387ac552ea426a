"""Which file each recorded name meant, and under which name a replay finds it."""

import os
from collections import Counter
from collections.abc import Iterable, Set
from typing import NamedTuple

from iotrace.replay.names import Names
from iotrace.replay.paths import folders_of, rebase


class Naming(NamedTuple):
    """What a request on names becomes: indices into files and paths; -1: none.

    `is_new`: an open that is known to make the file.
    """

    file: int = -1
    path: int = -1
    target: int = -1
    is_new: bool = False


class FileTable:
    """Follows opens, renames and removals in order of time, over all processes.

    A file is the file and not its name: what is written as `a.tmp` and renamed to `a` is read as
    one file, and `a` opened after its removal is another one. A name that leads to a file of
    another name, as symbolic links do, is replaced by that.
    """

    def __init__(self, recorded_paths: Iterable[str], folders: Set[str] = frozenset()) -> None:
        self.paths: list[str] = []
        self.file_count = 0
        self.surprises: Counter[str] = Counter()
        self._indices: dict[str, int] = {}
        self._names = Names()
        self._actual: dict[int, str] = {}
        self._hard: dict[str, int] = {}  # names besides the actual one, by hard links
        self._linked: set[int] = set()
        self._identities: dict[int, int] = {}
        self._links: dict[str, int] = {}
        self._gone: set[str] = set()
        self._left: dict[str, str | None] = {}  # directories renamed, to what, or removed
        self._relative: dict[str, str] = {path: rebase(path) for path in recorded_paths}
        self._directories = folders_of(self._relative.values()) | folders

    def learn(self, recorded: str) -> None:
        """Add a name that the trace did not have."""
        self._relative[recorded] = rebase(recorded)

    def is_folder(self, recorded: str) -> bool:
        """Return whether other recorded names lie below `recorded`."""
        return self._relative[recorded] in self._directories

    def open(self, recorded: str, flags: int, identity: int = -1) -> Naming:
        """Return the file that opening `recorded` gives.

        Args:
            recorded: its name.
            flags: of the open.
            identity: which file it was when recorded; -1: not known.
        """
        name = self._relative[recorded]
        if self._is_news(name, identity):
            self._names.enter(name)
            naming = self._begin(name, False, bool(flags & os.O_CREAT and flags & os.O_EXCL))
        else:
            naming = self._follow(recorded, flags, identity) or self._open(recorded, flags)
        if identity >= 0:
            self._identities[identity] = naming.file
        return naming

    def _is_news(self, name: str, identity: int) -> bool:
        """Return whether neither a name nor the file behind it has been met, as mostly."""
        return (
            self._names.file(name) is None
            and identity not in self._identities
            and name not in self._links
            and name not in self._gone
        )

    def _follow(self, recorded: str, flags: int, identity: int) -> Naming | None:
        """Return the file behind a name that is not its own."""
        name = self._relative[recorded]
        own = self._names.file(name)
        file = self._identities.get(identity, own if own is not None else self._links.get(name))
        exclusive = flags & os.O_CREAT and flags & os.O_EXCL
        if file is None or file == own or exclusive or not self._is_there(file):
            self._links.pop(name, None)
            return None
        if own is None:
            self._links[name] = file
            self.surprises["opens by another name of a file, by its own"] += 1
        return Naming(file, self._path(self._actual[file]))

    def _is_there(self, file: int) -> bool:
        return self._names.file(self._actual[file]) == file

    def _open(self, recorded: str, flags: int) -> Naming:
        name = self._enter(recorded)
        file = self._names.file(name)
        creates, exclusive = bool(flags & os.O_CREAT), bool(flags & os.O_EXCL)
        gone = name in self._gone
        if file is None:
            return self._begin(name, gone and not creates, creates and (gone or exclusive))
        if creates and exclusive:
            return self._begin(name, True, True)
        return Naming(file, self._path(name if name in self._hard else self._actual[file]))

    def find(self, recorded: str, identity: int = -1) -> Naming:
        """Return the file that `recorded` means, which was there before if it is news."""
        return self.open(recorded, os.O_RDONLY, identity)

    def rename(self, recorded: str, recorded_target: str, identity: int = -1) -> Naming | None:
        """Return what a rename works on; of a directory, no file; of a link or no-op, `None`."""
        link = self._links.get(self._relative[recorded])
        name = self._own_name(recorded, identity)
        if name is None and link is not None:
            self._links[self._relative[recorded_target]] = link
        if name is None:
            return None
        self._links.pop(self._relative[recorded_target], None)
        target = self._enter(recorded_target)
        file = self._names.file(name)
        if file is None and (name in self._directories or target in self._directories):
            return self._rename_directory(name, target)
        naming = self._meant(name, recorded)
        if name != target and self._names.file(target) == naming.file:
            return None  # POSIX: both names stay
        is_hard = self._hard.pop(name, None) is not None
        self._names.unbind(name)
        self._gone.add(name)
        self._release(target)
        if is_hard:
            self._hard[target] = naming.file
        else:
            self._actual[naming.file] = target
        self._names.bind(target, naming.file)
        return Naming(naming.file, naming.path, self._path(target))

    def link(self, recorded: str, recorded_target: str, identity: int = -1) -> Naming:
        """Return what a hard link works on.

        The file goes before its name, if it is known: one made with O_TMPFILE has none, and gets
        one by a link from /proc/self/fd.
        """
        file = self._identities.get(identity)
        if file is not None and self._is_there(file):
            own = self._names.file(self._relative[recorded]) == file
            naming = self.find(recorded) if own else Naming(file, self._path(self._actual[file]))
        else:
            naming = self.open(recorded, os.O_RDONLY, identity)
        target = self._enter(recorded_target)
        self._release(target)
        self._hard[target] = naming.file
        self._linked.add(naming.file)
        self._names.bind(target, naming.file)
        return Naming(naming.file, naming.path, self._path(target))

    def unlink(self, recorded: str, identity: int = -1) -> Naming | None:
        """Return what a removal works on; `None` if a link is removed that there is not."""
        name = self._own_name(recorded, identity)
        if name is None or (name in self._directories and self._names.file(name) is None):
            return None  # only a link to a directory is removed so
        naming = self._meant(name, recorded)
        self._release(name)
        self._gone.add(name)
        return naming

    def make_directory(self, recorded: str) -> Naming | None:
        """Return what to make; `None` if the replay has the directory already."""
        name = self._enter(recorded)
        if self._names.has_directory(name):
            self.surprises["directories made again, after a removal that was not recorded"] += 1
            return None
        self._names.add_directory(name)
        self._left.pop(name, None)
        return Naming(path=self._path(name))

    def sync_directory(self, recorded: str) -> Naming | None:
        """Return what to sync, the root having no name; `None` if the directory is gone by then."""
        name: str | None = self._relative.get(recorded, "")
        while name in self._left and not self._names.has_directory(name):
            name = self._left[name]
        if name is None:
            self.surprises["syncs of directories that were removed, left out"] += 1
            return None
        if not name:
            return Naming()
        self._names.enter(name)
        self._names.add_directory(name)
        return Naming(path=self._path(name))

    def remove_directory(self, recorded: str) -> Naming | None:
        """Return what to remove; `None` if the replay still has something in it."""
        name = self._enter(recorded)
        if self._names.holds_anything(name):
            self.surprises["directories not removed, for files removed unrecorded"] += 1
            return None
        self._names.remove_directory(name)
        self._left[name] = None
        return Naming(path=self._path(name))

    def _own_name(self, recorded: str, identity: int) -> str | None:
        """Return the name here of what loses `recorded`; `None` for a link, which is not here.

        A name through a link to its folder is the file's own: what it named was that file.
        """
        name = self._enter(recorded)
        link, file = self._links.pop(name, None), self._identities.get(identity)
        if file is not None and not self._is_there(file):
            file = None
        if link is not None and link != file:
            return None
        return name if file is None or self._names.file(name) is not None else self._actual[file]

    def _meant(self, name: str, recorded: str) -> Naming:
        file = self._names.file(name)
        if file is None or name == self._relative[recorded]:
            return self.find(recorded)
        return Naming(file, self._path(name))

    def _enter(self, recorded: str) -> str:
        name = self._relative[recorded]
        self._names.enter(name)
        return name

    def _path(self, name: str) -> int:
        index = self._indices.setdefault(name, len(self.paths))
        if index == len(self.paths):
            self.paths.append(name)
        return index

    def _begin(self, name: str, spare: bool, is_new: bool) -> Naming:
        """Start another file at `name`, with `spare` under a name that no other file had."""
        actual = name
        if spare:
            actual = f"{name}.iotrace-{self.file_count}"
            self.surprises["files that came or went unrecorded, under a name of their own"] += 1
        file = self.file_count
        self.file_count += 1
        self._release(name)
        self._names.bind(name, file)
        self._actual[file] = actual
        return Naming(file, self._path(actual), is_new=is_new)

    def _release(self, name: str) -> None:
        """Let `name` mean nothing; a file with another name goes on under that."""
        file = self._names.unbind(name)
        if file is None or self._hard.pop(name, None) is not None:
            return
        if file not in self._linked:
            return
        other = next((other for other, of in self._hard.items() if of == file), None)
        if other is not None:
            self._actual[file] = other
            del self._hard[other]

    def _rename_directory(self, name: str, target: str) -> Naming:
        self._names.move_directory(name, target)
        self._left[name] = target
        self._left.pop(target, None)
        below = name + "/"
        for hard in [hard for hard in self._hard if hard.startswith(below)]:
            self._hard[target + hard[len(name) :]] = self._hard.pop(hard)
        for moved, file in self._names.items():
            if moved.startswith(target + "/") and moved not in self._hard:
                base = self._actual[file].rpartition("/")[2]
                self._actual[file] = f"{moved.rpartition('/')[0]}/{base}"
        return Naming(path=self._path(name), target=self._path(target))
