"""What is left of a checkpoint: which tensors can still be read, which are lost, and why."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from iotrace.traces.foreign_json import parse_foreign_json
from iotrace.traces.formats import dcp_folder, header_file, snapshot_folder, torch_scan
from iotrace.traces.formats.checkpoint import parts_of
from iotrace.traces.formats.piece import Piece
from iotrace.traces.formats.torch_file import ZIP_MAGIC

_DCP_SUFFIX = ".distcp"
_HEADED_SUFFIX = ".safetensors"
_SHARDS_SUFFIX = ".safetensors.index.json"
_SLACK_BYTES = 64 << 20  # the last storage of a file that was cut
_PAGE_BYTES = 4096  # what a crash leaves unwritten reads as pages of zeros
_CHUNK_BYTES = 1 << 20  # of pages
_BROKEN = (ValueError, OSError, OverflowError, RecursionError)


@dataclass(frozen=True)
class Part:
    """A tensor, or a part of one; `lost` says why it cannot be read, empty: it can."""

    name: str
    path: str
    offset: int
    length: int
    dtype: str
    shape: tuple[int, ...]
    lost: str = ""


@dataclass(frozen=True)
class Damage:
    """The state of a checkpoint.

    Attributes:
        engine: whose format it is.
        size_bytes: of its files.
        index: what is wrong with what tells where tensors lie; empty: nothing.
        checked: `checksums` if all bytes that are there were held against these, `some checksums`
            if some were, else `extents`.
        parts: in the order of their bytes; empty where the index tells no names.
        zeros_bytes: of zeros at the end of a single file, in whole pages. A tensor may end so, and
            so does a file that was made at its full size and not filled.
    """

    path: str
    engine: str
    size_bytes: int
    index: str
    checked: str
    parts: tuple[Part, ...]
    zeros_bytes: int = 0

    @property
    def lost(self) -> tuple[Part, ...]:
        """Return the parts that cannot be read."""
        return tuple(part for part in self.parts if part.lost)


def examine(path: Path) -> Damage | None:
    """Return the state of a checkpoint; `None` if it is none that is known.

    Raises:
        OSError: a file cannot be read.
    """
    if path.is_dir():
        return _folder(path)
    with path.open("rb") as file:
        head = file.read(header_file.LENGTH_BYTES + 2)
    if head.startswith(ZIP_MAGIC):
        return _archive(path)
    # What the header's length goes beyond may have been cut off.
    return _headed(path) if header_file.looks_like(head, sys.maxsize) else None


def examine_files(folder: Path) -> tuple[Damage, ...]:
    """Return the state of each checkpoint below a folder that is none itself, in order of name.

    Of safetensors, files that are empty or that an index beside them names and that are gone too.

    Raises:
        OSError: a file cannot be read.
    """
    paths = (part.path for part in parts_of(folder))
    # A shard of DCP without its index is a part of a folder that has lost it.
    named = (path.parent if path.suffix == _DCP_SUFFIX else path for path in paths)
    found: list[Damage] = []
    for path in dict.fromkeys(named):
        damage = examine(path)
        if damage is None and path.name.endswith(_HEADED_SUFFIX):
            size = path.stat().st_size
            damage = Damage(str(path), "safetensors", size, "cut or broken", "extents", ())
        if damage is not None:
            found.append(damage)
        if path.name.endswith(_SHARDS_SUFFIX):
            found += _gone(path)
    return tuple(found)


def _gone(index: Path) -> Iterator[Damage]:
    """Yield the files that an index of safetensors files names and that are not there."""
    try:
        names = set(parse_foreign_json(index.read_bytes())["weight_map"].values())
    except (*_BROKEN, KeyError, TypeError, AttributeError):
        yield Damage(str(index), "safetensors", index.stat().st_size, "broken", "extents", ())
        return
    for name in sorted(str(name) for name in names):
        file = index.parent / name
        if not file.is_file():
            yield Damage(str(file), "safetensors", 0, "the file is missing", "extents", ())


def _archive(path: Path) -> Damage | None:
    """Return the state of a file of torch.save."""
    size = path.stat().st_size
    with path.open("rb") as file:
        try:
            found = torch_scan.scan(file)
        except _BROKEN:
            return None
        # Storages of a real file do not overlap; of one made to keep us busy they might.
        honest = sum(stored.length for stored in found.storages.values()) <= 2 * size + _SLACK_BYTES
        # The index is written last: where it is there, zeros behind its last number mean nothing.
        filled = size if found.index else _filled_bytes(file, size)
        why, held, unheld = {}, 0, 0
        for key, stored in found.storages.items():
            there = honest and key in found.checksums and stored.offset + stored.length <= size
            actual = torch_scan.checksum(file, stored) if there else None
            why[key] = _storage_state(found, key, size, filled, actual)
            held += actual is not None
            unheld += actual is None and stored.length > 0 and not why[key]
    parts = [
        Part(
            tensor.name or key,
            str(path),
            found.storages[key].offset if key in found.storages else size,
            length,
            tensor.dtype,
            tensor.shape,
            why.get(key, "its place is overwritten" if found.index else "was never written"),
        )
        for key, tensor, length in torch_scan.records(found)
    ]
    index = "" if found.index else "missing: it is written last, so the save did not end"
    if found.names is None:
        torn = "missing, and the names at the front are cut too"
        index = "there, but the names at the front are broken" if found.index else torn
    checked = "extents" if not held else "some checksums" if unheld else "checksums"
    parts.sort(key=lambda part: part.offset)
    return Damage(str(path), "torch.save", size, index, checked, tuple(parts), size - filled)


def _storage_state(
    found: torch_scan.Scan, key: str, size: int, filled: int, actual: int | None
) -> str:
    stored = found.storages[key]
    there = size - stored.offset
    if there < stored.length:
        return f"cut: {max(there, 0):,} of {stored.length:,} bytes are there"
    if actual is None and stored.length and stored.offset + stored.length > filled:
        return f"zeros from byte {filled:,} of the file on, which may never have been written"
    return "its checksum is wrong" if actual not in (None, found.checksums.get(key)) else ""


def _filled_bytes(file: BinaryIO, size: int) -> int:
    """Return where the pages of zeros at the end of a file begin; `size` if there are none."""
    end = size
    while end:
        begin = max(0, (end - 1) // _CHUNK_BYTES * _CHUNK_BYTES)
        file.seek(begin)
        data = file.read(end - begin).rstrip(b"\0")
        if data:
            return min(size, -(-(begin + len(data)) // _PAGE_BYTES) * _PAGE_BYTES)
        end = begin
    return 0


def _headed(path: Path) -> Damage:
    """Return the state of a file that begins with a JSON header."""
    size = path.stat().st_size
    with path.open("rb") as file:
        try:
            engine, pieces = header_file.pieces(file, path.name)
        except _BROKEN:
            return Damage(str(path), "safetensors", size, "cut or broken", "extents", ())
        filled = _filled_bytes(file, size)
    parts = tuple(_parts(path.parent, pieces))
    return Damage(str(path), engine, size, "", "extents", parts, size - filled)


def _folder(path: Path) -> Damage | None:
    """Return the state of a checkpoint of several files."""
    for module, read in (
        (dcp_folder, dcp_folder.extents),
        (snapshot_folder, snapshot_folder.pieces),
    ):
        if not (path / module.METADATA).is_file():
            continue
        size = _size(path)
        try:
            parts = tuple(_parts(path, read(path)))
        except _BROKEN as error:
            return Damage(
                str(path), module.ENGINE, size, f"{module.METADATA}: {error}", "extents", ()
            )
        return Damage(str(path), module.ENGINE, size, "", "extents", parts)
    if next(path.glob(f"*{_DCP_SUFFIX}"), None) is not None:
        index = f"{dcp_folder.METADATA} is missing: it is written last, so the save did not end"
        return Damage(str(path), dcp_folder.ENGINE, _size(path), index, "extents", ())
    return None


def _size(folder: Path) -> int:
    files = (Path(top, name) for top, _, names in os.walk(folder) for name in names)
    return sum(file.stat().st_size for file in files if file.is_file())


def _parts(folder: Path, pieces: Iterable[Piece]) -> Iterator[Part]:
    """Yield each piece, and whether the file reaches to its end."""
    sizes: dict[str, int] = {}
    for piece in pieces:
        file = folder / piece.path
        if piece.path not in sizes:
            sizes[piece.path] = file.stat().st_size if file.is_file() else -1
        size = sizes[piece.path]
        lost = ""
        if size < 0:
            lost = f"{piece.path} is missing"
        elif piece.offset + piece.length > size:
            there = max(size - piece.offset, 0)
            lost = f"cut: {there:,} of {piece.length:,} bytes are there"
        name = piece.name or ""
        yield Part(name, str(file), piece.offset, piece.length, piece.dtype, piece.shape, lost)
