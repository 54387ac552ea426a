"""Saves and loads with safetensors in many ways; says what it saved.

Usage: safetensors_cases.py FOLDER

Writes FOLDER/truth.json: for each file what is expected of its rows, by tensor name.
"""

import inspect
import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import safetensors.numpy
import safetensors.torch
import torch
from safetensors import safe_open
from torch import nn

torch.manual_seed(7)

RECENT = ("float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu", "float8_e4m3fnuz")


class Tied(nn.Module):
    """A model two of whose parameters are one tensor, as with tied embeddings."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(5, 4)
        self.norm = nn.LayerNorm(4)
        self.head = nn.Linear(4, 5, bias=False)
        self.head.weight = self.embedding.weight


def kinds():
    """Return a tensor of each type, with the shapes that are easy to get wrong."""
    tensors = {
        "empty": torch.empty(0, 3),
        "scalar": torch.tensor(2.5),
        "bfloat16": torch.rand(3, 2).bfloat16(),
        "half": torch.rand(3).half(),
        "bool": torch.tensor([True, False, True]),
        "double": torch.rand(2, dtype=torch.float64),
        "complex": torch.rand(3, dtype=torch.complex64),
        "part": torch.arange(20.0).reshape(4, 5)[1:3],
        "parameter": nn.Parameter(torch.rand(2)),
        "g\u00e9w\u00f6hnlich.\u6a21\u578b": torch.rand(1),
        'quote"\\\n': torch.rand(1),
    }
    for name in ("uint8", "int8", "int16", "uint16", "int32", "uint32", "int64", "uint64"):
        tensors[name] = torch.arange(5).to(getattr(torch, name))
    for name in RECENT:
        if hasattr(torch, name):
            tensors[name] = torch.arange(6, dtype=torch.uint8).view(getattr(torch, name))
    known = safetensors.torch._SIZE  # releases differ in the types that they write
    return {name: tensor for name, tensor in tensors.items() if tensor.dtype in known}


def expect(tensors):
    """Return what the trace must say of each torch tensor."""
    return {
        name: {
            "dtype": str(tensor.dtype)[6:],
            "shape": logical_shape(tensor),
            "device": str(tensor.device),
            "bytes": tensor.detach().flatten().view(torch.uint8).numpy().tobytes().hex(),
        }
        for name, tensor in tensors.items()
    }


def logical_shape(tensor):
    """Return the shape in the header: two numbers of four bits are one element of torch's."""
    shape = list(tensor.shape)
    if str(tensor.dtype) == "torch.float4_e2m1fn_x2":
        shape[-1] *= 2
    return shape


def expect_arrays(arrays):
    """Return what the trace must say of each array."""
    return {
        name: {
            "dtype": array.dtype.name,
            "shape": list(array.shape),
            "device": "cpu",
            "bytes": array.tobytes().hex(),
        }
        for name, array in arrays.items()
    }


def save_torch(folder, truth):
    """Save with torch, to each kind of target."""
    tensors = kinds()
    safetensors.torch.save_file(tensors, folder / "kinds.safetensors", metadata={"format": "pt"})
    truth[str(folder / "kinds.safetensors")] = expect(tensors)
    os.chdir(folder)
    for name in ("relative.safetensors", "relative.safetensors"):  # the second replaces the first
        tensors = {"a": torch.rand(100), "b": torch.rand(3)}
        safetensors.torch.save_file(tensors=tensors, filename=name)
        truth[str(folder / name)] = expect(tensors)
    model = Tied()
    safetensors.torch.save_model(model, str(folder / "tied.safetensors"))
    kept = {name: value for name, value in model.state_dict().items() if name != "head.weight"}
    truth[str(folder / "tied.safetensors")] = expect(kept)
    safetensors.torch.load_model(Tied(), folder / "tied.safetensors")
    if (
        getattr(torch, "float4_e2m1fn_x2", "none") in safetensors.torch._SIZE
    ):  # the library itself fails to load it by pread
        packed = torch.arange(6, dtype=torch.uint8).reshape(2, 3).view(torch.float4_e2m1fn_x2)
        safetensors.torch.save_file({"packed": packed}, folder / "packed.safetensors")
        truth[str(folder / "packed.safetensors")] = expect({"packed": packed})
    safetensors.torch.save_file({}, folder / "nothing.safetensors")
    truth[str(folder / "nothing.safetensors")] = {}


