"""An asynchronous save in a process of its own, which torch ends with SIGTERM.

Usage: dcp_process.py FOLDER
"""

import os
import sys
import warnings

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict_saver import AsyncCheckpointerType


def main(folder):
    warnings.simplefilter("ignore")
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0", RANK="0", WORLD_SIZE="1")
    store = dist.FileStore(f"{folder}/store", 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    for step in range(2):
        state = {f"t{i}": torch.full((100 + i,), float(step)) for i in range(20)}
        saved = dcp.async_save(
            state,
            checkpoint_id=f"{folder}/step{step}",
            async_checkpointer_type=AsyncCheckpointerType.PROCESS,
        )
        saved.result()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
