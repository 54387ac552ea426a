"""Save one state with every engine that is installed.

Usage: checkpoints.py FOLDER
"""

import logging
import sys
import warnings

import torch
import torch.distributed.checkpoint as dcp
from safetensors.torch import save_file
from torchsnapshot import Snapshot, StateDict

warnings.simplefilter("ignore")
logging.disable()
folder = sys.argv[1]
torch.manual_seed(1)
weight = torch.randn(96, 64)
tensors = {
    "weight": weight,
    "bias": torch.randn(64),
    "layers.0.half": torch.randn(33, 7).to(torch.float16),
    "steps": torch.arange(9),
    "empty": torch.empty(0, 4),
}
state = {
    "model": {**tensors, "transposed": weight.t(), "view": weight[3:5], "odd": weight.bfloat16()},
    "optimizer": [{"scale": torch.tensor(2.5)}, (torch.ones(3), {"deep": torch.zeros(2, 2)})],
    "parameter": torch.nn.Parameter(torch.ones(5)),
    "sparse": torch.eye(3).to_sparse(),
    "epoch": 3,
}
torch.save(state, f"{folder}/state.pt")
torch.save(state, f"{folder}/legacy.pt", _use_new_zipfile_serialization=False)
torch.save(torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4)), f"{folder}/net.pt")
save_file(tensors, f"{folder}/state.safetensors")
dcp.save({"model": tensors, "epoch": 3}, checkpoint_id=f"{folder}/dcp", no_dist=True)
del tensors["empty"]  # TorchSnapshot 0.1.0 fails on tensors without elements
app = {"model": StateDict(**tensors, complex=torch.ones(4, dtype=torch.complex64), kind=[object])}
Snapshot.take(f"{folder}/snapshot", app)
