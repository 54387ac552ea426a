"""How much memory a Parquet file asks for, from its footer and page headers, before it is decoded.

Run lengths and zstd can hide a petabyte in a small file. pyarrow tells these sizes too, but ends
the process on some damaged footers (the accessor of a column chunk's metadata lets a C++ exception
escape), and it believes the footer where the pages count.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from iotrace.traces.thrift import ThriftError, ThriftReader, Wanted

MAX_FOOTER_BYTES = 128 << 20
_VALUE_BYTES = 8
_MAGIC = b"PAR1"
_HEADER_GUESS_BYTES, _MAX_HEADER_BYTES = 512, 1 << 20
# Even a page index made for point look-ups has pages of some hundred rows.
_VALUES_PER_PAGE, _SPARE_PAGES = 128, 1000

# Field ids of parquet.thrift.
_ROW_GROUPS, _COLUMNS, _CHUNK = 4, 1, 3
_PATH, _VALUES, _CHUNK_BYTES, _DATA_AT, _DICTIONARY_AT = 3, 5, 7, 9, 11
_FOOTER: Wanted = {
    _ROW_GROUPS: {
        _COLUMNS: {
            _CHUNK: {_PATH: {}, _VALUES: {}, _CHUNK_BYTES: {}, _DATA_AT: {}, _DICTIONARY_AT: {}}
        }
    }
}
_UNPACKED_BYTES, _PACKED_BYTES, _DATA_PAGE, _DATA_PAGE_V2 = 2, 3, 5, 8
_PAGE_VALUES = 1
_PAGE_ENCODING = {_DATA_PAGE: 2, _DATA_PAGE_V2: 4}
_PAGE: Wanted = {
    _UNPACKED_BYTES: {},
    _PACKED_BYTES: {},
    _DATA_PAGE: {_PAGE_VALUES: {}, 2: {}},
    _DATA_PAGE_V2: {_PAGE_VALUES: {}, 4: {}},
}
_DELTA_BYTE_ARRAY = 7  # shared prefixes: unpacks to any size, and no writer's default


@dataclass(frozen=True)
class _Chunk:
    """The pages of one column in one row group: `[start, start + length)` of the file."""

    column: str
    values: int
    start: int
    length: int


def needed_bytes(source: pa.NativeFile, columns: frozenset[str]) -> int:
    """Return an upper bound of the memory that decoding `columns` takes, in bytes.

    Raises:
        ValueError: the file is damaged, or made to mislead.
    """
    file_bytes = source.size()
    chunks = [c for c in _chunks(_footer(source, file_bytes)) if c.column in columns]
    return sum(_chunk_bytes(source, chunk, file_bytes) for chunk in chunks)


def _footer(source: pa.NativeFile, file_bytes: int) -> dict[int, Any]:
    tail = source.read_at(8, max(0, file_bytes - 8))
    footer_bytes = int.from_bytes(tail[:4], "little")
    if tail[4:] != _MAGIC or footer_bytes > min(file_bytes - 12, MAX_FOOTER_BYTES):
        raise ValueError("no footer of a Parquet file")
    footer = source.read_at(footer_bytes, file_bytes - 8 - footer_bytes)
    return ThriftReader(footer).struct(_FOOTER)


def _chunks(footer: dict[int, Any]) -> Iterator[_Chunk]:
    for group in _items(footer, _ROW_GROUPS):
        for column in _items(group, _COLUMNS):
            chunk = _expect(column.get(_CHUNK), dict)
            path = [_expect(part, bytes) for part in _expect(chunk.get(_PATH), list)]
            start = _natural(chunk, _DATA_AT)
            dictionary_at = chunk.get(_DICTIONARY_AT, 0)
            if isinstance(dictionary_at, int) and 0 < dictionary_at < start:
                start = dictionary_at
            name = path[0].decode() if path else ""
            yield _Chunk(name, _natural(chunk, _VALUES), start, _natural(chunk, _CHUNK_BYTES))


def _chunk_bytes(source: pa.NativeFile, chunk: _Chunk, file_bytes: int) -> int:
    end = chunk.start + chunk.length
    if end > file_bytes:
        raise ValueError("a column reaches past the end of the file")
    position, values, unpacked_bytes = chunk.start, 0, 0
    pages_left = _SPARE_PAGES + chunk.values // _VALUES_PER_PAGE
    while values < chunk.values and position < end:
        header, header_bytes = _page_header(source, position, end)
        values += _page_values(header)
        unpacked_bytes += _natural(header, _UNPACKED_BYTES)
        position += header_bytes + _natural(header, _PACKED_BYTES)
        pages_left -= 1
        if pages_left < 0:
            raise ValueError("a column of very many pages")
    return max(values, chunk.values) * _VALUE_BYTES + unpacked_bytes


def _page_header(source: pa.NativeFile, position: int, end: int) -> tuple[dict[int, Any], int]:
    guess_bytes = _HEADER_GUESS_BYTES
    while True:
        reader = ThriftReader(source.read_at(min(guess_bytes, end - position), position))
        try:
            return reader.struct(_PAGE), reader.position
        except ThriftError:
            if guess_bytes >= min(_MAX_HEADER_BYTES, end - position):
                raise
            guess_bytes *= 8


def _page_values(header: dict[int, Any]) -> int:
    for page, encoding in _PAGE_ENCODING.items():
        if page in header:
            data = _expect(header[page], dict)
            if data.get(encoding) == _DELTA_BYTE_ARRAY:
                raise ValueError("text in the encoding DELTA_BYTE_ARRAY, which is not read here")
            return _natural(data, _PAGE_VALUES)
    return 0  # of a dictionary or an index


def _items(struct: dict[int, Any], field: int) -> list[dict[int, Any]]:
    return [_expect(item, dict) for item in _expect(struct.get(field, []), list)]


def _natural(struct: dict[int, Any], field: int) -> int:
    number: int = _expect(struct.get(field), int)
    if number < 0:
        raise ValueError("a negative size")
    return number


def _expect(value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        raise ValueError("a footer or page header of wrong types")
    return value
