"""Saves and loads many kinds of objects; says what it saved, for the test to find in the files.

Usage: torch_cases.py FOLDER

Writes FOLDER/truth.json: for each file what is expected of its rows, by tensor name.
"""

import io
import json
import os
import sys
import tempfile
import warnings
from collections import OrderedDict, deque, namedtuple
from dataclasses import dataclass
from pathlib import Path

import fsspec
import torch
from torch import nn
from torch.utils.serialization import config

warnings.simplefilter("ignore")
torch.manual_seed(7)

UNLOADABLE = ("recent_kinds.legacy", "ragged.legacy")  # torch itself fails on them

Pair = namedtuple("Pair", ["left", "right"])


@dataclass
class Record:
    weight: torch.Tensor
    note: str = "text"


class Slotted:
    __slots__ = ("tensor",)

    def __init__(self, tensor):
        self.tensor = tensor


class Scaled(torch.Tensor):
    """A wrapper without bytes of its own, as DTensor and quantised weights are."""

    @staticmethod
    def __new__(cls, data, scale):
        return torch.Tensor._make_wrapper_subclass(cls, data.shape, dtype=torch.float32)

    def __init__(self, data, scale):
        self.data_part = data
        self.scale_part = scale

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        raise NotImplementedError(f"{function} on a wrapper")


