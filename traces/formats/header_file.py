"""Files that begin with a JSON header: safetensors, and DataStates-LLM which took it over."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any, BinaryIO

from iotrace.traces.foreign_json import parse_foreign_json
from iotrace.traces.formats.piece import MAX_BYTES, Piece, bits, misfit, sizes

SAFETENSORS = "safetensors"
LENGTH_BYTES = 8
HEADER_MAX_BYTES = 100_000_000  # safetensors refuses longer ones
DATASTATES_KEY = "datastates_metadata"
_METADATA = "__metadata__"
_SEPARATOR = "|"  # between the parts of a name, in DataStates-LLM
# What safetensors calls a type; DataStates-LLM writes torch's names.
_DTYPES = {
    "BOOL": "bool", "F4": "float4_e2m1fn_x2", "U8": "uint8", "I8": "int8",
    "F8_E5M2": "float8_e5m2", "F8_E4M3": "float8_e4m3fn", "F8_E8M0": "float8_e8m0fnu",
    "F8_E4M3FNUZ": "float8_e4m3fnuz", "F8_E5M2FNUZ": "float8_e5m2fnuz", "I16": "int16",
    "U16": "uint16", "F16": "float16", "BF16": "bfloat16", "I32": "int32", "U32": "uint32",
    "F32": "float32", "F64": "float64", "I64": "int64", "U64": "uint64", "C64": "complex64",
}  # fmt: skip
_BITS = {"F4": 4, "F6_E2M3": 6, "F6_E3M2": 6}  # of an element that is no whole bytes


def looks_like(head: bytes, file_bytes: int) -> bool:
    """Return whether a file that begins so has such a header."""
    if len(head) < LENGTH_BYTES + 2:
        return False
    length = int.from_bytes(head[:LENGTH_BYTES], "little")
    fits = 2 <= length <= min(HEADER_MAX_BYTES, file_bytes - LENGTH_BYTES)
    return fits and head[LENGTH_BYTES : LENGTH_BYTES + 1] == b"{"


def read_header(file: BinaryIO) -> tuple[dict[str, Any], int]:
    """Return the header and where the data begin.

    Raises:
        ValueError: there is no such header.
    """
    length = int.from_bytes(file.read(LENGTH_BYTES), "little")
    if length > HEADER_MAX_BYTES:
        raise ValueError(f"a header of {length} bytes")
    header = parse_foreign_json(file.read(length), unique_keys=True)
    if not isinstance(header, dict):
        raise ValueError("a header that is no object")
    return header, LENGTH_BYTES + length


def pieces(file: BinaryIO, path: str) -> tuple[str, list[Piece]]:
    """Return the engine that wrote a file, and its tensors in the order of their bytes.

    Raises:
        ValueError: the header is broken.
    """
    header, begin = read_header(file)
    is_datastates = DATASTATES_KEY in header
    found = list(_entries(header, begin, path, is_datastates))
    found.sort(key=lambda piece: (piece.offset, piece.length))
    if not is_datastates:
        found = list(_one_behind_another(found, begin))
    return ("datastates-llm" if is_datastates else SAFETENSORS), found


def flaw(engine: str, pieces: list[Piece], size: int) -> str:
    """Return why a file of `size` bytes is refused whose tensors are all there; empty: nothing."""
    behind = size - (pieces[-1].offset + pieces[-1].length) if pieces else 0
    if engine != SAFETENSORS or behind <= 0:
        return ""
    return f"{behind:,} bytes behind the last tensor, with which safetensors refuses the file"


def _one_behind_another(pieces: list[Piece], begin: int) -> Iterator[Piece]:
    """Yield them, with what safetensors refuses a file for: holes and overlaps."""
    for piece in pieces:
        apart = piece.offset - begin
        where = "behind" if apart > 0 else "before"
        hole = f"it begins {abs(apart):,} bytes {where} the end of the tensor before it"
        yield piece if not apart or piece.flaw else piece._replace(flaw=hole)
        begin = piece.offset + piece.length


def _entries(header: dict[str, Any], begin: int, path: str, is_datastates: bool) -> Iterator[Piece]:
    for key, entry in header.items():
        if key in (_METADATA, DATASTATES_KEY):
            continue
        try:
            first, last = entry["data_offsets"]
            dtype, shape = str(entry["dtype"]), sizes(entry["shape"])
        except (TypeError, KeyError) as error:
            raise ValueError(f"the entry {key[:40]!r} is of no tensor") from error
        if not (type(first) is type(last) is int and 0 <= first <= last):
            raise ValueError(f"the entry {key[:40]!r} has no place")
        if last > MAX_BYTES - begin:
            raise ValueError(f"the entry {key[:40]!r} ends beyond any file")
        known = _DTYPES.get(dtype, dtype.rpartition(".")[2].lower())
        needed = prod(shape) * _BITS[dtype] if dtype in _BITS else bits(known, shape)
        name = key.replace(_SEPARATOR, ".") if is_datastates else key
        length = last - first
        unlike = misfit(needed, length)
        yield Piece(path, begin + first, length, name, known, shape, flaw=unlike)
