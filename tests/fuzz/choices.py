"""Choices that bytes make, so that whoever changes the bytes changes the choices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

_Any = TypeVar("_Any")


class Chooser(Protocol):
    """What generators ask of `random.Random`."""

    def random(self) -> float:
        """Return a number from 0 to below 1."""

    def randrange(self, start: int, stop: int | None = None, /) -> int:
        """Return an integer below `start`, or from `start` to below `stop`."""

    def choice(self, seq: Sequence[_Any], /) -> _Any:
        """Return one of `seq`."""


class Choices:
    """A chooser that takes its decisions from bytes; when they are used up, the first of each."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._place = 0

    def _next(self, size: int) -> int:
        taken = self._content[self._place : self._place + size]
        self._place += size
        return int.from_bytes(taken, "little")

    def random(self) -> float:
        """Return a number from 0 to below 1."""
        return self._next(1) / 256

    def randrange(self, start: int, stop: int | None = None, /) -> int:
        """Return an integer below `start`, or from `start` to below `stop`."""
        low, high = (0, start) if stop is None else (start, stop)
        span = high - low
        return low + self._next(1 if span <= 256 else 8) % span

    def choice(self, seq: Sequence[_Any], /) -> _Any:
        """Return one of `seq`."""
        return seq[self.randrange(len(seq))]
