"""Traces of wild values, as rows and as well-formed Parquet files."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from iotrace.traces.errors import TraceFormatError
from iotrace.traces.metadata import Metadata, Process
from iotrace.traces.schema import METADATA_KEY, OPS, SCHEMA
from iotrace.traces.trace import Trace, sort_rows
from tests.fuzz.choices import Chooser

INTS = (
    *(0, 1, 2, 3, 7, 4096, 1 << 20, 255, 65535),
    *(-1, -2, -4096, 2**31 - 1, -(2**31), 2**31, 2**32),
    *(2**40, 2**60, 2**61, 2**62, 2**63 - 1, -(2**63), 9 * 10**18),  # nine exabytes
)
WORDS = (
    *("/a", "/a/b", "/a/b.tmp", "/", "", ".", "..", "/..", "/a/../../x", "../../x"),
    *("/etc/passwd", "/proc/self/mem", "/dev/sda", "a\0b", "/n\nl", "/a//b/", "/" + "x" * 300),
    *("/" + "y/" * 300, "/\\xff", "/\\ud800", "\x1b[31m", "/" + "z" * 5000),
)
TAME_WORDS = ("/a", "/a/b", "/a/b.tmp", "/c", "/d/e/f")
OWN_WORDS = tuple({word for ops in OPS.values() for word in ops} | set(OPS))
CODECS = ("NONE", "snappy", "gzip", "zstd", "lz4")
PROCESSES = 2
# Values with which most rows mean something.
_TAME_INTS = {
    "rank": (0, 1, -1),
    "process": tuple(range(PROCESSES)),
    "thread": (0, 0, 1),
    "file": (0, 0, 1, 2),
    "offset": (0, 100, 4096, 8192, 5),
    "length": (100, 4096, 0, 8192, 4095),
    "result": (100, 4096, 0, 8192, -2, 4095),
    "flags": (0, 0o102, 0o1, 0o2, 0o1101, 0o40000, 1, 4),
    "step": (0, 0, 1),
}


def wild(rng: Chooser) -> bytes:
    """Return a well-formed Parquet file with the columns of a trace and any values in them."""
    rows = rng.choice((0, 1, 2, 5, 12, 40))
    names = [f.name for f in SCHEMA if rng.random() < (0.9 if f.nullable else 0.995)]
    columns: dict[str, Any] = {name: _column(name, rows, rng) for name in names}
    if rng.random() < 0.05:
        columns["surprise"] = pa.array(["x"] * rows)
    table = pa.table(columns)
    sink = io.BytesIO()
    with pq.ParquetWriter(
        sink,
        table.schema,
        compression=rng.choice(CODECS),
        use_dictionary=rng.random() < 0.7,
        data_page_version=rng.choice(("1.0", "2.0")),
        store_schema=rng.random() < 0.3,
    ) as writer:
        writer.add_key_value_metadata({METADATA_KEY: _metadata(rng)})
        writer.write_table(table, row_group_size=rng.choice((1, 3, 100)))
    return sink.getvalue()


def wild_trace(rng: Chooser) -> Trace:
    """Return what `read_trace` could return of a file of wild values: all columns, in type.

    Raises:
        TraceFormatError: the metadata are none.
    """
    tame = rng.random() < 0.7
    rows = rng.choice((1, 2, 4, 8, 16))
    metadata = Metadata.from_json(_metadata(rng))
    columns = []
    for field in SCHEMA:
        values = _column(field.name, rows, rng, tame)
        if pa.types.is_dictionary(field.type):
            values = values.dictionary_encode()
        values = values.cast(field.type)
        if values.null_count and not field.nullable:
            raise TraceFormatError("a column has nulls")
        columns.append(values)
    return Trace(sort_rows(pa.Table.from_arrays(columns, schema=SCHEMA)), metadata)


def _column(name: str, rows: int, rng: Chooser, tame: bool = False) -> pa.Array:
    field = SCHEMA.field(name)
    nulls = 0.0
    if field.nullable or (not tame and rng.random() >= 0.98):
        nulls = rng.choice((0.0, 0.2, 1.0))
    if name == "shape":
        return pa.array(
            [_maybe([rng.choice(INTS) for _ in range(rng.randrange(3))], nulls, rng)
             for _ in range(rows)],
            pa.list_(pa.int64()),
        )  # fmt: skip
    if pa.types.is_integer(field.type):
        return pa.array(_numbers(name, rows, nulls, rng, tame), field.type)
    texts = [_maybe(rng.choice(_words(name, rng, tame)), nulls, rng) for _ in range(rows)]
    return pa.array(texts, pa.string())


def _numbers(name: str, rows: int, nulls: float, rng: Chooser, tame: bool) -> list[int | None]:
    known = _TAME_INTS.get(name, range(4)) if tame else range(4)
    limits = np.iinfo(SCHEMA.field(name).type.to_pandas_dtype())
    if rng.random() < (0.9 if tame else 0.6):
        return [_maybe(rng.choice(known), nulls, rng) for _ in range(rows)]
    low, high = int(limits.min), int(limits.max)
    return [_maybe(min(max(rng.choice(INTS), low), high), nulls, rng) for _ in range(rows)]


def _words(name: str, rng: Chooser, tame: bool) -> Sequence[str]:
    own = name in ("layer", "op") and rng.random() < 0.9
    if own and name == "layer":
        return ("request", "replay", "tensor", *(("span", "counter") if tame else ()))
    if own:
        common = ("open", "write", "read", "write", "read", "close", "rename", "save", "load")
        return common if rng.random() < 0.5 else OWN_WORDS
    return TAME_WORDS if rng.random() < 0.6 else WORDS


def _maybe(value: Any, nulls: float, rng: Chooser) -> Any:
    return None if nulls and rng.random() < nulls else value


def _metadata(rng: Chooser) -> bytes:
    plain = Metadata(processes=(Process(1),) * PROCESSES).to_json()
    if rng.random() < 0.7:
        return plain
    tree: Any = json.loads(plain)
    for _ in range(rng.randrange(1, 4)):
        node = tree
        while isinstance(node, dict | list) and node:
            key = rng.choice(list(node) if isinstance(node, dict) else range(len(node)))
            if not isinstance(node[key], dict | list) or rng.random() < 0.4:
                node[key] = rng.choice((*INTS, *WORDS, None, True, [], {}, [[]], 1e300, 2**70))
                break
            node = node[key]
    return json.dumps(tree).encode()
