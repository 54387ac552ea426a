"""32 tensors of 4 MiB: one snapshot with slabs and one without.

Usage: snapshot_batches.py FOLDER
"""

import logging
import sys
import warnings

import torch
from torchsnapshot import Snapshot, StateDict
from torchsnapshot.knobs import override_is_batching_disabled

warnings.simplefilter("ignore")
logging.disable()
folder = sys.argv[1]
app = {"m": StateDict(**{f"t{i}": torch.randn(1024, 1024) for i in range(32)})}
Snapshot.take(f"{folder}/slabs", app)
Snapshot(f"{folder}/slabs").restore(app)
with override_is_batching_disabled(True):
    Snapshot.take(f"{folder}/single", app)
