"""Read Thrift's compact protocol, of which Parquet's footer and page headers are made.

Nothing is trusted: every length is checked against the bytes at hand. A struct becomes a dict from
field id to value that holds only the fields asked for; the others are skipped unbuilt.
"""

from collections.abc import Mapping
from typing import Any, TypeAlias

# Fields to keep of a struct, by id, each with the fields to keep of the structs in it.
Wanted: TypeAlias = Mapping[int, "Wanted"]

_MAX_DEPTH = 32
_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _TEXT, _LIST, _SET, _MAP, _STRUCT = range(1, 13)


class ThriftError(ValueError):
    """The bytes are no Thrift, or end too early."""


class ThriftReader:
    """A position in `data`; every call moves it past what was read."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0

    def struct(self, wanted: Wanted, depth: int = 0) -> dict[int, Any]:
        """Read a struct and return its fields in `wanted`."""
        if depth > _MAX_DEPTH:
            raise ThriftError("nested too deeply")
        found: dict[int, Any] = {}
        field = 0
        while head := self._byte():
            step, kind = head >> 4, head & 15
            field = field + step if step else self._signed()
            if kind in (_TRUE, _FALSE):  # a field of truth is its own value
                value: Any = kind == _TRUE
            else:
                value = self._value(kind, wanted.get(field), depth)
            if field in wanted:
                found[field] = value
        return found

    def _value(self, kind: int, wanted: Wanted | None, depth: int) -> Any:
        if kind in (_I16, _I32, _I64):
            return self._signed()
        if kind == _TEXT:
            return self._take(self._unsigned())
        if kind == _STRUCT:
            return self.struct(wanted or {}, depth + 1)
        if kind in (_LIST, _SET):
            return self._list(wanted, depth + 1)
        if kind == _DOUBLE:
            return self._take(8)
        if kind in (_TRUE, _FALSE, _BYTE):  # an item of a list has its byte
            return self._byte()
        raise ThriftError(f"type {kind} is not in use by Parquet")

    def _list(self, wanted: Wanted | None, depth: int) -> list[Any]:
        if depth > _MAX_DEPTH:
            raise ThriftError("nested too deeply")
        head = self._byte()
        size, kind = head >> 4, head & 15
        if size == 15:
            size = self._unsigned()
        items = (self._value(kind, wanted, depth) for _ in range(size))
        return [item for item in items if wanted is not None]

    def _byte(self) -> int:
        return self._take(1)[0]

    def _unsigned(self) -> int:
        number = shift = 0
        while shift < 70:  # 64 bits in groups of 7
            byte = self._byte()
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
            shift += 7
        raise ThriftError("an integer of more than 64 bits")

    def _signed(self) -> int:
        number = self._unsigned()
        return (number >> 1) ^ -(number & 1)

    def _take(self, size: int) -> bytes:
        start, end = self.position, self.position + size
        if end > len(self.data):
            raise ThriftError("the data end too early")
        self.position = end
        return self.data[start:end]
