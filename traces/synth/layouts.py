"""How each engine lays tensors out in files and asks for them, as measured with real runs.

A step is an op on one file: (op, path, offset, length, tensor). Reads of a load ask for the bytes
of tensors alone; what engines probe besides is not modelled.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from iotrace.traces.synth.models import Tensor

_MIB = 1 << 20
_ZIP_HEADER_BYTES = 30 + 4  # of a record, with the header of its padding
_ZIP_DESCRIPTOR_BYTES = 16
_ZIP_ALIGNMENT_BYTES = 64
_ZIP_ENTRY_BYTES = 60  # of a record in the directory, with its name
_PICKLE_BYTES = 170  # of a tensor in data.pkl
_DCP_BEFORE_BYTES, _DCP_BEHIND_BYTES = 704, 873  # of an item's archive around its tensor
_DCP_INDEX_BYTES = 520  # of an item in .metadata
_SLAB_BYTES = 128 * _MIB  # TorchSnapshot packs smaller tensors into files of this size
_CHUNK_BYTES = 512 * _MIB  # and cuts larger ones
_SAFETENSORS_BLOCK_BYTES = _MIB
_SAFETENSORS_TYPES = {"bfloat16": "BF16", "float32": "F32"}


class Step(NamedTuple):
    """One request, and the tensor that it moves, if any; `inner`: where in it, in bytes."""

    op: str
    path: str
    offset: int = 0
    length: int = 0
    target: str = ""
    pieces: tuple[tuple[Tensor, int, int, int], ...] = ()  # tensor, offset, length, inner


def torch_save(tensors: Sequence[Tensor], rank: int, ranks: int) -> Iterator[Step]:
    """One zip for each rank: a write for each storage, with what lies before it."""
    path = f"rank_{rank}.pt"
    yield Step("open", path)
    end = _ZIP_ALIGNMENT_BYTES + _PICKLE_BYTES * len(tensors)
    written = 0
    for number, tensor in enumerate(tensors):
        name_bytes = len(f"rank_{rank}/data/{number}")  # the archive is called as its file
        start = end + _ZIP_HEADER_BYTES + name_bytes
        offset = -(-start // _ZIP_ALIGNMENT_BYTES) * _ZIP_ALIGNMENT_BYTES
        end = offset + tensor.length
        piece = (tensor, offset, tensor.length, 0)
        yield Step("write", path, written, end - written, pieces=(piece,))
        written = end
        end += _ZIP_DESCRIPTOR_BYTES
    yield Step("write", path, written, end - written + _ZIP_ENTRY_BYTES * len(tensors))
    yield Step("close", path)


def safetensors(tensors: Sequence[Tensor], rank: int, ranks: int) -> Iterator[Step]:
    """One file for each rank: a temporary one, sized first, written by the MiB, then renamed."""
    path = f"rank_{rank}.safetensors"
    draft = f".tmp{rank}"
    ordered = sorted(tensors, key=lambda t: (t.dtype != "float32", t.name))
    header: dict[str, object] = {}
    end = 0
    for tensor in ordered:
        shape = [tensor.rows, *tensor.shape[1:]]
        place = [end, end + tensor.length]
        dtype = _SAFETENSORS_TYPES[tensor.dtype]
        header[tensor.name] = {"dtype": dtype, "shape": shape, "data_offsets": place}
        end += tensor.length
    begin = 8 + -(-len(json.dumps(header, separators=(",", ":"))) // 8) * 8
    size, offset = begin + end, begin
    pieces = []
    for tensor in ordered:
        pieces.append((tensor, offset, tensor.length, 0))
        offset += tensor.length
    yield Step("open", draft)
    yield Step("truncate", draft, 0, size)
    for block in range(0, size, _SAFETENSORS_BLOCK_BYTES):
        yield Step("write", draft, block, min(_SAFETENSORS_BLOCK_BYTES, size - block))
    yield Step("close", draft)
    yield Step("rename", draft, target=path, pieces=tuple(pieces))


def dcp(tensors: Sequence[Tensor], rank: int, ranks: int) -> Iterator[Step]:
    """One file for each rank: three writes for each tensor, a sync; rank 0 writes the index."""
    path = f"__{rank}_0.distcp"
    yield Step("open", path)
    offset = 0
    for tensor in tensors:
        yield Step("write", path, offset, _DCP_BEFORE_BYTES)
        offset += _DCP_BEFORE_BYTES
        piece = (tensor, offset, tensor.length, 0)
        yield Step("write", path, offset, tensor.length, pieces=(piece,))
        offset += tensor.length
        yield Step("write", path, offset, _DCP_BEHIND_BYTES)
        offset += _DCP_BEHIND_BYTES
    yield from (Step("sync", path), Step("close", path))
    if rank == 0:
        index = ".metadata.tmp"
        yield from (Step("open", index), Step("sync", index))
        yield Step("write", index, 0, _DCP_INDEX_BYTES * len(tensors) * ranks)
        yield Step("close", index)
        yield Step("rename", index, target=".metadata")


def torchsnapshot(tensors: Sequence[Tensor], rank: int, ranks: int) -> Iterator[Step]:
    """Slabs of small tensors, and a file for each chunk of a large one; each is one write."""
    slab: list[tuple[Tensor, int, int, int]] = []
    end = number = 0
    for tensor in tensors:
        if tensor.length >= _SLAB_BYTES:
            for inner in range(0, tensor.length, _CHUNK_BYTES):
                length = min(_CHUNK_BYTES, tensor.length - inner)
                path = f"sharded/{tensor.name}.{rank}_{inner}"
                yield from _whole(path, length, ((tensor, 0, length, inner),))
            continue
        if end + tensor.length > _SLAB_BYTES and slab:
            yield from _whole(f"batched/{rank}_{number}", end, tuple(slab))
            slab, end, number = [], 0, number + 1
        slab.append((tensor, end, tensor.length, 0))
        end += tensor.length
    if slab:
        yield from _whole(f"batched/{rank}_{number}", end, tuple(slab))
    if rank == 0:
        yield from _whole(".snapshot_metadata", 380 * len(tensors) * ranks, ())


def _whole(
    path: str, length: int, pieces: tuple[tuple[Tensor, int, int, int], ...]
) -> Iterator[Step]:
    yield Step("open", path)
    yield Step("write", path, 0, length, pieces=pieces)
    yield Step("close", path)


def datastates(tensors: Sequence[Tensor], rank: int, ranks: int) -> Iterator[Step]:
    """One file for each rank: header, then open, write and close for each tensor, then a pickle."""
    path = f"rank_{rank}.ckpt"
    offset = 8 + 110 * len(tensors)
    yield Step("open", path)
    yield Step("write", path, 0, offset)
    yield Step("close", path)
    for tensor in tensors:
        yield Step("open", path, length=1)  # not emptied again
        piece = (tensor, offset, tensor.length, 0)
        yield Step("write", path, offset, tensor.length, pieces=(piece,))
        yield Step("close", path)
        offset += tensor.length
    yield Step("open", path, length=1)
    yield Step("write", path, offset, 60 * len(tensors))
    yield Step("close", path)


Layout = Callable[[Sequence[Tensor], int, int], Iterator[Step]]

LAYOUTS: Mapping[str, Layout] = MappingProxyType(
    {
        "torch.save": torch_save,
        "safetensors": safetensors,
        "dcp": dcp,
        "torchsnapshot": torchsnapshot,
        "datastates-llm": datastates,
    }
)
