"""Where the writer of PyTorch's zip files puts the bytes of a record.

A record is a local header, a name, extra fields that pad the payload to the
alignment, the payload, and a data descriptor unless the payload is empty.
"""

from __future__ import annotations

from typing import NamedTuple

LOCAL_HEADER_BYTES = 30
EXTRA_FIELD_BYTES = 4  # identifier and size, two bytes each
LENGTH_FIELD_BYTES = 8  # one 64-bit number
ZIP64_LIMIT = 0xFFFFFFFF
DESCRIPTOR_BYTES = 16
ZIP64_DESCRIPTOR_BYTES = 24


class Extent(NamedTuple):
    """Where one record lies.

    Attributes:
        offset: First byte of the payload, from the archive's first byte.
        next_header: Where the next record's header begins.
    """

    offset: int
    next_header: int


def place_record(header: int, name_bytes: int, length: int, alignment: int) -> Extent:
    """Return where a record lies whose header begins at `header`.

    Args:
        header: Offset of the record's local header, in bytes.
        name_bytes: Length of the full name, `archive/record`, in UTF-8.
        length: Length of the payload in bytes.
        alignment: What payload offsets are multiples of, in bytes.

    >>> place_record(0, len("x/data.pkl"), 100, 64)
    Extent(offset=64, next_header=180)
    """
    start = header + LOCAL_HEADER_BYTES + name_bytes + EXTRA_FIELD_BYTES
    descriptor = DESCRIPTOR_BYTES
    if is_zip64(header, length):
        start += EXTRA_FIELD_BYTES
        start += 2 * LENGTH_FIELD_BYTES if length >= ZIP64_LIMIT else 0
        start += LENGTH_FIELD_BYTES if header >= ZIP64_LIMIT else 0
        descriptor = ZIP64_DESCRIPTOR_BYTES
    offset = -(-start // alignment) * alignment
    return Extent(offset, offset + length + (descriptor if length else 0))


def descriptor_bytes(header: int, length: int) -> int:
    """Return the length of what follows the payload."""
    if length == 0:
        return 0
    return ZIP64_DESCRIPTOR_BYTES if is_zip64(header, length) else DESCRIPTOR_BYTES


def is_zip64(header: int, length: int) -> bool:
    """Say whether a record needs 64-bit numbers."""
    return header >= ZIP64_LIMIT or length >= ZIP64_LIMIT
