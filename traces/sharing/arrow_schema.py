"""The schema that Arrow stores beside Parquet's own: it may repeat a trace's, and say no more."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from iotrace.traces.schema import COLUMNS, METADATA_KEY
from iotrace.traces.sharing.leftover_search import Leftover

ARROW_KEY: Final = b"ARROW:schema"
_WHERE: Final = "the schema of Arrow"
_FIELD_ID: Final = b"PARQUET:field_id"
_BETWEEN = re.compile(r"[\s<>:,=]+")
# What Arrow calls the types that a column may be read from, and their parts.
_WORDS: Final = frozenset(
    (
        *("null", "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("halffloat", "float", "double", "string", "large_string", "string_view"),
        *("dictionary", "values", "indices", "ordered", "0", "1"),
        *("list", "large_list", "element", "item", "array", "not"),
    )
)


def arrow_schema(stored: bytes) -> bytes:
    """Return the bytes that Arrow keeps under its key, a message of its format for exchange.

    Raises:
        ValueError: they are not coded as Arrow does.
    """
    return base64.b64decode(stored, validate=True)


def more_than_repeats(message: bytes, metadata: bytes) -> Iterator[Leftover]:
    """Yield what a schema says besides names and types of columns, and the trace's `metadata`.

    Raises:
        ValueError, pyarrow.ArrowException: it is no schema.
    """
    schema = pa.ipc.read_schema(pa.py_buffer(message))
    for key, value in (schema.metadata or {}).items():
        if key != METADATA_KEY or value != metadata:
            yield Leftover(f"{_WHERE}, a key", key.decode(errors="replace"))
    for column in schema:
        words = (column.name, *_BETWEEN.split(str(column.type)))
        for word in words:
            if word and word not in _WORDS and word not in COLUMNS:
                yield Leftover(_WHERE, word)
        for field in _within(column):
            for key, value in (field.metadata or {}).items():
                if key != _FIELD_ID or not value.isdigit():
                    yield Leftover(f"{_WHERE}, a key", key.decode(errors="replace"))


def _within(field: pa.Field) -> Iterator[pa.Field]:
    yield field
    for i in range(field.type.num_fields):
        yield from _within(field.type.field(i))
