"""Checkpoints of torch.distributed.checkpoint: `.metadata` tells where in which file items lie."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator
from contextlib import ExitStack
from operator import gt
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

from iotrace.traces.formats.pickled import Global, Object, Pairs, parse
from iotrace.traces.formats.piece import ITEM_BYTES, Piece, bits, first_byte, misfit, sizes
from iotrace.traces.formats.torch_file import PICKLE_MAX_BYTES, ZIP_MAGIC, zip_pieces
from iotrace.traces.formats.window import Window

ENGINE = "dcp"
METADATA = ".metadata"
_MODULE = "torch.distributed.checkpoint"
_RANK = re.compile(r"__(\d+)_\d+\.distcp$")


class _Item(NamedTuple):
    """A tensor's chunk, or an object, in a file."""

    path: str
    offset: int
    length: int
    name: str
    chunk: tuple[int, ...]
    transformed: bool = False


class _Tensor(NamedTuple):
    """What is said of a whole tensor; `chunks`: the shapes of its parts, by where they begin."""

    dtype: str
    shape: tuple[int, ...]
    chunks: dict[tuple[int, ...], tuple[int, ...]]


def pieces(folder: Path) -> Iterator[Piece]:
    """Yield the tensors and objects of a checkpoint, file by file, in the order of their bytes.

    Raises:
        ValueError: the metadata are broken.
        OSError: a file cannot be read.
    """
    items, tensors = _index(folder)
    opened: tuple[str, BinaryIO | None] = ("", None)
    try:
        for item in items:
            if item.path != opened[0]:
                if opened[1] is not None:
                    opened[1].close()
                opened = item.path, _open(folder / item.path)
            yield from _pieces_of(item, tensors.get(item.name), opened[1])
    finally:
        if opened[1] is not None:
            opened[1].close()


def extents(folder: Path) -> Iterator[Piece]:
    """Yield what `pieces` does, with all bytes that are kept of each; of the data no more is read
    than the index of each archive.

    Raises:
        ValueError: the metadata are broken.
        OSError: they cannot be read.
    """
    items, tensors = _index(folder)
    with ExitStack() as opened:
        path, file = "", None
        for item in items:
            if item.path != path:
                opened.close()
                path, file = item.path, _open(folder / item.path)
                if file is not None:
                    opened.enter_context(file)
            (whole,) = _pieces_of(item, tensors.get(item.name), None)
            yield whole if whole.flaw or file is None else whole._replace(flaw=_within(item, file))


def _index(folder: Path) -> tuple[list[_Item], dict[str, _Tensor]]:
    """Return where items lie, in order, and what is said of the tensors."""
    metadata = folder / METADATA
    if metadata.stat().st_size > PICKLE_MAX_BYTES:
        raise ValueError(f"a pickle of {metadata.stat().st_size} bytes")
    root = parse(metadata.read_bytes())
    if not (isinstance(root, Object) and root.is_a(_MODULE, "Metadata")):
        raise ValueError("no metadata of torch.distributed.checkpoint")
    attributes = root.attributes()
    tensors = dict(_tensors(attributes.get("state_dict_metadata")))
    return sorted(_items(attributes.get("storage_data"))), tensors


def _within(item: _Item, file: BinaryIO) -> str:
    """Return what is wrong inside an item that is there; empty: nothing."""
    size = os.fstat(file.fileno()).st_size
    if item.offset + item.length > size:
        return ""  # it is cut, which the one who asks can tell
    try:
        return next((one.flaw for one in _archived(item, file) if one.flaw), "")
    except ValueError as error:
        return f"it is {error}"


def _open(path: Path) -> BinaryIO | None:
    """Open a data file; None if it is not there: its items have their extents all the same."""
    return path.open("rb") if path.is_file() else None


def _tensors(node: Any) -> Iterator[tuple[str, _Tensor]]:
    for name, value in node if isinstance(node, Pairs) else ():
        if not (isinstance(value, Object) and value.is_a(_MODULE, "TensorStorageMetadata")):
            continue
        attributes = value.attributes()
        dtype, shape = _dtype(attributes.get("properties")), _size(attributes["size"])
        yield str(name), _Tensor(dtype, shape, dict(_chunks(attributes.get("chunks"))))


