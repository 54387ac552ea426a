"""Distinct values and their codes, for columns that repeat few values many times."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

V = TypeVar("V", bound=Hashable)


class Vocabulary(Generic[V]):
    """Values numbered in order of first use."""

    def __init__(self, values: Iterable[V] = ()) -> None:
        """Start with some values, in order."""
        self._codes: dict[V, int] = {}
        self._values: list[V] = []
        for value in values:
            self.code(value)

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, code: int) -> V:
        return self._values[code]

    def code(self, value: V | None) -> int:
        """Return the code of a value, a new one if need be; -1 for None."""
        if value is None:
            return -1
        code = self._codes.setdefault(value, len(self._values))
        if code == len(self._values):
            self._values.append(value)
        return code

    def codes(self, values: Iterable[V | None]) -> npt.NDArray[np.int32]:
        """Return the codes of several values."""
        return np.array([self.code(value) for value in values], np.int32)

    def find(self, value: V) -> int:
        """Return the code of a value, -1 if it is not known."""
        return self._codes.get(value, -1)

    def values(self) -> list[V]:
        """Return the values; a code is the index of one."""
        return list(self._values)
