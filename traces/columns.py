"""Columns on their way into a trace: numpy arrays with nulls, without Arrow in sight."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from iotrace.traces.text import encode_path

V = TypeVar("V", bound=Hashable)
IntArray = npt.NDArray[np.int64]
CodeArray = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]
_INT64_MAX = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Ints:
    """Integers of which some are null: `valid[i]` false makes row i null."""

    values: npt.NDArray[Any]
    valid: Mask

    def __len__(self) -> int:
        return len(self.values)


@dataclass(frozen=True)
class Strings:
    """Text by reference: row i is `values[codes[i]]`, or null where the code is -1."""

    codes: CodeArray
    values: Sequence[str]

    def __len__(self) -> int:
        return len(self.codes)

    @classmethod
    def of(cls, rows: Sequence[str | None]) -> "Strings":
        """Return a column with one text per row, for short columns."""
        return cls(*_factorize(rows))

    @classmethod
    def constant(cls, value: str | None, rows: int) -> "Strings":
        """Return a column of `rows` times the same text (or null)."""
        code = -1 if value is None else 0
        return cls(np.full(rows, code, np.int32), [] if value is None else [value])


@dataclass(frozen=True)
class Shapes:
    """Shapes by reference: row i is `values[codes[i]]`, or null where the code is -1."""

    codes: CodeArray
    values: Sequence[tuple[int, ...]]

    def __len__(self) -> int:
        return len(self.codes)

    @classmethod
    def of(cls, rows: Sequence[tuple[int, ...] | None]) -> "Shapes":
        """Return a column with one shape per row, for short columns."""
        return cls(*_factorize(rows))


Column = npt.NDArray[Any] | Ints | Strings | Shapes


def ends_of(offset: IntArray, length: IntArray) -> IntArray:
    """Return the byte after each extent; int64 ends those of a hostile trace."""
    return np.asarray(offset + np.minimum(length, _INT64_MAX - np.maximum(offset, 0)))


def to_arrow(column: Column, target: pa.DataType) -> pa.Array:
    """Return `column` as an Arrow array of type `target`.

    Raises:
        TypeError: the column is of another kind than `target`.
        ValueError: a code is out of range.
        pyarrow.ArrowInvalid: an integer does not fit `target`.
    """
    if isinstance(column, Strings | Shapes) and column.codes.max(initial=-1) >= len(column.values):
        raise ValueError(f"code {column.codes.max()} is past the {len(column.values)} values")
    if isinstance(column, Strings):
        return _strings_to_arrow(column, target)
    if isinstance(column, Shapes):
        return _take(pa.array(column.values, target), column.codes)
    if not pa.types.is_integer(target):
        raise TypeError(f"expected Strings or Shapes for a column of {target}")
    return _ints_to_arrow(column, target)


def _ints_to_arrow(column: npt.NDArray[Any] | Ints, target: pa.DataType) -> pa.Array:
    if isinstance(column, np.ma.MaskedArray):
        column = Ints(column.data, ~np.ma.getmaskarray(column))
    if isinstance(column, Ints):
        return pa.array(column.values, mask=~column.valid).cast(target)
    return pa.array(column).cast(target)


def _strings_to_arrow(column: Strings, target: pa.DataType) -> pa.Array:
    stored = [encode_path(value) for value in column.values]
    if not pa.types.is_dictionary(target):
        return _take(pa.array(stored, target), column.codes)
    distinct = dict.fromkeys(stored)
    codes = column.codes
    if len(distinct) < len(stored):
        place = {value: i for i, value in enumerate(distinct)}
        renumbered = np.array([place[value] for value in stored], np.int32)
        codes = np.where(codes < 0, codes, renumbered[codes])
    indices = pa.array(codes.astype(np.int32, copy=False), mask=codes < 0)
    values = pa.array(distinct, pa.string())
    return pa.DictionaryArray.from_arrays(indices, values)


def _take(values: pa.Array, codes: CodeArray) -> pa.Array:
    return values.take(pa.array(codes, mask=codes < 0))


def _factorize(rows: Sequence[V | None]) -> tuple[CodeArray, list[V]]:
    places: dict[V, int] = {}
    codes = [-1 if row is None else places.setdefault(row, len(places)) for row in rows]
    return np.array(codes, np.int32), list(places)
