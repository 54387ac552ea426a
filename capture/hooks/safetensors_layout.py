"""Where the tensors of a safetensors file lie.

The format has no gaps and nothing behind the data: the tensors' bytes are the last
of the file, one tensor after another. So their order, their lengths and the file's
size tell every offset, and the hooks need not read the header again. The order of a
save is the library's own (by type, then name); it sorts empty tensors the same way
in memory. The order of a load is what `offset_keys` says. Only libraries before
0.6, which cannot say it, and types that are not listed here have their header read.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from .json_header import LENGTH_BYTES, read_header, size_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from .emit import Emitter

METADATA = "__metadata__"
BYTE_BITS = 8
PACKED = "float4_e2m1fn_x2"  # two of the format's elements are one of torch's

# What the format calls a type: its name elsewhere, and the bits of an element.
DTYPES = {
    "BOOL": ("bool", 8),
    "F4": (PACKED, 4),
    "U8": ("uint8", 8),
    "I8": ("int8", 8),
    "F8_E5M2": ("float8_e5m2", 8),
    "F8_E4M3": ("float8_e4m3fn", 8),
    "F8_E8M0": ("float8_e8m0fnu", 8),
    "F8_E4M3FNUZ": ("float8_e4m3fnuz", 8),
    "F8_E5M2FNUZ": ("float8_e5m2fnuz", 8),
    "I16": ("int16", 16),
    "U16": ("uint16", 16),
    "F16": ("float16", 16),
    "BF16": ("bfloat16", 16),
    "I32": ("int32", 32),
    "U32": ("uint32", 32),
    "F32": ("float32", 32),
    "F64": ("float64", 64),
    "I64": ("int64", 64),
    "U64": ("uint64", 64),
    "C64": ("complex64", 64),
}


class Piece(NamedTuple):
    """One tensor in the file.

    Attributes:
        name: Its key.
        dtype: Such as `float32`.
        shape: Elements per dimension.
        length: Its bytes.
        offset: Where they lie in the file.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    length: int
    offset: int = 0


def saved_pieces(tensors: Mapping[str, Any], path: str, library: Any, emitter: Emitter) -> Any:
    """Return the pieces of a file that was just written, in the order of their bytes.

    Args:
        tensors: What `serialize_file` was given.
        path: The file.
        library: The safetensors module.
        emitter: Pauses the recording.
    """
    pieces = [piece_of(name, spec) for name, spec in tensors.items()]
    try:
        rank = dtype_ranks(tensors, library.serialize)
        pieces.sort(key=lambda piece: (rank[piece.dtype], piece.name))
    except (KeyError, TypeError, library.SafetensorError):
        return read_pieces(path, emitter)
    return placed(pieces, size_of(path, emitter))


def piece_of(name: str, spec: Any) -> Piece:
    """Return what a save was told of a tensor: before 0.8 in a dict with its bytes."""
    if isinstance(spec, dict):
        dtype, shape = str(spec["dtype"]), tuple(spec["shape"])
        if dtype == PACKED and shape:
            shape = (*shape[:-1], shape[-1] * 2)
        return Piece(name, dtype, shape, len(spec["data"]))
    return Piece(name, dtype_name(spec.dtype), tuple(spec.shape), spec.data_len)


def dtype_ranks(tensors: Mapping[str, Any], serialize: Callable[..., Any]) -> dict[str, int]:
    """Return the place of each type in the library's order, found with empty tensors.

    Raises:
        KeyError, TypeError: A type or the library's arguments are not as known.
    """
    empty = {piece_of("", spec).dtype: spec for spec in tensors.values()}
    for dtype, spec in empty.items():
        if isinstance(spec, dict):
            empty[dtype] = {"dtype": dtype, "shape": [0], "data": b""}
        else:
            empty[dtype] = type(spec)(dtype=dtype, shape=[0], data_ptr=0, data_len=0)
    content = bytes(serialize(empty))
    length = int.from_bytes(content[:LENGTH_BYTES], "little")
    header = json.loads(content[LENGTH_BYTES : LENGTH_BYTES + length])
    return {dtype: place for place, dtype in enumerate(header)}


