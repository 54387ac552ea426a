"""Files of torch.save read from front to back, as they were written, without the index at the end.

A save that was cut short has no index, so that `torch.load` reads nothing of it. What lies before
the cut is whole: the pickle with the names comes first, then each storage with its checksum.
"""

from __future__ import annotations

import os
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import BinaryIO

from iotrace.traces.formats.pickled import parse
from iotrace.traces.formats.torch_file import (
    PICKLE,
    STORAGES,
    ZIP_MAGIC,
    Named,
    Stored,
    tensors_with_lengths,
)

_LOCAL = struct.Struct("<4s2xHHxxxxIIIHH")  # magic, flags, method, crc, sizes, name, extra
_DESCRIPTOR = b"PK\x07\x08"  # behind a record whose sizes were not known before it
_DESCRIPTOR_BYTES = (16, 24)
_SIZES_FOLLOW = 1 << 3
_SMALL_BYTES = 1 << 20  # the other records are versions and byte orders
_BLOCK_BYTES = 1 << 24


@dataclass(frozen=True)
class Scan:
    """What is in an archive, up to its end or the cut.

    Attributes:
        index: whether the index is there.
        names: the tensors of each storage, as (tensor, bytes of the storage), by key; None:
            the pickle is not whole.
        storages: where each lies that has begun.
        checksums: of each storage, where one was written.
    """

    index: bool
    names: dict[str, list[tuple[Named, int]]] | None
    storages: dict[str, Stored]
    checksums: dict[str, int]


def scan(file: BinaryIO) -> Scan:
    """Return what is in an archive of torch.save: a file that begins with `ZIP_MAGIC`.

    Raises:
        ValueError: it is one of something else.
    """
    found = _by_index(file)
    return found if found is not None else _front_to_back(file)


def checksum(file: BinaryIO, stored: Stored) -> int:
    """Return the CRC-32 of a storage's bytes as they are in the file."""
    value, left = 0, stored.length
    file.seek(stored.offset)
    while left > 0 and (block := file.read(min(left, _BLOCK_BYTES))):
        value = zlib.crc32(block, value)
        left -= len(block)
    return value


def _by_index(file: BinaryIO) -> Scan | None:
    try:
        with zipfile.ZipFile(file) as archive:
            records = archive.infolist()
    except (zipfile.BadZipFile, NotImplementedError, EOFError, OSError, ValueError):
        return None
    inner = [record.filename.partition("/")[2] for record in records]
    if not any(name == PICKLE or name.startswith(STORAGES) for name in inner):
        raise ValueError("an archive of something else")
    names: dict[str, list[tuple[Named, int]]] | None = None
    storages, checksums = {}, {}
    for record in records:
        header = _header(file, record.header_offset)
        if header is None:  # overwritten
            continue
        name, begin, _, _ = header
        if name == PICKLE:
            with suppress(ValueError, OverflowError, RecursionError):
                names = _names(file, begin)
        elif name.startswith(STORAGES):
            key = name[len(STORAGES) :]
            storages[key] = Stored(begin, record.compress_size)
            checksums[key] = record.CRC
    return Scan(True, names, storages, {k: v for k, v in checksums.items() if v})


def _front_to_back(file: BinaryIO) -> Scan:
    size = os.fstat(file.fileno()).st_size
    names: dict[str, list[tuple[Named, int]]] | None = None
    storages: dict[str, Stored] = {}
    checksums: dict[str, int] = {}
    position = 0
    while (header := _header(file, position)) is not None:
        name, begin, known_bytes, crc = header
        if not position and name != PICKLE:
            raise ValueError("an archive of something else")
        if name == PICKLE:
            try:
                names = _names(file, begin)
            except ValueError:  # the cut is in it
                break
            end = file.tell()
        elif name.startswith(STORAGES):
            key = name[len(STORAGES) :]
            length = known_bytes if known_bytes is not None else _length(names or {}, key)
            if length is None:
                break
            storages[key] = Stored(begin, length)
            end = begin + length
        else:
            found = _find(file, begin)
            if found is None:
                break
            end = found
        if end > size:
            break
        if known_bytes is None:
            after = _behind(file, end)
            if after is None:
                break
            position, crc = after
        else:
            position = end
        if name.startswith(STORAGES) and crc:
            checksums[name[len(STORAGES) :]] = crc
    return Scan(False, names, storages, checksums)


def _header(file: BinaryIO, position: int) -> tuple[str, int, int | None, int] | None:
    """Return name, begin, length and checksum of a record; the length may be told behind it."""
    file.seek(position)
    head = file.read(_LOCAL.size)
    if len(head) < _LOCAL.size:
        return None
    magic, flags, _, crc, stored, _, name_bytes, extra_bytes = _LOCAL.unpack(head)
    name = file.read(name_bytes)
    if magic != ZIP_MAGIC or len(name) < name_bytes:
        return None
    follows = bool(flags & _SIZES_FOLLOW)
    begin = position + _LOCAL.size + name_bytes + extra_bytes
    inner = name.decode("utf-8", "replace").partition("/")[2]
    return inner, begin, None if follows else stored, 0 if follows else crc


def _names(file: BinaryIO, begin: int) -> dict[str, list[tuple[Named, int]]]:
    """Return the tensors of each storage; the file is left behind the pickle."""
    file.seek(begin)
    root = parse(file)
    end = file.tell()
    found: dict[str, list[tuple[Named, int]]] = {}
    for tensor, length in tensors_with_lengths(root):
        found.setdefault(tensor.key, []).append((tensor, length))
    file.seek(end)
    return found


def _length(names: dict[str, list[tuple[Named, int]]], key: str) -> int | None:
    return names[key][0][1] if key in names else None


def _find(file: BinaryIO, begin: int) -> int | None:
    """Return where a small record ends."""
    file.seek(begin)
    place = file.read(_SMALL_BYTES).find(_DESCRIPTOR)
    return begin + place if place >= 0 else None


def _behind(file: BinaryIO, end: int) -> tuple[int, int] | None:
    """Return where the next record begins, and the checksum told in between."""
    file.seek(end)
    told = file.read(max(_DESCRIPTOR_BYTES) + 4)
    if not told.startswith(_DESCRIPTOR) or len(told) < min(_DESCRIPTOR_BYTES):
        return None
    crc = int.from_bytes(told[4:8], "little")
    for size in _DESCRIPTOR_BYTES:
        if told[size : size + 2] == b"PK":
            return end + size, crc
    return end + min(_DESCRIPTOR_BYTES), crc


def records(found: Scan) -> Iterator[tuple[str, Named, int]]:
    """Yield key, tensor and bytes of the storage of each tensor."""
    for key, held in (found.names or {}).items():
        for tensor, length in held:
            yield key, tensor, length
