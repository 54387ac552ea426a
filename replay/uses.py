"""When keys, such as names and files, are first and last used, row by row."""

from collections.abc import Hashable, Iterator, Sequence
from itertools import islice

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_KEY_BYTES = 300  # of a key with its number and columns
NEVER = np.iinfo(np.int64).max


class Uses:
    """Keys, numbered as they are met; of each first and last use, whether it is tied, and more.

    Attributes:
        size_bytes: memory that they take, about.
    """

    def __init__(self, **more: int) -> None:
        self.size_bytes = 0
        self._numbers: dict[Hashable, int] = {}
        self._defaults = {"first": int(NEVER), "last": -1, "is_tied": 0, **more}
        self._columns = {name: np.zeros(0, np.int64) for name in self._defaults}

    def __getitem__(self, name: str) -> Ints:
        """Return a column, to be written to as well."""
        return self._columns[name][: len(self._numbers)]

    def keys(self) -> list[Hashable]:
        """Return the keys in the order of their numbers."""
        return [*self._numbers]

    def numbered(self, keys: Sequence[Hashable]) -> Ints:
        """Return the numbers of keys."""
        numbers, before = self._numbers, len(self._numbers)
        found = np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.int64)
        for key in islice(numbers, before, None):
            self.size_bytes += _KEY_BYTES + (len(key) if isinstance(key, str) else 0)
        room = len(self._columns["first"])
        if len(numbers) > room:
            more = 2 * len(numbers) - room
            for name, column in self._columns.items():
                added = np.full(more, self._defaults[name], np.int64)
                self._columns[name] = np.concatenate([column, added])
        return found

    def use(self, number: Ints, row: Ints) -> None:
        """Note that keys are used in rows."""
        np.minimum.at(self["first"], number, row)
        np.maximum.at(self["last"], number, row)

    def differs(self, column: str, number: Ints, value: Ints) -> Mask:
        """Return which keys have had another value in a column, and set those that had none."""
        known = self[column]
        fresh = known[number] < 0
        known[number[fresh]] = value[fresh]
        return np.asarray(known[number] != value)

    def tie(self, number: Ints) -> None:
        """Let all uses of keys lie in one part."""
        self["is_tied"][number] = 1

    def tied(self) -> Iterator[tuple[int, int]]:
        """Yield first and last use of what is tied."""
        chosen = (self["is_tied"] > 0) & (self["last"] >= 0)
        columns = (self[name][chosen].tolist() for name in ("first", "last"))
        yield from zip(*columns, strict=True)