def opened_pieces(handle: Any, path: str, file_bytes: int, emitter: Emitter) -> list[Piece]:
    """Return the pieces of an open file, in the order of their bytes."""
    if not hasattr(handle, "offset_keys"):
        return read_pieces(path, emitter)
    try:
        pieces = [described(name, handle.get_slice(name)) for name in handle.offset_keys()]
    except KeyError:
        return read_pieces(path, emitter)
    return placed(pieces, file_bytes)


def described(name: str, piece: Any) -> Piece:
    """Return what the library says of a tensor in a file.

    Raises:
        KeyError: A type that is not known here.
    """
    dtype, bits = DTYPES[piece.get_dtype()]
    shape = tuple(piece.get_shape())
    for size in shape:
        bits *= size
    return Piece(name, dtype, shape, bits // 8)


def placed(pieces: Iterable[Piece], file_bytes: int) -> list[Piece]:
    """Return pieces with their offsets: together they are the end of the file.

    >>> placed([Piece("a", "uint8", (3,), 3), Piece("b", "uint8", (5,), 5)], 100)[1].offset
    95
    """
    found = list(pieces)
    offset = file_bytes - sum(piece.length for piece in found)
    for place, piece in enumerate(found):
        found[place] = piece._replace(offset=offset)
        offset += piece.length
    return found


def read_pieces(path: str, emitter: Emitter) -> list[Piece]:
    """Return the pieces that a file's own header names, in the order of their bytes."""
    header, begin = read_header(path, emitter)
    pieces = []
    for name, entry in header.items():
        if name != METADATA:
            start, end = entry["data_offsets"]
            shape = tuple(entry["shape"])
            pieces.append(
                Piece(name, dtype_name(entry["dtype"]), shape, end - start, begin + start)
            )
    pieces.sort(key=lambda piece: piece.offset)
    return pieces


def dtype_name(code: str) -> str:
    """Return the name of a type elsewhere; an unlisted one keeps the format's, in lower case."""
    return DTYPES[code][0] if code in DTYPES else code.lower()


def part_of(piece: Piece, key: Any) -> tuple[int, int]:
    """Return first byte and length of the part of a tensor that an index spans.

    What lies between two parts of a strided choice is counted as part of it.

    >>> part_of(Piece("w", "float32", (4, 8), 128), slice(1, 3))
    (32, 64)
    >>> part_of(Piece("w", "float32", (4, 8), 128), (slice(None), slice(2, 4)))
    (8, 104)
    >>> part_of(Piece("w", "float4_e2m1fn_x2", (4, 8), 16), slice(1, 3))
    (4, 8)
    """
    stride = piece.length * BYTE_BITS
    first = last = 0
    for size, choice in zip(piece.shape, choices(key, len(piece.shape))):
        stride //= max(size, 1)
        low, high = chosen(choice, size)
        if low > high:
            return first // BYTE_BITS, 0
        first += low * stride
        last += high * stride
    end = -(-(last + stride) // BYTE_BITS)
    return first // BYTE_BITS, end - first // BYTE_BITS


def choices(key: Any, dimensions: int) -> list[Any]:
    """Return the choice in each dimension; an ellipsis, or nothing, is all of it."""
    keys = list(key) if isinstance(key, (tuple, list)) else [key]
    everything = slice(None)
    for place, choice in enumerate(keys):
        if choice is Ellipsis:
            missing = dimensions - len(keys) + 1
            keys[place : place + 1] = [everything] * missing
            break
    return keys + [everything] * (dimensions - len(keys))


def chosen(choice: Any, size: int) -> tuple[int, int]:
    """Return the lowest and the highest index of a choice; all of the dimension if unclear."""
    if isinstance(choice, slice):
        indices = range(*choice.indices(size))
        if not indices:
            return 0, -1
        low, high = sorted((indices[0], indices[-1]))
        return low, high
    if isinstance(choice, int):
        index = choice + size if choice < 0 else choice
        return index, index
    return 0, size - 1
