"""A trace as an immutable value: rows of the schema's columns, and metadata."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from iotrace.traces.columns import (
    CodeArray,
    Column,
    IntArray,
    Ints,
    Mask,
    Shapes,
    Strings,
    to_arrow,
)
from iotrace.traces.metadata import Metadata
from iotrace.traces.schema import SCHEMA
from iotrace.traces.text import decode_path

__all__ = ["Column", "Ints", "Shapes", "Strings", "Trace"]

_MOST_ELEMENTS = 1 << 58
_DEFAULTS: Mapping[str, int] = {"rank": -1, "process": 0, "thread": 0}


@dataclass(frozen=True, eq=False)
class Trace:
    """Rows sorted by `start_ns`, and what is known about them.

    Attributes:
        table: the rows; columns in schema order, some missing after a projection. For use
            inside `iotrace.traces`; elsewhere the methods give numpy arrays and lists.
        metadata: the trace's description of itself.
    """

    table: pa.Table
    metadata: Metadata
    _words: dict[str, list[str]] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def from_columns(cls, columns: Mapping[str, Column], metadata: Metadata) -> "Trace":
        """Build a trace from columns of equal length, in any row order.

        Columns that are not given become null; `rank` becomes -1, `process` and `thread` 0,
        and `seq` the order of the rows as given. Rows are sorted by `start_ns`, stably.

        Args:
            columns: by name; `layer`, `op` and `start_ns` are required.
            metadata: stored as it is.

        Raises:
            ValueError: a column is unknown, missing, or of another length; a value is out of
                range, or null where the schema has no nulls.
            TypeError: text given for a column of integers, or the reverse.
        """
        unknown = columns.keys() - set(SCHEMA.names)
        missing = {"layer", "op", "start_ns"} - columns.keys()
        if unknown or missing:
            raise ValueError(f"columns unknown: {sorted(unknown)}, missing: {sorted(missing)}")
        rows = len(columns["start_ns"])
        arrays = [_build(field, columns.get(field.name), rows) for field in SCHEMA]
        return cls(sort_rows(pa.Table.from_arrays(arrays, schema=SCHEMA)), metadata)

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @property
    def size_bytes(self) -> int:
        """Memory that the rows take."""
        return int(self.table.nbytes)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns at hand, in schema order."""
        return tuple(self.table.column_names)

    def ints(self, name: str, null: int = -1) -> IntArray:
        """Return integer column `name` with `null` in place of nulls.

        The type is int64; uint64 for `address`, where -1 is 2^64-1. The array is read-only.
        """
        column = self._column(name)
        unsigned = column.type == pa.uint64()
        if not pa.types.is_integer(column.type):
            raise TypeError(f"column {name!r} is not of integers")
        if column.null_count:
            column = column.fill_null(pa.scalar(null % 2**64 if unsigned else null, column.type))
        values = column.to_numpy().astype(np.uint64 if unsigned else np.int64, copy=False)
        values.flags.writeable = False
        return values  # type: ignore[no-any-return]

    def valid(self, name: str) -> Mask:
        """Return which rows of column `name` are not null."""
        return np.asarray(self._column(name).is_valid().to_numpy())

    def distinct(self, name: str) -> tuple[int, ...]:
        """Return the values of a column of numbers from 0 on, sorted, each once."""
        values = self.ints(name)
        return tuple(np.unique(values[values >= 0]).tolist())

    def codes(self, name: str) -> tuple[CodeArray, list[str]]:
        """Return text column `name` as codes and the distinct texts they index; -1 is null.

        A text may be listed that no row uses.
        """
        if name not in self._words:
            words = _dictionary(self._column(name)).dictionary.to_pylist()
            self._words[name] = [decode_path(word) for word in words]
        return self.text_codes(name), self._words[name].copy()

    def text_codes(self, name: str) -> CodeArray:
        """Return the codes of text column `name` alone; -1 is null."""
        codes = _dictionary(self._column(name)).indices
        if codes.null_count:
            codes = codes.fill_null(-1)
        return np.asarray(codes.to_numpy(zero_copy_only=False))

    def text(self, name: str, code: int) -> str:
        """Return one of the texts of column `name`."""
        return decode_path(_dictionary(self._column(name)).dictionary[code].as_py())

    def text_at(self, name: str, row: int) -> str | None:
        """Return text column `name` of one row."""
        value = self._column(name)[row].as_py()
        return None if value is None else decode_path(value)

    def has_distinct_texts(self, name: str) -> bool:
        """Return whether no two codes of text column `name` stand for one text."""
        words = _dictionary(self._column(name)).dictionary
        return len(words.unique()) == len(words)

    def strings(self, name: str) -> list[str | None]:
        """Return text column `name`, one object per row."""
        codes, values = self.codes(name)
        lookup: list[str | None] = [*values, None]  # code -1 is the last
        return [lookup[code] for code in codes.tolist()]

    def shapes(self) -> list[tuple[int, ...] | None]:
        """Return the column `shape`, one object per row."""
        return [None if row is None else tuple(row) for row in self._column("shape").to_pylist()]

    def element_counts(self) -> IntArray:
        """Return how many elements each row's `shape` has, at most 2^58; -1 where it is null."""
        column = self._column("shape")
        sizes = pc.list_value_length(column).fill_null(0).to_numpy()
        begins = (np.cumsum(sizes) - sizes)[sizes > 0]
        counts = np.where(self.valid("shape"), 1, -1)
        if len(begins):
            extents = pc.list_flatten(column).to_numpy()
            # A stranger's shapes may be of any product.
            large = np.multiply.reduceat(extents.astype(np.float64), begins)
            exact = np.multiply.reduceat(extents, begins)
            counts[sizes > 0] = np.where(np.abs(large) < _MOST_ELEMENTS, exact, _MOST_ELEMENTS)
        return counts

    def where(self, mask: Mask) -> "Trace":
        """Return the rows where `mask` is true, with the same metadata."""
        if mask.all():
            return self
        return Trace(self.table.filter(pa.array(mask)), self.metadata)

    def between(self, first: int, end: int) -> "Trace":
        """Return the rows from `first` on, before `end`."""
        return Trace(self.table.slice(first, end - first), self.metadata)

    def layer(self, *names: str) -> "Trace":
        """Return the rows of the named layers."""
        return self.where(self.row_mask(layer=names))

    def row_mask(
        self, layer: str | Iterable[str] | None = None, op: str | Iterable[str] | None = None
    ) -> Mask:
        """Return which rows are of (one of) `layer` and (one of) `op`; `None` is any."""
        wanted = (("layer", layer), ("op", op))
        masks = [self._is_one_of(name, values) for name, values in wanted if values is not None]
        return reduce(np.logical_and, masks, np.ones(len(self), np.bool_))

    @property
    def is_request(self) -> Mask:
        """Which rows are requests; of a result, the replayed ones."""
        recorded = self.row_mask(layer="request")
        return recorded if recorded.any() else self.row_mask(layer="replay")

    def with_metadata(self, metadata: Metadata) -> "Trace":
        """Return the same rows with other metadata."""
        return Trace(self.table, metadata)

    def with_columns(self, columns: Mapping[str, Column]) -> "Trace":
        """Return the same rows with some columns replaced, sorted by `start_ns` again."""
        arrays = {name: self.table.column(name) for name in self.columns}
        for name, column in columns.items():
            arrays[name] = _build(SCHEMA.field(name), column, len(self))
        fields = [field for field in SCHEMA if field.name in arrays]
        table = pa.Table.from_arrays([arrays[f.name] for f in fields], schema=pa.schema(fields))
        return Trace(sort_rows(table), self.metadata)

    def _column(self, name: str) -> pa.ChunkedArray:
        try:
            return self.table.column(name)
        except KeyError:
            problem = f"column {name!r} is not at hand; there are {self.columns}"
            raise ValueError(problem) from None

    def _is_one_of(self, name: str, wanted: str | Iterable[str]) -> Mask:
        names = {wanted} if isinstance(wanted, str) else set(wanted)
        codes, values = self.codes(name)
        chosen = np.array([*(value in names for value in values), False])  # code -1 is the last
        return np.asarray(chosen[codes])


