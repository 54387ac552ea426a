"""Takes and restores snapshots in one process; says what it saved.

Usage: snapshot_cases.py FOLDER

Writes FOLDER/truth.json: the tensors by name.
"""

import json
import logging
import os
import sys
import warnings
from pathlib import Path

import torch
from torchsnapshot import Snapshot, StateDict, storage_plugin
from torchsnapshot.knobs import (
    override_is_batching_disabled,
    override_max_chunk_size_bytes,
    override_slab_size_threshold_bytes,
)
from torchsnapshot.storage_plugins.fs import FSStoragePlugin

SLAB_BYTES = "TORCHSNAPSHOT_SLAB_SIZE_THRESHOLD_BYTES_OVERRIDE"

warnings.simplefilter("ignore")
logging.disable()
torch.manual_seed(3)


class OwnPlugin(FSStoragePlugin):
    """A plugin of the job's, which may do more with each file than the engine's."""

    async def write(self, write_io):
        await super().write(write_io)

    async def read(self, read_io):
        await super().read(read_io)


def make_state():
    """Return a state of many kinds, with an object that is no tensor."""
    return {
        "model": {
            "layer.weight": torch.randn(17, 13),
            "a/b": torch.arange(9),
            "mask": torch.tensor([True, False, True]),
            "step": torch.tensor(3),
            "view": torch.randn(6, 8)[2:4],
            "turned": torch.randn(4, 7).t(),
            "complex": torch.randn(3, dtype=torch.complex64),
            "quantised": torch.quantize_per_tensor(torch.randn(6), 0.1, 0, torch.qint8),
        },
        "list": [torch.arange(4), torch.arange(5.0)],
        "object": {1, 2},
        "number": 7,
    }


def expect(state):
    """Return what the trace must say of each tensor."""
    named = {f"all.model.{name}": tensor for name, tensor in state["model"].items()}
    named |= {f"all.list.{index}": tensor for index, tensor in enumerate(state["list"])}
    return {
        name: {
            "dtype": str(tensor.dtype)[6:],
            "shape": list(tensor.shape),
            "bytes": content(tensor).hex(),
        }
        for name, tensor in named.items()
    }


def content(tensor):
    """Return the bytes of a tensor, one row after another."""
    if tensor.is_quantized:
        tensor = tensor.int_repr()
    return tensor.contiguous().numpy().tobytes()


def main(folder):
    state = make_state()

    def app():
        return {"all": StateDict(**state)}

    def take(name):
        return Snapshot.take(str(folder / name), app())

    take("plain").restore(app())
    with override_is_batching_disabled(True):
        take("single").restore(app())
    with override_slab_size_threshold_bytes(200):
        take("slabs").restore(app())
    os.environ[SLAB_BYTES] = "700"  # a tensor's chunks lie in two of them
    with override_max_chunk_size_bytes(300):
        take("chunks").restore(app())
    del os.environ[SLAB_BYTES]
    Snapshot.async_take(str(folder / "async"), app()).wait().restore(app())
    for name in ("plain", "chunks"):
        snapshot = Snapshot(f"fs://{folder}/{name}")
        snapshot.read_object("0/all/model/layer.weight", memory_budget_bytes=200)
    storage_plugin.FSStoragePlugin = OwnPlugin
    take("own").restore(app())
    (folder / "truth.json").write_text(json.dumps(expect(state)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
