"""Save a nested state with every kind of tensor, load it again, compare.

Usage: save.py PATH [BIG_MIB]
"""

import sys

import torch


def state(big_mib: int) -> dict[str, object]:
    """Return a nested state; the largest tensor has `big_mib` MiB."""
    torch.manual_seed(7)
    weight = torch.randn(256, 128)
    return {
        "model": {
            "weight": weight,
            "transposed": weight.t(),
            "half": torch.randn(64, 64).to(torch.bfloat16),
            "mask": torch.rand(33) > 0.5,
            "steps": torch.arange(1001, dtype=torch.int64),
        },
        "optimizer": [{"scale": torch.tensor(2.5)}, {"empty": torch.empty(0, 4)}],
        "tied": weight,
        "big": torch.arange(big_mib << 18, dtype=torch.float32),
        "epoch": 3,
    }


if __name__ == "__main__":
    path, big_mib = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1024
    saved = state(big_mib)
    torch.save(saved, path)
    loaded = torch.load(path)
    assert torch.equal(loaded["big"], saved["big"])
    assert torch.equal(loaded["model"]["transposed"], saved["model"]["transposed"])
    print("loaded what was saved")
