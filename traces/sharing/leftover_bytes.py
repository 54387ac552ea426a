"""Search the bytes of a shared file: as they are, each page unpacked, and what is beside them."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from iotrace.traces.errors import TraceFormatError
from iotrace.traces.foreign_json import parse_foreign_json, texts_in
from iotrace.traces.location import Location, one_line
from iotrace.traces.parquet_pages import chunks, footer, pages, unpack
from iotrace.traces.schema import COLUMNS, METADATA_KEY, TEXT_COLUMNS
from iotrace.traces.sharing.arrow_schema import ARROW_KEY, arrow_schema, more_than_repeats
from iotrace.traces.sharing.leftover_search import Leftover, Search

_CREATED_BY = re.compile(rb"parquet-cpp-arrow version \d{1,3}(\.\d{1,3}){1,3}(-SNAPSHOT)?")
_STEP_BYTES, _OVERLAP_BYTES = 1 << 24, 1 << 13  # no text is longer than a path


def search_bytes(file: Location, search: Search) -> Iterator[Leftover]:
    """Yield what is in the bytes of a file: as they are, unpacked, and outside of the columns."""
    path = file.paths[0]
    try:
        with file.open(path) as source:
            described = pq.read_metadata(source)
            coded = (described.metadata or {}).get(ARROW_KEY, b"")
            plain = footer(source).replace(coded, b"") if coded else footer(source)
            yield from search.in_text("the footer and its statistics", plain)
            size = source.size()
            for begin in range(0, size, _STEP_BYTES):
                part = source.read_at(min(_STEP_BYTES + _OVERLAP_BYTES, size - begin), begin)
                yield from search.in_binary("the file as it is", part)
            for chunk in chunks(source):
                for page in pages(source, chunk):
                    content = unpack(source, chunk, page)
                    is_text = chunk.column in TEXT_COLUMNS and page.is_plain
                    look = search.in_text if is_text else search.in_binary
                    yield from look(f"a page of column {chunk.column}", content)
            yield from _outside_columns(described, search)
    except (OSError, ValueError, pa.ArrowException, MemoryError) as error:
        raise TraceFormatError(f"{path} cannot be searched ({one_line(error)})") from error


def _outside_columns(described: pq.FileMetaData, search: Search) -> Iterator[Leftover]:
    for name in described.schema.names:
        if name not in (*COLUMNS, "element"):
            yield Leftover("a column", name)
    if not _CREATED_BY.fullmatch(described.created_by.encode()):
        yield Leftover("created_by", described.created_by)
    stored = described.metadata or {}
    for key, value in stored.items():
        if key == METADATA_KEY:
            said = "\0".join(texts_in(parse_foreign_json(value)))
            yield from search.in_text("the metadata", said.encode("utf-8", "surrogatepass"))
        elif key == ARROW_KEY:
            message = arrow_schema(value)
            yield from more_than_repeats(message, stored.get(METADATA_KEY, b""))
            yield from search.in_text("the schema of Arrow", message)
        else:
            yield Leftover("a key of the file", key.decode(errors="replace"))
