"""The parts of tensors that a checkpoint's own index places in files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

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
        ValueError: it is none.
    """
    if not isinstance(value, list | tuple) or not all(type(n) is int and n >= 0 for n in value):
        raise ValueError(f"{str(value)[:40]!r} is no shape")
    return tuple(value)
