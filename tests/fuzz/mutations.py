"""Inputs that a stranger might send: damaged files, and whole files of wild values."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from iotrace.traces.metadata import Metadata, Process
from iotrace.traces.schema import METADATA_KEY, OPS, SCHEMA

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


def damage(content: bytes, rng: random.Random, others: Sequence[bytes]) -> bytes:
    """Return `content` with some bytes changed, moved, lost, repeated or taken from another."""
    data = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        if not data:
            break
        # The footer says how to read all the rest: half of the damage goes there.
        low = len(data) - min(len(data), 4096) if rng.random() < 0.5 else 0
        place = rng.randrange(low, len(data))
        kind = rng.randrange(8)
        size = rng.choice((1, 2, 4, 8, 64))
        if kind <= 2:
            data[place] = rng.randrange(256)
        elif kind == 3:
            data[place] ^= 1 << rng.randrange(8)
        elif kind == 4:
            number = rng.choice(INTS) & (2**64 - 1)
            data[place : place + size] = number.to_bytes(8, "little")[:size]
        elif kind == 5:
            del data[place : place + size]
        elif kind == 6:
            data[place:place] = data[max(0, place - size) : place]
        else:
            other = rng.choice(others)
            start = rng.randrange(len(other))
            data[place : place + size] = other[start : start + size]
    if rng.random() < 0.02:
        del data[rng.randrange(len(data) + 1) :]
    return bytes(data)


def wild(rng: random.Random) -> bytes:
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


def _column(name: str, rows: int, rng: random.Random) -> pa.Array:
    field = SCHEMA.field(name)
    nulls = 0.0 if not field.nullable and rng.random() < 0.98 else rng.choice((0.0, 0.2, 1.0))
    if name == "shape":
        return pa.array(
            [_maybe([rng.choice(INTS) for _ in range(rng.randrange(3))], nulls, rng)
             for _ in range(rows)],
            pa.list_(pa.int64()),
        )  # fmt: skip
    if pa.types.is_integer(field.type):
        limits = np.iinfo(field.type.to_pandas_dtype())
        tame = rng.random() < 0.6
        values = [
            _maybe(
                rng.randrange(4)
                if tame
                else min(max(rng.choice(INTS), int(limits.min)), int(limits.max)),
                nulls,
                rng,
            )
            for _ in range(rows)
        ]
        return pa.array(values, field.type)
    own = name in ("layer", "op") and rng.random() < 0.9
    words: Sequence[str] = OWN_WORDS if own else WORDS
    if own and name == "layer":
        words = ("request", "replay", "tensor")
    elif own and rng.random() < 0.5:
        words = ("open", "write", "read", "write", "read", "close", "rename", "save", "load")
    elif not own and rng.random() < 0.6:
        words = TAME_WORDS
    texts = [_maybe(rng.choice(words), nulls, rng) for _ in range(rows)]
    return pa.array(texts, pa.string())


def _maybe(value: Any, nulls: float, rng: random.Random) -> Any:
    return None if rng.random() < nulls else value


def _metadata(rng: random.Random) -> bytes:
    plain = Metadata(processes=(Process(1), Process(2))).to_json()
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