def sort_rows(table: pa.Table) -> pa.Table:
    """Return `table` sorted by `start_ns`, rows of equal time in the order they had."""
    start_ns = table.column("start_ns").to_numpy()
    if np.all(start_ns[:-1] <= start_ns[1:]):
        return table
    return table.take(pa.array(np.argsort(start_ns, kind="stable")))


def _build(field: pa.Field, column: Column | None, rows: int) -> pa.Array:
    if column is None:
        return _default(field, rows)
    if len(column) != rows:
        raise ValueError(f"column {field.name!r} has {len(column)} rows, start_ns has {rows}")
    array = to_arrow(column, field.type)
    if array.null_count and not field.nullable:
        raise ValueError(f"column {field.name!r} has nulls, which the schema forbids")
    return array


def _default(field: pa.Field, rows: int) -> pa.Array:
    if field.name == "seq":
        return pa.array(np.arange(rows, dtype=np.int64))
    if field.name in _DEFAULTS:
        return pa.array(np.full(rows, _DEFAULTS[field.name], np.int32))
    return pa.nulls(rows, field.type)


def _dictionary(column: pa.ChunkedArray) -> pa.DictionaryArray:
    """Return `column` as one dictionary array."""
    if pa.types.is_string(column.type):
        column = column.dictionary_encode()
    if not pa.types.is_dictionary(column.type):
        raise TypeError(f"column of {column.type} is not of text")
    whole: Any = column.unify_dictionaries().combine_chunks()
    if isinstance(whole, pa.ChunkedArray):  # no chunk, in some versions
        return pa.array([], column.type)
    return whole
