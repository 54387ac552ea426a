"""Ranks that the job starts itself, as torch.multiprocessing.spawn does.

Usage: spawned_ranks.py FOLDER
"""

import sys
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing

RANKS = 2


def work(rank, folder):
    """Save as one rank: it is told by an argument who it is."""
    dist.init_process_group("gloo", f"file://{folder}/meet", rank=rank, world_size=RANKS)
    torch.save({"w": torch.ones(3)}, Path(folder, f"first{rank}.pt"))
    dist.destroy_process_group()
    torch.save({"w": torch.ones(3)}, Path(folder, f"second{rank}.pt"))


if __name__ == "__main__":
    torch.multiprocessing.spawn(work, (sys.argv[1],), RANKS)
