"""Saves and loads many small tensors; prints the best CPU time of each, in microseconds per tensor.

Usage: torch_many.py FOLDER TENSORS
"""

import json
import sys
import time
from pathlib import Path

import torch

REPEATS = 5


def best_us(action, tensors):
    """Return the shortest time of some runs per tensor."""
    times = []
    for _ in range(REPEATS):
        start = time.process_time()
        action()
        times.append(time.process_time() - start)
    return min(times) / tensors * 1e6


def main():
    path, tensors = Path(sys.argv[1], "many.pt"), int(sys.argv[2])
    state = {
        f"model.layers.{index}.self_attn.q_proj.weight": torch.ones(16) for index in range(tensors)
    }
    print(
        json.dumps(
            {
                "save": best_us(lambda: torch.save(state, path), tensors),
                "load": best_us(lambda: torch.load(path), tensors),
                "map": best_us(lambda: torch.load(path, mmap=True), tensors),
            }
        )
    )


if __name__ == "__main__":
    main()
