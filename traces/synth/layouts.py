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
_DATASTATES_PICKLE_BYTES = 54  # of a tensor in what lies behind the tensors
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
    """A file for each large part of a tensor, then slabs of the smaller ones; each is one write."""
    slabs: list[list[tuple[Tensor, int, int, int]]] = [[]]
    end = 0
    for tensor in tensors:
        rows = _rows_of_a_part(tensor, is_sharded=ranks > 1)
        for first in range(0, tensor.rows, rows):
            length = min(rows, tensor.rows - first) * tensor.row_bytes
            inner = first * tensor.row_bytes
            if length >= _SLAB_BYTES:
                place = [tensor.first_row + first, *(0 for _ in tensor.shape[1:])]
                path = f"sharded/{tensor.name}" if ranks > 1 else f"{rank}/{tensor.name}"
                if ranks > 1 or rows < tensor.rows:
                    path += "_" + "_".join(map(str, place))
                yield from _whole(path, length, ((tensor, 0, length, inner),))
                continue
            if end + length >= _SLAB_BYTES:
                slabs.append([])
                end = 0
            slabs[-1].append((tensor, end, length, inner))
            end += length
    for number, slab in enumerate(slabs):
        if slab:
            length = sum(piece[2] for piece in slab)
            yield from _whole(f"batched/{rank}_{number}", length, tuple(slab))
    if rank == 0:
        yield from _whole(".snapshot_metadata", 380 * len(tensors) * ranks, ())


def _rows_of_a_part(tensor: Tensor, is_sharded: bool) -> int:
    """Return how many rows TorchSnapshot keeps together: parts of a plain tensor are equal."""
    if is_sharded:
        return max(_CHUNK_BYTES // tensor.row_bytes, 1)
    return -(-tensor.rows // -(-tensor.length // _CHUNK_BYTES))


def _whole(
    path: str, length: int, pieces: tuple[tuple[Tensor, int, int, int], ...]
) -> Iterator[Step]:
    yield Step("open", path)
    yield Step("write", path, 0, length, pieces=pieces)
    yield Step("close", path)


def datastates(tensors: Sequence[Tensor], rank: int, ranks: int) -> Iterator[Step]:
    """One file for each rank: header and pickle, and open, write and close for each tensor."""
    path = f"rank_{rank}.ckpt"
    yield from (Step("open", path), Step("close", path))
    header: dict[str, object] = {}
    end = 0
    for tensor in tensors:
        header[tensor.name.replace(".", "|")] = {
            "dtype": f"torch.{tensor.dtype}",
            "shape": [tensor.rows, *tensor.shape[1:]],
            "data_offsets": [end, end + tensor.length],
        }
        end += tensor.length
    pickle_bytes = _DATASTATES_PICKLE_BYTES * len(tensors)
    header["datastates_metadata"] = {"data_offsets": [end, end + pickle_bytes]}
    header_bytes = len(json.dumps(header))
    begin = 8 + header_bytes
    yield Step("open", path, length=1)  # not emptied again
    yield from (Step("write", path, 0, 8), Step("write", path, 8, header_bytes))
    yield Step("write", path, begin + end, pickle_bytes)
    yield Step("close", path)
    offset = begin
    for tensor in tensors:
        yield Step("open", path, length=1)
        piece = (tensor, offset, tensor.length, 0)
        yield Step("write", path, offset, tensor.length, pieces=(piece,))
        yield Step("close", path)
        offset += tensor.length


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
