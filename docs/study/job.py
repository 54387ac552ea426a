"""Save and load a state of 513 MiB by one engine: 64 tensors of 8 MiB, 256 of 4 KiB.

Usage: job.py torch.save|dcp|torchsnapshot|safetensors FOLDER [pairs]

With `pairs` it saves once for each line it reads, and prints the seconds until the call returned
and until every file was synced: its turn in an alternation with something else.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
import warnings
from pathlib import Path

import torch


def state() -> dict[str, torch.Tensor]:
    """Return the state; the same each time."""
    torch.manual_seed(0)
    large = {f"layer.{i}.weight": torch.randn(2 << 20) for i in range(64)}
    return large | {f"layer.{i}.norm": torch.randn(1024) for i in range(256)}


def save(engine: str, tensors: dict[str, torch.Tensor], target: Path) -> None:
    """Save by `engine`."""
    if engine == "torch.save":
        torch.save(tensors, target)
    elif engine == "safetensors":
        from safetensors.torch import save_file

        save_file(tensors, target)
    elif engine == "dcp":
        import torch.distributed.checkpoint as dcp

        dcp.save(tensors, checkpoint_id=target, no_dist=True)
    else:
        from torchsnapshot import Snapshot, StateDict

        Snapshot.take(str(target), {"app": StateDict(**tensors)})


def load(engine: str, tensors: dict[str, torch.Tensor], target: Path) -> None:
    """Load what was saved, into fresh memory."""
    fresh = {name: torch.empty_like(tensor) for name, tensor in tensors.items()}
    if engine == "torch.save":
        torch.load(target)
    elif engine == "safetensors":
        from safetensors.torch import load_file

        load_file(target, backend="pread")
    elif engine == "dcp":
        import torch.distributed.checkpoint as dcp

        dcp.load(fresh, checkpoint_id=target, no_dist=True)
    else:
        from torchsnapshot import Snapshot, StateDict

        Snapshot(str(target)).restore({"app": StateDict(**fresh)})


def sync(target: Path) -> None:
    """Wait until every file is on storage."""
    files = [target] if target.is_file() else [p for p in target.rglob("*") if p.is_file()]
    for path in files:
        fd = os.open(path, os.O_RDONLY)
        os.fsync(fd)
        os.close(fd)


def remove(target: Path) -> None:
    """Remove a checkpoint, if there is one."""
    if target.is_dir():
        shutil.rmtree(target)
    target.unlink(missing_ok=True)
    os.sync()


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    engine, target = sys.argv[1], Path(sys.argv[2]) / "checkpoint"
    tensors = state()
    if len(sys.argv) < 4:
        save(engine, tensors, target)
        load(engine, tensors, target)
    else:
        for _ in sys.stdin:
            remove(target)
            begin = time.perf_counter()
            save(engine, tensors, target)
            returned = time.perf_counter()
            sync(target)
            print(returned - begin, time.perf_counter() - begin, flush=True)