def save_numpy(folder, truth):
    """Save with numpy, which lets arrays share their memory."""
    base = np.arange(12, dtype=np.float32)
    arrays = {
        "base": base,
        "shared": base,
        "part": base[3:7],
        "scalar": np.array(3, np.int16),
        "bool": np.array([True, False]),
        "half": np.ones((2, 2), np.float16),
        "empty": np.empty((2, 0)),
    }
    path = folder / "arrays.safetensors"
    safetensors.numpy.save_file(arrays, str(path))
    truth[str(path)] = expect_arrays(arrays)
    safetensors.numpy.load_file(path)


def fail_to_save(folder):
    """Save what cannot be saved."""
    shared = torch.rand(4)
    for tensors, path in (
        ({"a": shared, "b": shared}, folder / "shared.safetensors"),
        ({"a": shared}, folder / "nowhere" / "x.safetensors"),
    ):
        try:
            safetensors.torch.save_file(tensors, path)
        except Exception as error:
            print(type(error).__name__, str(error).split(":")[0].strip()[:40])


def load_torch(folder):
    """Load with torch in every way."""
    path = folder / "kinds.safetensors"
    safetensors.torch.load_file(path)
    by_pread = "backend" in inspect.signature(safetensors.torch.load_file).parameters
    options = {"backend": "pread"} if by_pread else {}  # from 0.8 on
    safetensors.torch.load_file(filename=str(path), **options)
    with safe_open(path, framework="pt") as file:
        for name in file.keys():  # noqa: SIM118  # the class has no iterator
            file.get_tensor(name)
    with safe_open(path, "np") as file:
        file.get_tensor("double")
    unclosed = safe_open(filename=path, framework="pt")
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(unclosed.get_tensor, ("half", "bool", "int8", "uint8")))
    with safe_open(path, framework="pt") as file:
        file.metadata()
    try:
        safe_open(folder / "missing.safetensors", framework="pt")
    except FileNotFoundError as error:
        print(type(error).__name__)
    try:
        file.get_tensor("half")
    except Exception as error:
        print(type(error).__name__, error)
    print(type(unclosed), isinstance(unclosed, safe_open), safe_open.__name__)


def load_parts(folder):
    """Load parts of a tensor of four rows and eight columns of four bytes."""
    whole = torch.arange(32.0).reshape(4, 8)
    path = folder / "parts.safetensors"
    safetensors.torch.save_file({"before": torch.rand(5), "whole": whole}, path)
    with safe_open(path, framework="pt") as file:
        part = file.get_slice("whole")
        assert torch.equal(part[1:3], whole[1:3])
        assert torch.equal(part[:, 2:4], whole[:, 2:4])
        assert torch.equal(part[-1], whole[-1])
        assert torch.equal(part[..., 7:], whole[..., 7:])
        assert torch.equal(part[2:2], whole[2:2])
        assert torch.equal(part[:], whole)


def one_by_one(path):
    """Yield the tensors of a file, which is open meanwhile."""
    with safe_open(path, framework="pt") as file:
        for name in file.keys():  # noqa: SIM118  # the class has no iterator
            yield name, file.get_tensor(name)


def convert(folder):
    """Save each tensor while the file that it comes from is open."""
    safetensors.torch.save_file({"x": torch.rand(2), "y": torch.rand(3)}, folder / "source.st")
    for name, tensor in one_by_one(folder / "source.st"):
        safetensors.torch.save_file({name: tensor}, folder / f"converted_{name}.st")


def main():
    folder = Path(sys.argv[1])
    truth = {}
    save_torch(folder, truth)
    save_numpy(folder, truth)
    fail_to_save(folder)
    load_torch(folder)
    load_parts(folder)
    convert(folder)
    (folder / "truth.json").write_text(json.dumps(truth))


if __name__ == "__main__":
    main()
