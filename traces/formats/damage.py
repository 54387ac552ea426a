"""What is left of a checkpoint: which tensors can still be read, which are lost, and why."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from iotrace.traces.foreign_json import parse_foreign_json
from iotrace.traces.formats import dcp_folder, header_file, snapshot_folder, torch_file, torch_scan
from iotrace.traces.formats.checkpoint import parts_of
from iotrace.traces.formats.piece import Piece
from iotrace.traces.formats.torch_file import LEGACY_MAGIC, ZIP_MAGIC
from iotrace.traces.regular import read_regular

_DCP_SUFFIX = ".distcp"
_HEADED_SUFFIX = ".safetensors"
_SUFFIXES = (_HEADED_SUFFIX, ".pt", ".pth", ".bin", ".ckpt")  # names of checkpoints
_SHARDS_SUFFIXES = (".safetensors.index.json", ".bin.index.json")
NOTHING = "nothing"  # was examined
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
        size_bytes: of its files.
        engine: whose format it is; empty: not known.
        index: what is wrong with what tells where tensors lie, or why it was not examined; empty:
            nothing.
        checked: `checksums` if all bytes that are there were held against these, `some checksums`
            if some were, else `extents`; `nothing` of what was not examined.
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

    A shard of DCP is examined with its folder: it is archives one behind another.

    Raises:
        OSError: a file cannot be read.
    """
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        return _folder(path)
    if path.suffix == _DCP_SUFFIX:
        return _folder(path.parent)
    if not stat.S_ISREG(mode):  # to open a pipe is to wait for its writer
        return None
    with path.open("rb") as file:
        head = file.read(max(header_file.LENGTH_BYTES + 2, len(LEGACY_MAGIC)))
    if head.startswith(ZIP_MAGIC):
        return _archive(path)
    is_legacy = head.startswith(LEGACY_MAGIC)
    # What the header's length goes beyond may have been cut off.
    if is_legacy or header_file.looks_like(head, sys.maxsize):
        return _listed(path, is_legacy)
    return None


def examine_named(path: Path) -> Damage | None:
    """Return the state of a file with the name of a checkpoint, whatever it holds; else `None`."""
    return _examined(path, True) if path.name.endswith(_SUFFIXES) else None


def examine_files(folder: Path) -> tuple[Damage, ...]:
    """Return the state of each checkpoint below a folder that is none itself.

    With what has the name of one or cannot be read, and so was not examined, and files that an
    index of shards names and that are gone.
    """
    found: dict[Path, Damage | None] = {}

    def failed(error: OSError) -> None:
        path = Path(error.filename)
        found[path] = _unexamined(path, str(error.strerror))

    for part in parts_of(folder, failed):
        # A shard of DCP without its index is a part of a folder that has lost it.
        path = part.path.parent if part.path.suffix == _DCP_SUFFIX else part.path
        if path not in found:
            found[path] = _examined(path, part.is_folder or path.name.endswith(_SUFFIXES))
    for index in [path for path in found if path.name.endswith(_SHARDS_SUFFIXES)]:
        try:
            shards = _shards(index)
        except _BROKEN:
            found[index] = _broken(index, 0, "broken")
            continue
        for path, names in shards.items():
            damage = found.get(path) or _examined(path, True)
            found[path] = damage and _with_all(damage, names)
    return tuple(damage for damage in found.values() if damage is not None)


def _examined(path: Path, is_named: bool) -> Damage | None:
    """Return the state of a file or a folder; of one with the name of a checkpoint in any case."""
    try:
        damage = examine(path)
        if damage is not None or not is_named:
            return damage
        status = path.stat()
    except FileNotFoundError:
        return _broken(path, 0, "the file is missing") if is_named else None
    except OSError as error:
        return _unexamined(path, str(error.strerror))
    if not stat.S_ISREG(status.st_mode):
        return _unexamined(path, "no regular file")
    size = status.st_size
    if size and _is_zeros(path, size):
        return replace(_broken(path, size, "zeros alone: it was never written"), zeros_bytes=size)
    if not size or path.name.endswith(_HEADED_SUFFIX):
        return _broken(path, size, "cut or broken")
    return _unexamined(path, "of no format that is known", size)


def _is_zeros(path: Path, size: int) -> bool:
    with path.open("rb") as file:
        return not _filled_bytes(file, size)


def _unexamined(path: Path, why: str, size: int = 0) -> Damage:
    return Damage(str(path), "", size, f"not examined: {why}", NOTHING, ())


def _broken(path: Path, size: int, why: str) -> Damage:
    engine = "safetensors" if path.name.endswith(_HEADED_SUFFIX) else ""
    return Damage(str(path), engine, size, why, "extents", ())


def _shards(index: Path) -> dict[Path, list[str]]:
    """Return the names of the tensors that each file of an index of shards is to hold.

    Raises:
        ValueError, OSError: it is broken.
    """
    try:
        files = parse_foreign_json(read_regular(index))["weight_map"].items()
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError("an index without a weight_map") from error
    named: dict[Path, list[str]] = {}
    for tensor, file in files:
        if not isinstance(file, str) or "\0" in file:
            raise ValueError("a tensor in no file")
        named.setdefault(index.parent / file, []).append(tensor)
    return named


def _with_all(damage: Damage, names: Iterable[str]) -> Damage:
    """Return the state of a shard with the tensors that it lacks of those it is to hold."""
    if damage.index:
        return damage
    there = {part.name for part in damage.parts}
    lost = "the index names it, and the file does not hold it"
    lacking = (
        Part(name, damage.path, damage.size_bytes, 0, "", (), lost)
        for name in names
        if name not in there
    )
    return replace(damage, parts=(*damage.parts, *lacking))


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
            why[key] or tensor.flaw(length, found.storages[key].length)
            if key in why
            else "its place is overwritten"
            if found.index
            else "was never written",
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


def _listed(path: Path, is_legacy: bool) -> Damage:
    """Return the state of a file that begins with a list of its tensors."""
    size = path.stat().st_size
    engine, index = ("torch.save" if is_legacy else "safetensors"), ""
    with path.open("rb") as file:
        try:
            if is_legacy:
                pieces = list(torch_file.legacy_pieces(file, path.name))
            else:
                engine, pieces = header_file.pieces(file, path.name)
                index = header_file.flaw(engine, pieces, size)
        except _BROKEN:
            return Damage(str(path), engine, size, "cut or broken", "extents", ())
        filled = _filled_bytes(file, size)
    parts = tuple(_parts(path.parent, pieces))
    return Damage(str(path), engine, size, index, "extents", parts, size - filled)


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
        lost = piece.flaw
        if size < 0:
            lost = f"{piece.path} is missing"
        elif piece.offset + piece.length > size:
            there = max(size - piece.offset, 0)
            lost = f"cut: {there:,} of {piece.length:,} bytes are there"
        name = piece.name or ""
        yield Part(name, str(file), piece.offset, piece.length, piece.dtype, piece.shape, lost)
