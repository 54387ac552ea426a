"""One state as each engine keeps it, and what is known of such a checkpoint."""

from __future__ import annotations

from pathlib import Path

import torch
import torch.distributed.checkpoint as dcp
from safetensors.torch import save_file
from torchsnapshot import Snapshot, StateDict

from iotrace.traces.formats.damage import Damage, examine

STATE = {f"layer.{i}": torch.arange(20_000 + i, dtype=torch.float32) for i in range(6)}


def save_state(folder: Path) -> None:
    """Save the state into a folder, with each engine."""
    torch.save(STATE, folder / "model.pt")
    save_file(STATE, folder / "model.safetensors")
    dcp.save(dict(STATE), checkpoint_id=folder / "dcp", no_dist=True)
    Snapshot.take(str(folder / "snapshot"), {"app": StateDict(**STATE)})


def state_of(path: Path) -> Damage:
    """Return the state of a checkpoint that is known."""
    found = examine(path)
    assert found is not None
    return found


def readable(damage: Damage) -> list[str]:
    """Return the names of what can be read."""
    return sorted(part.name for part in damage.parts if not part.lost)