def _chunks(node: Any) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    for chunk in node if isinstance(node, list) else ():
        if not isinstance(chunk, Object):
            raise ValueError("a chunk that is none")
        place = chunk.attributes()
        yield _size(place.get("offsets")), _size(place.get("sizes"))


def _dtype(properties: Any) -> str:
    """Return the type of a tensor: the first of its properties."""
    state = properties.state if isinstance(properties, Object) else None
    first = state[0] if isinstance(state, tuple) and state else None
    if first is None and isinstance(properties, Object):
        first = properties.attributes().get("dtype")
    return first.name if isinstance(first, Global) else "uint8"


def _size(node: Any) -> tuple[int, ...]:
    if isinstance(node, Object) and node.is_a("torch", "Size"):
        arguments = node.arguments
        return sizes(arguments[0] if isinstance(arguments, tuple) and arguments else ())
    return sizes(node)


def _items(node: Any) -> Iterator[_Item]:
    if not isinstance(node, Pairs):
        raise ValueError("no places of tensors in the metadata")
    for index, stored in node:
        if not (isinstance(index, Object) and isinstance(stored, Object)):
            raise ValueError("an entry that is no place")
        which, place = index.attributes(), stored.attributes()
        path, offset, length = (place.get(n) for n in ("relative_path", "offset", "length"))
        if not (type(offset) is type(length) is int and offset >= 0 and length >= 0):
            raise ValueError("an entry without a place")
        if not isinstance(path, str) or path.startswith("/") or ".." in path.split("/"):
            raise ValueError(f"an entry in {str(path)[:40]!r}")
        chunk = which.get("offset")
        begin = () if chunk is None else _size(chunk)
        transformed = bool(place.get("transform_descriptors"))
        yield _Item(path, offset, length, str(which.get("fqn")), begin, transformed)


def _pieces_of(item: _Item, tensor: _Tensor | None, file: BinaryIO | None) -> Iterator[Piece]:
    match = _RANK.search(item.path)
    rank = int(match[1]) if match else -1
    if tensor is None:
        whole = (item.length,)
        yield Piece(item.path, item.offset, item.length, item.name, "uint8", whole, rank=rank)
        return
    skipped = first_byte(tensor.shape, item.chunk, ITEM_BYTES.get(tensor.dtype, 1))
    described = Piece(
        item.path,
        item.offset,
        item.length,
        item.name,
        tensor.dtype,
        tensor.shape,
        tensor_offset=skipped,
        rank=rank,
        flaw=_too_short(item, tensor),
    )
    inner = list(_archived(item, file)) if file is not None else []
    for one in inner or [described]:
        flaw = described.flaw or one.flaw
        yield described._replace(offset=one.offset, length=one.length, flaw=flaw)


def _too_short(item: _Item, tensor: _Tensor) -> str:
    """Return that an item has fewer bytes than its part of the tensor, or that is none; or empty.

    An archive has more.
    """
    begin = item.chunk or (0,) * len(tensor.shape)
    chunk = tensor.chunks.get(begin)
    if chunk is None:
        return "it is no part of its tensor" if tensor.chunks else ""
    ends = [first + size for first, size in zip(begin, chunk, strict=False)]
    if len(ends) != len(tensor.shape) or any(map(gt, ends, tensor.shape)):
        return "it reaches beyond its tensor"
    needed_bits = bits(tensor.dtype, chunk)
    if item.transformed or needed_bits is None or needed_bits <= 8 * item.length:
        return ""
    return misfit(needed_bits, item.length)


def _archived(item: _Item, file: BinaryIO) -> Iterator[Piece]:
    """Yield where in an item the tensor's own bytes lie: each is an archive of torch.save's."""
    file.seek(item.offset)
    if file.read(len(ZIP_MAGIC)) != ZIP_MAGIC:
        return
    window = cast(BinaryIO, io.BufferedReader(Window(file, item.offset, item.length)))
    seen = set()
    for piece in zip_pieces(window, item.path, item.offset):
        if piece.offset not in seen:
            seen.add(piece.offset)
            yield piece
