"""Checkpoints of TorchSnapshot: `.snapshot_metadata` tells where in which file tensors lie."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from math import prod
from operator import gt
from pathlib import Path
from typing import Any

from iotrace.traces.errors import TraceFormatError
from iotrace.traces.foreign_json import parse_foreign_json
from iotrace.traces.formats.piece import (
    ITEM_BYTES,
    MAX_BYTES,
    Piece,
    bits,
    first_byte,
    misfit,
    sizes,
)
from iotrace.traces.formats.torch_file import zip_pieces

ENGINE = "torchsnapshot"
METADATA = ".snapshot_metadata"
METADATA_MAX_BYTES = 1 << 29
_RAW = "buffer_protocol"


def pieces(folder: Path) -> Iterator[Piece]:
    """Yield the tensors and objects of a snapshot, file by file, in the order of their bytes.

    Raises:
        ValueError: the metadata are broken.
        OSError: a file cannot be read.
    """
    found = dict.fromkeys(
        piece for path, entry in _manifest(folder).items() for piece in _of(folder, path, entry)
    )
    yield from sorted(found, key=lambda piece: (piece.path, piece.offset))


def _manifest(folder: Path) -> Mapping[str, Any]:
    path = folder / METADATA
    if path.stat().st_size > METADATA_MAX_BYTES:
        raise ValueError(f"metadata of {path.stat().st_size} bytes")
    text = path.read_text("utf-8")
    try:
        value = parse_foreign_json(text)
    except json.JSONDecodeError:
        value = _yaml(path, text)
    manifest = value.get("manifest") if isinstance(value, dict) else None
    if not isinstance(manifest, dict):
        raise ValueError("no manifest in the metadata")
    return manifest


def _yaml(path: Path, text: str) -> Any:
    """Read what TorchSnapshot wrote before it chose JSON, which is YAML as well."""
    try:
        import yaml
    except ModuleNotFoundError as error:
        raise TraceFormatError(f"{path} is YAML; `pip install pyyaml` to read it") from error
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError("no YAML") from error


def _of(folder: Path, path: str, entry: Any) -> Iterator[Piece]:
    """Yield the pieces of one entry of the manifest."""
    if not isinstance(entry, dict):
        raise ValueError(f"the entry {path[:40]!r} is none")
    rank, _, name = path.partition("/")
    number = int(rank) if rank.isdecimal() and len(rank) < 10 else -1
    name = name.replace("/", ".").replace("%2F", "/").replace("%25", "%")
    parts = entry.get("shards") or entry.get("chunks")
    try:
        if parts:
            shape = sizes(entry["shape"]) if "shape" in entry else _hull(parts)
            for part in parts:
                offsets = sizes(part["offsets"])
                inner = part["tensor"]
                ends = [a + b for a, b in zip(offsets, sizes(inner["shape"]), strict=False)]
                if len(ends) != len(shape) or any(map(gt, ends, shape)):
                    raise ValueError(f"a part of the entry {path[:40]!r} lies outside it")
                yield from _tensor(folder, name, inner, shape, offsets, number)
        elif entry.get("type") == "Tensor":
            yield from _tensor(folder, name, entry, sizes(entry["shape"]), (), number)
        elif entry.get("type") == "object":
            location = _location(entry)
            length = (folder / location).stat().st_size if (folder / location).is_file() else 0
            yield Piece(location, 0, length, name, "uint8", (length,), rank=number)
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"the entry {path[:40]!r} is broken") from error


def _hull(parts: list[Any]) -> tuple[int, ...]:
    """Return the shape of a tensor of which only shards are known."""
    ends = [
        [offset + size for offset, size in zip(sizes(p["offsets"]), sizes(p["sizes"]), strict=True)]
        for p in parts
    ]
    return tuple(map(max, zip(*ends, strict=True)))


def _tensor(
    folder: Path,
    name: str,
    entry: Mapping[str, Any],
    shape: tuple[int, ...],
    offsets: tuple[int, ...],
    rank: int,
) -> Iterator[Piece]:
    dtype = str(entry["dtype"]).rpartition(".")[2]
    item_bytes = ITEM_BYTES.get(dtype, 1)
    location = _location(entry)
    skipped = first_byte(shape, offsets, item_bytes)
    described = (name, dtype, shape, "cpu", skipped, rank)
    if entry.get("serializer") != _RAW:
        for offset, length, flaw in _archived(folder / location):
            yield Piece(location, offset, length, *described, flaw)
        return
    needed_bits = bits(dtype, sizes(entry["shape"]))
    begin, end = entry.get("byte_range") or (0, None)
    if end is None:
        end = (needed_bits or 8 * prod(sizes(entry["shape"]))) // 8
    if not (type(begin) is type(end) is int and 0 <= begin <= end <= MAX_BYTES):
        raise ValueError(f"{name[:40]!r} has no place")
    unlike = misfit(needed_bits, end - begin)
    yield Piece(location, begin, end - begin, *described, unlike)


def _location(entry: Mapping[str, Any]) -> str:
    location = str(entry["location"])
    if location.startswith("/") or ".." in location.split("/"):
        raise ValueError(f"an entry in {location[:40]!r}")
    return location


def _archived(path: Path) -> Iterator[tuple[int, int, str]]:
    """Yield the extents in a file that is an archive of torch.save's, and their flaws."""
    if not path.is_file():
        return
    with path.open("rb") as file:
        found = zip_pieces(file, "")
        yield from {(piece.offset, piece.length, piece.flaw): None for piece in found}
