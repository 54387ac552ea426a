"""The pages of a Parquet file, found by its footer and their own headers, with nothing trusted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from iotrace.traces.thrift import ThriftError, ThriftReader, Wanted

MAX_FOOTER_BYTES = 128 << 20
_MAGIC = b"PAR1"
_HEADER_GUESS_BYTES, _MAX_HEADER_BYTES = 512, 1 << 20
# Even a page index made for point look-ups has pages of some hundred rows.
_VALUES_PER_PAGE, _SPARE_PAGES = 128, 1000

# Field ids of parquet.thrift.
_ROW_GROUPS, _COLUMNS, _CHUNK = 4, 1, 3
_PATH, _CODEC, _VALUES, _CHUNK_BYTES, _DATA_AT, _DICTIONARY_AT = 3, 4, 5, 7, 9, 11
_OF_CHUNK = (_PATH, _CODEC, _VALUES, _CHUNK_BYTES, _DATA_AT, _DICTIONARY_AT)
_CHUNK_FIELDS: Wanted = {field: {} for field in _OF_CHUNK}
_FOOTER: Wanted = {_ROW_GROUPS: {_COLUMNS: {_CHUNK: _CHUNK_FIELDS}}}
_UNPACKED_BYTES, _PACKED_BYTES, _DATA_PAGE, _DATA_PAGE_V2 = 2, 3, 5, 8
_PAGE_VALUES = 1
_PAGE_ENCODING = {_DATA_PAGE: 2, _DATA_PAGE_V2: 4}
_V2_LEVELS, _V2_COMPRESSED = (5, 6), 7
_PAGE: Wanted = {
    _UNPACKED_BYTES: {},
    _PACKED_BYTES: {},
    _DATA_PAGE: {_PAGE_VALUES: {}, 2: {}},
    _DATA_PAGE_V2: {_PAGE_VALUES: {}, 4: {}, 5: {}, 6: {}, 7: {}},
}
_CODECS = {1: "snappy", 2: "gzip", 4: "brotli", 6: "zstd", 7: "lz4_raw"}
_PLAIN = 0
_DELTA_BYTE_ARRAY = 7  # shared prefixes: unpacks to any size, and no writer's default


@dataclass(frozen=True)
class Chunk:
    """The pages of one column in one row group: `[start, start + length)` of the file."""

    group: int
    column: str
    codec: int
    values: int
    start: int
    length: int


@dataclass(frozen=True)
class Page:
    """One page; its content is `[start, start + packed_bytes)`.

    `values` is 0 for a dictionary; `is_plain` tells whether values stand in it one after another.
    """

    values: int
    is_plain: bool
    start: int
    packed_bytes: int
    unpacked_bytes: int
    plain_bytes: int
    is_packed: bool


def footer(source: pa.NativeFile) -> bytes:
    """Return the footer of a Parquet file as it is stored.

    Raises:
        ValueError: there is none.
    """
    file_bytes = source.size()
    tail = source.read_at(8, max(0, file_bytes - 8))
    footer_bytes = int.from_bytes(tail[:4], "little")
    if tail[4:] != _MAGIC or footer_bytes > min(file_bytes - 12, MAX_FOOTER_BYTES):
        raise ValueError("no footer of a Parquet file")
    return bytes(source.read_at(footer_bytes, file_bytes - 8 - footer_bytes))


def chunks(source: pa.NativeFile) -> Iterator[Chunk]:
    """Yield the column chunks of a Parquet file.

    Raises:
        ValueError: the footer is damaged.
    """
    file_bytes = source.size()
    groups = _items(ThriftReader(footer(source)).struct(_FOOTER), _ROW_GROUPS)
    for number, group in enumerate(groups):
        for column in _items(group, _COLUMNS):
            chunk = _expect(column.get(_CHUNK), dict)
            path = [_expect(part, bytes) for part in _expect(chunk.get(_PATH), list)]
            start = _natural(chunk, _DATA_AT)
            dictionary_at = chunk.get(_DICTIONARY_AT, 0)
            if isinstance(dictionary_at, int) and 0 < dictionary_at < start:
                start = dictionary_at
            length = _natural(chunk, _CHUNK_BYTES)
            if start + length > file_bytes:
                raise ValueError("a column reaches past the end of the file")
            name = path[0].decode() if path else ""
            codec, values = _natural(chunk, _CODEC), _natural(chunk, _VALUES)
            yield Chunk(number, name, codec, values, start, length)


def pages(source: pa.NativeFile, chunk: Chunk) -> Iterator[Page]:
    """Yield the pages of `chunk` in order.

    Raises:
        ValueError: a header is damaged, or made to mislead.
    """
    position, values, end = chunk.start, 0, chunk.start + chunk.length
    pages_left = _SPARE_PAGES + chunk.values // _VALUES_PER_PAGE
    while values < chunk.values and position < end:
        header, header_bytes = _page_header(source, position, end)
        page = _page(header, position + header_bytes)
        yield page
        values += page.values
        position = page.start + page.packed_bytes
        pages_left -= 1
        if pages_left < 0:
            raise ValueError("a column of very many pages")


def unpack(source: pa.NativeFile, chunk: Chunk, page: Page) -> bytes:
    """Return the content of a page, uncompressed.

    Raises:
        ValueError: it is damaged, or compressed in a way that is not known here.
    """
    stored = source.read_at(page.packed_bytes, page.start)
    if chunk.codec == 0 or not page.is_packed:
        return bytes(stored)
    if chunk.codec not in _CODECS:
        raise ValueError(f"pages compressed by method {chunk.codec}, which is not known here")
    plain, packed = stored[: page.plain_bytes], stored[page.plain_bytes :]
    size = page.unpacked_bytes - page.plain_bytes
    if size < 0:
        raise ValueError("a page of less than nothing")
    content = pa.Codec(_CODECS[chunk.codec]).decompress(packed, size) if size else b""
    return bytes(plain) + bytes(content)


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


def _page(header: dict[int, Any], start: int) -> Page:
    values = plain_bytes = 0
    is_packed = is_plain = True  # so is a dictionary
    for kind, encoding in _PAGE_ENCODING.items():
        if kind not in header:
            continue
        data = _expect(header[kind], dict)
        if data.get(encoding) == _DELTA_BYTE_ARRAY:
            raise ValueError("text in the encoding DELTA_BYTE_ARRAY, which is not read here")
        values = _natural(data, _PAGE_VALUES)
        is_plain = data.get(encoding) == _PLAIN
        if kind == _DATA_PAGE_V2:
            plain_bytes = sum(_natural(data, field) for field in _V2_LEVELS)
            is_packed = data.get(_V2_COMPRESSED) is not False
        break
    return Page(
        values=values,
        is_plain=is_plain,
        start=start,
        packed_bytes=_natural(header, _PACKED_BYTES),
        unpacked_bytes=_natural(header, _UNPACKED_BYTES),
        plain_bytes=plain_bytes,
        is_packed=is_packed,
    )


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
