"""The columns of a trace, in order, and the words its rows may use."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import pyarrow as pa

FORMAT_VERSION: Final = "1.2"
METADATA_KEY: Final = b"iotrace"

_WORD = pa.dictionary(pa.int32(), pa.string())

SCHEMA: Final = pa.schema(
    [
        pa.field("layer", _WORD, nullable=False),
        pa.field("op", _WORD, nullable=False),
        pa.field("api", _WORD),
        pa.field("engine", _WORD),
        pa.field("rank", pa.int32(), nullable=False),
        pa.field("process", pa.int32(), nullable=False),
        pa.field("thread", pa.int32(), nullable=False),
        pa.field("seq", pa.int64(), nullable=False),
        pa.field("start_ns", pa.int64(), nullable=False),
        pa.field("end_ns", pa.int64()),
        pa.field("path", _WORD),
        pa.field("target", _WORD),
        pa.field("file", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("length", pa.int64()),
        pa.field("result", pa.int64()),
        pa.field("offset_source", _WORD),
        pa.field("flags", pa.int32()),
        pa.field("address", pa.uint64()),
        pa.field("step", pa.int32()),
        pa.field("name", _WORD),
        pa.field("dtype", _WORD),
        pa.field("shape", pa.list_(pa.int64())),
        pa.field("device", _WORD),
        pa.field("tensor_offset", pa.int64()),
    ]
)

COLUMNS: Final = tuple(SCHEMA.names)
INT_COLUMNS: Final = tuple(f.name for f in SCHEMA if pa.types.is_integer(f.type))
TEXT_COLUMNS: Final = tuple(f.name for f in SCHEMA if pa.types.is_dictionary(f.type))
REQUIRED_COLUMNS: Final = tuple(f.name for f in SCHEMA if not f.nullable)

DATA_OPS: Final = ("read", "write")
# What a request may be at or move, and all of them together: sums of two stay far inside int64.
MAX_PLACE_BYTES: Final = 1 << 60
MAX_MOVED_BYTES: Final = 1 << 61
MAX_DIMENSIONS: Final = 64  # of one tensor, in torch
MAX_TEXT_BYTES: Final = 16 << 10  # a path of 4 KiB, Linux' longest, of bytes that are all escaped
_REQUEST_OPS: Final = (
    *DATA_OPS,
    "open",
    "close",
    "sync",
    "allocate",
    "truncate",
    "rename",
    "link",
    "unlink",
    "mkdir",
    "rmdir",
    "stat",
    "getxattr",
    "map",
    "unmap",
    "fault",
    "advise",
)

# What a row of each layer may do.
OPS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "request": _REQUEST_OPS,
        "tensor": ("save", "load"),
        "span": ("save", "load", "stage", "commit", "wait", "allocate", "barrier"),
        "counter": ("counter",),  # `name` says of what, `result` how much
        "replay": (*_REQUEST_OPS, "evict"),
    }
)
LAYERS: Final = tuple(OPS)
REQUEST_LAYERS: Final = ("request", "replay")

APIS: Final = ("posix", "stdio", "io_uring", "libaio", "mmap")
# `inferred`: from the state of a stdio stream; the row may stand for several system calls.
# Of a descriptor that several writers share: from all their writes, in an order that is likely.
OFFSET_SOURCES: Final = ("argument", "tracked", "queried", "inferred")
ENGINES: Final = (
    "torch.save",
    "torchsnapshot",
    "datastates-llm",
    "dcp",
    "safetensors",
    "deepspeed",
)

# What the history may say was done to a trace.
ACTIONS: Final = ("capture", "recover", "import", "synth", "merge", "select", "share", "replay")


def is_supported_version(version: str) -> bool:
    """Return whether this package reads format `version`, such as "1.3"."""
    major, _, minor = version.partition(".")
    return major == FORMAT_VERSION.partition(".")[0] and minor.isdecimal() and len(minor) < 10
