"""Which file a name means, as time goes by."""

from collections.abc import Iterator

from iotrace.replay.paths import ancestors


class Names:
    """Names bound to files, and directories that are there, at one moment of a walk."""

    def __init__(self) -> None:
        self._files: dict[str, int] = {}
        self._directories: set[str] = set()
        self._entered: set[str] = set()  # directories there with all that are above them

    def file(self, name: str) -> int | None:
        """Return the file that `name` means now."""
        return self._files.get(name)

    def bind(self, name: str, file: int) -> None:
        """Let `name` mean `file` from now on."""
        self._files[name] = file

    def unbind(self, name: str) -> int | None:
        """Let `name` mean nothing; return what it meant."""
        return self._files.pop(name, None)

    def has_directory(self, name: str) -> bool:
        """Return whether the directory is known to be there."""
        return name in self._directories

    def enter(self, name: str) -> list[str]:
        """Learn that the directories above `name` are there; return those that are news."""
        parent = name.rpartition("/")[0]
        if parent in self._entered:
            return []
        news = [above for above in ancestors(name) if above not in self._directories]
        self._directories.update(news)
        self._entered.add(parent)
        return news

    def add_directory(self, name: str) -> None:
        """Learn that a directory is there."""
        self._directories.add(name)

    def remove_directory(self, name: str) -> None:
        """Learn that a directory is gone."""
        self._directories.discard(name)
        self._entered.clear()

    def holds_anything(self, directory: str) -> bool:
        """Return whether a name or a directory lies below `directory`."""
        below = directory + "/"
        return any(name.startswith(below) for name in (*self._files, *self._directories))

    def move_directory(self, source: str, target: str) -> None:
        """Move everything below `source`."""
        below = source + "/"
        for name in [name for name in self._files if name.startswith(below)]:
            self._files[target + name[len(source) :]] = self._files.pop(name)
        moved = {name for name in self._directories if name == source or name.startswith(below)}
        self._entered.clear()
        self._directories -= moved
        self._directories |= {target + name[len(source) :] for name in moved}

    def items(self) -> Iterator[tuple[str, int]]:
        """Iterate over the names and the files they mean."""
        return iter(self._files.items())
