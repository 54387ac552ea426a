"""A save, a sync, a load and a save into a folder; usage: counted.py FOLDER."""

import os
import sys
from pathlib import Path

import torch
import torch.distributed.checkpoint as dcp

folder = Path(sys.argv[1])
state = {"w": torch.ones(2 << 20)}  # 8 MiB

torch.save(state, folder / "x.pt")
fd = os.open(folder / "x.pt", os.O_RDONLY)
os.fsync(fd)
os.close(fd)
torch.load(folder / "x.pt")
dcp.save(state, checkpoint_id=folder / "dcp", no_dist=True)