class Saver:
    """Saves something of its own while it is pickled."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __reduce__(self):
        buffer = io.BytesIO()
        torch.save({"inner": self.tensor}, buffer)
        return (bytes, (buffer.getvalue(),))


def storage_hex(storage):
    """Return the bytes of a storage."""
    return torch.tensor([], dtype=torch.uint8).set_(storage.cpu()).numpy().tobytes().hex()


def expect(tensors):
    """Return what the trace must say of each tensor."""
    rows = {}
    for name, tensor in tensors.items():
        storage = tensor.untyped_storage()
        rows[name] = {
            "dtype": str(tensor.dtype)[6:],
            "shape": list(tensor.shape),
            "device": str(tensor.device),
            "tensor_offset": -tensor.storage_offset() * tensor.element_size(),
            "bytes": storage_hex(storage),
        }
    return rows


def make_cases():
    """Yield (name, object, {tensor name: tensor})."""
    model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))
    state = model.state_dict()
    yield "state_dict", state, state
    yield "module", model, state
    module = nn.Module()
    module.layer = nn.Linear(2, 2)
    module.cache = {"k": torch.rand(3)}
    yield (
        "module_with_more",
        module,
        {
            "layer.weight": module.layer.weight,
            "layer.bias": module.layer.bias,
            "cache.k": module.cache["k"],
        },
    )
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.rand(5, 4)).sum().backward()
    optimizer.step()
    moments = optimizer.state_dict()
    names = {
        f"state.{index}.{key}": value
        for index, values in moments["state"].items()
        for key, value in values.items()
    }
    yield "optimizer", moments, names
    tensors = [torch.rand(2) + index for index in range(12)]
    yield (
        "nested",
        {
            "list": [tensors[0], (tensors[1], {"deep": tensors[2]})],
            "pair": Pair(tensors[3], tensors[4]),
            "record": Record(tensors[5]),
            "slotted": Slotted(tensors[6]),
            "ordered": OrderedDict(x=tensors[7]),
            "queue": deque([tensors[8]]),
            5: tensors[9],
            ("tuple", "key"): tensors[10],
            tensors[11]: 1,
        },
        {
            "list.0": tensors[0],
            "list.1.0": tensors[1],
            "list.1.1.deep": tensors[2],
            "pair.left": tensors[3],
            "pair.right": tensors[4],
            "record.weight": tensors[5],
            "slotted.tensor": tensors[6],
            "ordered.x": tensors[7],
            "queue.0": tensors[8],
            "5": tensors[9],
            "7": tensors[10],
            "8.key": tensors[11],
        },
    )
    base = torch.arange(24.0).reshape(4, 6)
    views = {"base": base, "row": base[2], "transposed": base.t(), "again": base}
    yield "views", views, views
    kinds = {
        "empty": torch.empty(0, 3),
        "scalar": torch.tensor(2.5),
        "bfloat16": torch.rand(3, 2).bfloat16(),
        "half": torch.rand(3).half(),
        "bool": torch.tensor([True, False, True]),
        "int64": torch.arange(5),
        "complex": torch.rand(3, dtype=torch.complex64),
        "conjugate": torch.rand(3, dtype=torch.complex64).conj(),
        "parameter": nn.Parameter(torch.rand(2)),
        "quantised": torch.quantize_per_tensor(torch.rand(4), 0.1, 0, torch.qint8),
    }
    yield "kinds", kinds, kinds
    recent = {
        "uint16": torch.arange(5).to(torch.uint16),
        "float8": torch.rand(5).to(torch.float8_e4m3fn),
    }
    yield "recent_kinds", recent, recent
    per_channel = torch.quantize_per_channel(
        torch.rand(2, 3), torch.tensor([0.1, 0.2]), torch.tensor([0, 1]), 0, torch.quint8
    )
    yield (
        "per_channel",
        {"w": per_channel},
        {
            "w": per_channel,
            "w.q_per_channel_scales": per_channel.q_per_channel_scales(),
            "w.q_per_channel_zero_points": per_channel.q_per_channel_zero_points(),
        },
    )
    nested = torch.nested.nested_tensor([torch.rand(2), torch.rand(3)])
    yield (
        "ragged",
        {"n": nested},
        {
            "n.values": nested.values(),
            "n.nested_tensor_size": nested._nested_tensor_size(),
            "n.nested_tensor_strides": nested._nested_tensor_strides(),
            "n.nested_tensor_storage_offsets": nested._nested_tensor_storage_offsets(),
        },
    )
    coo = torch.eye(3).to_sparse()
    csr = torch.eye(3).to_sparse_csr()
    yield (
        "sparse",
        {"coo": coo, "csr": csr},
        {
            "coo.indices": coo._indices(),
            "coo.values": coo._values(),
            "csr.crow_indices": csr.crow_indices(),
            "csr.col_indices": csr.col_indices(),
            "csr.values": csr.values(),
        },
    )
    wrapper = Scaled(torch.arange(4, dtype=torch.int8), torch.tensor([0.5]))
    yield (
        "wrapper",
        {"w": wrapper},
        {"w.data_part": wrapper.data_part, "w.scale_part": wrapper.scale_part},
    )
    bare = torch.rand(7)
    yield "bare", bare, {"": bare}
    cycle = {"t": torch.rand(2)}
    cycle["self"] = cycle
    yield "cycle", cycle, {"t": cycle["t"]}
    yield "no_tensors", {"epoch": 3}, {}
    many = {f"t{index:02}": torch.full((index,), float(index)) for index in range(25)}
    yield "many", many, many


def save_cases(folder, truth):
    """Save every case in both formats and load it in every way."""
    for name, obj, tensors in make_cases():
        for suffix, options in (("pt", {}), ("legacy", {"_use_new_zipfile_serialization": False})):
            path = folder / f"{name}.{suffix}"
            torch.save(obj, path, **options)
            truth[str(path)] = expect(tensors)
            if path.name not in UNLOADABLE:
                torch.load(path, weights_only=False)


def save_targets(folder, truth):
    """Save to each kind of target."""
    obj = {"a": torch.rand(100), "b": torch.rand(3)}
    rows = expect(obj)

    def expected_at(path):
        truth[str(path)] = rows

    os.chdir(folder)
    torch.save(obj, "relative.pt")
    torch.load("relative.pt")
    expected_at(folder / "relative.pt")
    torch.save(obj, str(folder / "gewöhnlich-模型.pt"))
    torch.load(str(folder / "gewöhnlich-模型.pt"))
    expected_at(folder / "gewöhnlich-模型.pt")
    for name, options in (
        ("file.bin", {}),
        ("unbuffered.bin", {"buffering": 0}),
        ("legacy.bin", {"legacy": True}),
    ):
        with open(folder / name, "wb", buffering=options.get("buffering", -1)) as file:
            file.write(b"#" * 1001)
            torch.save(obj, file, _use_new_zipfile_serialization="legacy" not in options)
        with open(folder / name, "rb") as file:
            file.seek(1001)
            torch.load(file)
        expected_at(folder / name)
    with open("by_name.bin", "wb") as file:
        torch.save(obj, file)
    expected_at(folder / "by_name.bin")
    with tempfile.NamedTemporaryFile(dir=folder, delete=False, suffix=".tmp") as file:
        torch.save(obj, file)
    expected_at(file.name)
    with fsspec.open(f"file://{folder}/fsspec.bin", "wb") as file:
        file.write(b"#" * 77)
        torch.save(obj, file)
    expected_at(folder / "fsspec.bin")
    for alignment in (1, 256, 4096):
        config.save.storage_alignment = alignment
        torch.save(obj, folder / f"aligned{alignment}.pt")
        torch.load(folder / f"aligned{alignment}.pt")
        expected_at(folder / f"aligned{alignment}.pt")
    config.save.storage_alignment = 64
    config.save.compute_crc32 = False
    torch.save(obj, folder / "no_crc.pt")
    config.save.compute_crc32 = True
    expected_at(folder / "no_crc.pt")
    torch.load(folder / "no_crc.pt", mmap=True)
    config.load.calculate_storage_offsets = True
    torch.load(folder / "many.pt", mmap=True)
    config.load.calculate_storage_offsets = False
    torch.load(folder / "views.pt", weights_only=True, map_location=lambda storage, _: storage)


def save_elsewhere(folder, truth):
    """Save what has no bytes in a file of its own."""
    buffer = io.BytesIO()
    torch.save({"in_memory": torch.rand(3)}, buffer)
    buffer.seek(0)
    torch.load(buffer)
    torch.save({"outer": torch.rand(2), "saver": Saver(torch.rand(4))}, folder / "outer.pt")
    meta = {"nothing": torch.empty(3, device="meta"), "real": torch.rand(2)}
    torch.save(meta, folder / "meta.pt")
    torch.load(folder / "many.pt", map_location="meta")


def main():
    folder = Path(sys.argv[1])
    truth = {}
    save_cases(folder, truth)
    save_targets(folder, truth)
    save_elsewhere(folder, truth)
    (folder / "truth.json").write_text(json.dumps(truth))


if __name__ == "__main__":
    main()
