"""Saves and loads with torch.distributed.checkpoint in one process; says what it saved.

Usage: dcp_cases.py FOLDER

Writes FOLDER/truth.json: the tensors of each checkpoint by name.
"""

import json
import os
import sys
import warnings
from contextlib import contextmanager
from pathlib import Path

import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint import FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint._fsspec_filesystem import FsspecWriter
from torch.distributed.checkpoint.filesystem import FileSystem, SerializationFormat
from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions

CASES = ("plain", "threads", "each", "fsspec", "async", "own", "staged")

warnings.simplefilter("ignore")
torch.manual_seed(11)


class OwnFileSystem(FileSystem):
    """One that opens its files in a way of its own, as vendors' do."""

    @contextmanager
    def create_stream(self, path, mode):
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), mode) as stream:
            yield stream


def make_state():
    """Return a nested state of many kinds."""
    base = torch.randn(6, 8)
    return {
        "model": {
            "weight": torch.randn(17, 13),
            "half": torch.randn(5).bfloat16(),
            "mask": torch.tensor([True, False, True]),
            "steps": torch.tensor(3),
            "view": base[2:4],
            "turned": torch.randn(4, 7).t(),
            "complex": torch.randn(3, dtype=torch.complex64),
        },
        "list": [torch.arange(4), torch.arange(5.0)],
        "empty": torch.zeros(0, 3),
    }


def flat(value, prefix=""):
    """Yield the tensors of a nested state by name."""
    if isinstance(value, torch.Tensor):
        yield prefix[1:], value
    elif isinstance(value, (dict, list)):
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        for key, inner in pairs:
            yield from flat(inner, f"{prefix}.{key}")


def blank(value):
    """Return the same structure to load into."""
    if isinstance(value, torch.Tensor):
        return torch.zeros_like(value)
    if isinstance(value, dict):
        return {key: blank(inner) for key, inner in value.items()}
    return [blank(inner) for inner in value] if isinstance(value, list) else value


def expect(tensors):
    """Return what the trace must say of each tensor."""
    return {
        name: {
            "dtype": str(tensor.dtype)[6:],
            "shape": list(tensor.shape),
            "bytes": stored_bytes(tensor).hex(),
        }
        for name, tensor in tensors.items()
    }


def stored_bytes(tensor):
    """Return a tensor's bytes as DCP stores them, in the order they have in memory."""
    kept = tensor.detach().clone()
    return bytes(kept.untyped_storage())[: kept.nbytes]


def main(folder):
    state = make_state()
    tensors = dict(flat(state))
    with_object = {**state, "object": {1, 2}}

    dcp.save(with_object, checkpoint_id=folder / "plain", no_dist=True)
    dcp.load(blank(with_object), checkpoint_id=folder / "plain", no_dist=True)

    writer = FileSystemWriter(folder / "threads", thread_count=3)
    dcp.save(state, storage_writer=writer, no_dist=True)
    dcp.load(blank(state), storage_reader=FileSystemReader(folder / "threads"), no_dist=True)

    writer = FileSystemWriter(folder / "each", single_file_per_rank=False, sync_files=False)
    dcp.save(state, storage_writer=writer, no_dist=True)

    dcp.save(state, storage_writer=FsspecWriter(f"file://{folder}/fsspec"), no_dist=True)

    writer = FileSystemWriter(
        folder / "safetensors", serialization_format=SerializationFormat.SAFETENSORS
    )
    dense = {name: tensor.contiguous() for name, tensor in tensors.items()}
    dcp.save(dense, storage_writer=writer, no_dist=True)

    dcp.async_save(state, checkpoint_id=folder / "async", no_dist=True).result()
    dcp.async_save(state, storage_writer=FileSystemWriter(folder / "async2")).result()

    writer = FileSystemWriter(folder / "own", single_file_per_rank=False)
    writer.fs = OwnFileSystem()
    dcp.save(state, storage_writer=writer, no_dist=True)

    stager = DefaultStager(StagingOptions(False, False, True, False))  # on a thread of its own
    pending = dcp.async_save(
        state, checkpoint_id=folder / "staged", no_dist=True, async_stager=stager
    )
    pending.staging_completion.result()
    pending.upload_completion.result()
    stager.close()

    part = {"model": {"weight": torch.zeros(17, 13)}}
    dcp.load(part, checkpoint_id=folder / "plain", no_dist=True)
    assert torch.equal(part["model"]["weight"], state["model"]["weight"])

    truth = {name: expect(tensors) for name in CASES}
    truth["async2"] = truth["safetensors"] = expect(dense)
    (folder / "truth.json").write_text(json.dumps(truth))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
