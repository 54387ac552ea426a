"""Records by columns, each stored in a type as narrow as the values it was given."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Column = npt.NDArray[Any]

_AT_A_TIME = 4096  # records that stay in the processor's cache while their fields are copied


@dataclass(frozen=True, eq=False)
class Table:
    """An immutable table of records. A column is read in the type of the record's field.

    Most fields of most records are small, or the same all over. So are they stored; only a look
    at them widens them, and arithmetic is done on what is wide.

    Attributes:
        count: number of records.
        stored: per field its values or, where all are alike, one of no dimension.

    A subclass says what its records are:
        RECORD: the C struct that they are lowered to.
        DEFAULTS: their fields, and what each is where it is not given.
    """

    count: int
    stored: Mapping[str, Column]

    RECORD: ClassVar[np.dtype[np.void]]
    DEFAULTS: ClassVar[Mapping[str, int]]

    @classmethod
    def of(cls, count: int, **columns: npt.ArrayLike) -> Self:
        """Return records with these columns, or one value for all; other fields are default."""
        return cls(count, _narrowed({**cls.DEFAULTS, **columns}, count))

    @classmethod
    def joined(cls, *parts: Self) -> Self:
        """Return the records of all parts, one after the other."""
        ends = np.cumsum([part.count for part in parts]).tolist()
        places = [slice(end - part.count, end) for part, end in zip(parts, ends, strict=True)]
        return cls.placed(parts, places)

    @classmethod
    def placed(cls, parts: Sequence[Self], places: Sequence[Ints | slice]) -> Self:
        """Return the records of all parts, each part's at its places; every place is taken."""
        some = [(part, place) for part, place in zip(parts, places, strict=True) if part.count]
        columns = {}
        for name in cls.DEFAULTS:
            own = [(part.stored[name], place) for part, place in some]
            columns[name] = _placed(own, sum(part.count for part, _ in some))
        return cls(sum(part.count for part in parts), columns)

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, name: str) -> Column:
        """Return a column, read-only: another one is put in its place by `having`."""
        column = self.stored[name].astype(self.RECORD[name], copy=False)
        column = column.view() if column.ndim else np.broadcast_to(column, self.count)
        column.flags.writeable = False
        return column

    def at(self, name: str, index: Ints) -> Column:
        """Return a column of the records at `index`."""
        column, dtype = self.stored[name], self.RECORD[name]
        if not column.ndim:
            return np.full(len(index), column, dtype)
        return column.take(index).astype(dtype, copy=False)

    @property
    def nbytes(self) -> int:
        """Memory that the columns take, in bytes."""
        return sum(column.nbytes for column in self.stored.values())

    def take(self, index: Ints, **columns: npt.ArrayLike) -> Self:
        """Return the records at `index`, with these columns in place of their own."""
        run = _run(index)
        taken = {
            name: column if not column.ndim else column.take(index) if run is None else column[run]
            for name, column in self.stored.items()
            if name not in columns
        }
        return type(self)(len(index), taken | _narrowed(columns, len(index)))

    def compress(self, mask: Mask) -> Self:
        """Return the records where `mask` is true."""
        kept = {name: c.compress(mask) if c.ndim else c for name, c in self.stored.items()}
        return type(self)(int(np.count_nonzero(mask)), kept)

    def having(self, **columns: npt.ArrayLike) -> Self:
        """Return the records with these columns, or one value for all, in place of their own."""
        return type(self)(self.count, {**self.stored, **_narrowed(columns, self.count)})

    def having_at(self, place: int | Ints | Mask, **values: npt.ArrayLike) -> Self:
        """Return the records with these values in those at `place`."""
        columns = {}
        for name, value in values.items():
            columns[name] = self[name].copy()
            columns[name][place] = value
        return self.having(**columns)

    def lowered(self) -> npt.NDArray[np.void]:
        """Return the records as C takes them, RECORD rows; what is no column of theirs is 0."""
        rows = np.zeros(self.count, self.RECORD)
        for first in range(0, self.count, _AT_A_TIME):
            some = slice(first, first + _AT_A_TIME)
            for name, column in self.stored.items():
                rows[name][some] = column[some] if column.ndim else column
        return rows


def _run(index: Ints) -> slice | None:
    """Return the slice that `index` is, if it is one: that copies nothing."""
    first, last = (int(index[0]), int(index[-1])) if len(index) else (0, -1)
    is_run = first >= 0 and last - first == len(index) - 1 and np.all(index[1:] > index[:-1])
    return slice(first, last + 1) if is_run else None


def narrow(column: Column) -> Column:
    """Return the values in the narrowest type that holds them; one of no dimension if all alike.

    >>> narrow(np.array([3, 400])).dtype, narrow(np.array([-1, 3])).dtype
    (dtype('uint16'), dtype('int8'))
    >>> narrow(np.array([7, 7, 7])).shape
    ()
    """
    if not column.size:
        return column.astype(np.uint8)
    least, most = int(column.min()), int(column.max())
    dtype = np.min_scalar_type(most if least >= 0 else min(least, -1 - most))
    if dtype == np.uint64:  # beside negative values it would be made a float
        dtype = np.dtype(np.int64)
    return np.array(least, dtype) if least == most else column.astype(dtype, copy=False)


def _narrowed(columns: Mapping[str, npt.ArrayLike], count: int) -> dict[str, Column]:
    """Return columns of `count` values each, or of one for all, narrow."""
    arrays = {name: np.asarray(column) for name, column in columns.items()}
    for name, column in arrays.items():
        if column.ndim and len(column) != count:
            raise ValueError(f"{len(column)} of {name} for {count} records")
    return {name: narrow(column) for name, column in arrays.items()}


def _placed(parts: Sequence[tuple[Column, Ints | slice]], count: int) -> Column:
    """Return one column of `count` values: of each part its values, or its one value, in place."""
    if not parts:
        return np.zeros(0, np.uint8)
    columns = [column for column, _ in parts]
    if all(column.ndim == 0 and column == columns[0] for column in columns):
        return columns[0]
    whole = np.empty(count, np.result_type(*columns))
    for column, place in parts:
        whole[place] = column
    return whole
