"""Sharded, replicated and private tensors of several ranks, taken and restored.

Usage: torchrun ... snapshot_ranks.py FOLDER
"""

import logging
import sys
import warnings

import torch
import torch.distributed as dist
from torch.distributed._shard import sharded_tensor


def state_tensors():
    """Return the whole tensors: one sharded by rows, the replicated ones."""
    generator = torch.Generator().manual_seed(5)
    shapes = {"rows": (8, 6), "same0": (5, 4), "same1": (9, 2), "chunked": (8, 10)}
    return {name: torch.randn(*shape, generator=generator) for name, shape in shapes.items()}


def sharded(whole):
    """Return this rank's part of a tensor that is sharded by rows."""
    rank, world = dist.get_rank(), dist.get_world_size()
    rows = whole.shape[0] // world
    shard = sharded_tensor.Shard.from_tensor_and_offsets(
        whole[rank * rows : (rank + 1) * rows].clone(), shard_offsets=[rank * rows, 0], rank=rank
    )
    return sharded_tensor.init_from_local_shards([shard], *whole.shape)


def main(folder):
    from torchsnapshot import Snapshot, StateDict
    from torchsnapshot.knobs import override_max_chunk_size_bytes

    warnings.simplefilter("ignore")
    logging.disable()
    dist.init_process_group("gloo")
    tensors = state_tensors()
    replicated = {name: tensor for name, tensor in tensors.items() if name != "rows"}
    state = StateDict(rows=sharded(tensors["rows"]), own=torch.full((3,), dist.get_rank()))
    app = {"part": state, "all": StateDict(**replicated)}
    with override_max_chunk_size_bytes(160):
        snapshot = Snapshot.take(folder, app, replicated=["all/**"])
    snapshot.restore(app)
    for name, tensor in replicated.items():
        assert torch.equal(app["all"][name], tensor)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
