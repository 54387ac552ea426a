"""The parts of tensors that a checkpoint's own index places in files."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from iotrace.traces.schema import MAX_DIMENSIONS

MAX_BYTES = 2**63 - 1  # of a tensor, and so the most elements

ITEM_BYTES = {
    **dict.fromkeys(("bool", "uint8", "int8", "quint8", "qint8"), 1),
    **dict.fromkeys(("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz"), 1),
    **dict.fromkeys(("float8_e5m2fnuz", "float8_e8m0fnu"), 1),
    **dict.fromkeys(("float16", "bfloat16", "int16", "uint16"), 2),
    **dict.fromkeys(("float32", "int32", "uint32", "qint32", "complex32"), 4),
    **dict.fromkeys(("float64", "int64", "uint64", "complex64"), 8),
    "complex128": 16,
}


class Piece(NamedTuple):
    """A tensor, or a part of one, in a file.

    Attributes:
        path: of the file, relative to the checkpoint, or absolute.
        offset: bytes, in the file.
        length: bytes in the file.
        tensor_offset: where in the tensor the piece begins, in bytes; negative where a view
            begins behind the first byte of its storage.
        rank: that wrote it; -1: not known.
        flaw: why no tensor can be made of these bytes, though they are there; empty: nothing.
    """

    path: str
    offset: int
    length: int
    name: str | None
    dtype: str
    shape: tuple[int, ...]
    device: str = "cpu"
    tensor_offset: int = 0
    rank: int = -1
    flaw: str = ""


def first_byte(shape: Sequence[int], offsets: Sequence[int], item_bytes: int) -> int:
    """Return where in a tensor a part of it begins, in bytes, rows one after another.

    >>> first_byte((4, 10), (2, 5), 4)
    100
    """
    position = 0
    for size, offset in zip(shape, offsets, strict=False):
        position = position * size + offset
    return position * item_bytes


def sizes(value: object) -> tuple[int, ...]:
    """Return a shape that an index gives.

    Raises:
        ValueError: it is none, or no tensor has that: torch has at most 64 dimensions of 64 bits.
    """
    if not isinstance(value, list | tuple):
        raise ValueError("what stands for a shape is none")
    if len(value) > MAX_DIMENSIONS:
        raise ValueError(f"a shape of {len(value):,} dimensions")
    if not all(type(n) is int and 0 <= n <= MAX_BYTES for n in value):
        raise ValueError("a shape of sizes that are none")
    return tuple(value)


def bits(dtype: str, shape: Sequence[int]) -> int | None:
    """Return how many bits a tensor takes, each element once; None: the type is not known."""
    item_bits = 8 * ITEM_BYTES[dtype] if dtype in ITEM_BYTES else None
    return None if item_bits is None else item_bits * prod(shape)


def misfit(needed_bits: int | None, there_bytes: int) -> str:
    """Return in words that a tensor is not as long as the bytes that are said to be its; or empty.

    >>> misfit(32 * 8, 16)
    'its shape and type take 32 bytes, its place has 16'
    """
    if needed_bits is None or needed_bits == 8 * there_bytes:
        return ""
    return f"its shape and type take {-(-needed_bits // 8):,} bytes, its place has {there_bytes:,}"
