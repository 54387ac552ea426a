"""A sequence that keeps columns, and makes an object of a row when it is asked for one."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import TypeVar, overload

RowT = TypeVar("RowT")


class LazyRows(Sequence[RowT]):
    """Base of a class that has columns and tells its length; equal if all rows are."""

    @abstractmethod
    def row(self, place: int) -> RowT:
        """Return one row, by its place from 0 on."""

    @overload
    def __getitem__(self, index: int) -> RowT: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[RowT, ...]: ...

    def __getitem__(self, index: int | slice) -> RowT | tuple[RowT, ...]:
        places = range(len(self))[index]
        if isinstance(places, int):
            return self.row(places)
        return tuple(map(self.row, places))

    def __eq__(self, other: object) -> bool:
        return tuple(self) == tuple(other) if isinstance(other, type(self)) else NotImplemented

    __hash__ = None  # type: ignore[assignment]
