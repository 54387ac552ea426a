"""2,000 tensors of 4 KiB, saved and loaded: the worst case of torch.distributed.checkpoint.

Usage: dcp_many.py FOLDER
"""

import sys
import warnings

import torch
import torch.distributed.checkpoint as dcp

warnings.simplefilter("ignore")
folder = sys.argv[1]
state = {f"layer{i}": torch.randn(32, 32) for i in range(2000)}
dcp.save(state, checkpoint_id=f"{folder}/many", no_dist=True)
target = {name: torch.zeros(32, 32) for name in state}
dcp.load(target, checkpoint_id=f"{folder}/many", no_dist=True)
assert all(torch.equal(target[name], tensor) for name, tensor in state.items())
