"""Two ranks save together; rank 0 saves alone in between, without a barrier."""

import sys
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp

folder = Path(sys.argv[1])
dist.init_process_group("gloo")
rank = dist.get_rank()
state = {f"rank{rank}.w": torch.full((1 << 12,), float(rank))}
for step in range(2):
    dcp.save({"model": state}, checkpoint_id=str(folder / f"dcp{step}"))
    if rank == 0:
        torch.save(state, folder / f"alone{step}.pt")
    (folder / f"own{step}").mkdir(exist_ok=True)
    torch.save(state, folder / f"own{step}" / f"rank{rank}.pt")
dcp.async_save({"model": state}, checkpoint_id=str(folder / "later")).result()
dcp.load({"model": state}, checkpoint_id=str(folder / "dcp1"))
dist.barrier()
dist.destroy_process_group()
