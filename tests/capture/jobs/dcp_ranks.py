"""Sharded and replicated tensors of several ranks, saved and loaded.

Usage: torchrun ... dcp_ranks.py FOLDER, or mpirun ... dcp_ranks.py FOLDER

Every rank has the same tensors (`state_tensors`), so a test can make them again.
"""

import os
import sys
import warnings

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp


def state_tensors():
    """Return the whole tensors: those sharded by rows, by columns, and the replicated."""
    generator = torch.Generator().manual_seed(5)

    def make(*shape):
        return torch.randn(*shape, generator=generator)

    return {
        **{f"rows{i}": make(8, 6) for i in range(3)},
        "columns": make(4, 8),
        "uneven": make(7, 3),
        **{f"same{i}": make(5, 4) for i in range(4)},
    }


def placed(tensors):
    """Return the tensors as this rank holds them; made without a message between the ranks."""
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor import DTensor, Replicate, Shard

    mesh = DeviceMesh("cpu", list(range(dist.get_world_size())))
    rank, axes = dist.get_rank(), {"rows": 0, "unev": 0, "colu": 1}
    placed = {}
    for name, tensor in tensors.items():
        axis = axes.get(name[:4])
        local = tensor if axis is None else tensor.chunk(mesh.size(), axis)[rank]
        placed[name] = DTensor.from_local(
            local.contiguous(),
            mesh,
            [Replicate() if axis is None else Shard(axis)],
            run_check=False,
            shape=tensor.shape,
            stride=tensor.stride(),
        )
    return placed


def join(folder):
    """Join the group of ranks, as torchrun or mpirun tells them."""
    if "OMPI_COMM_WORLD_RANK" not in os.environ:
        dist.init_process_group("gloo")
        return
    dist.init_process_group(
        "gloo",
        init_method=f"file://{folder}.store",
        rank=int(os.environ["OMPI_COMM_WORLD_RANK"]),
        world_size=int(os.environ["OMPI_COMM_WORLD_SIZE"]),
    )


def main(folder):
    warnings.simplefilter("ignore")
    join(folder)
    tensors = state_tensors()
    state = placed(tensors)
    dcp.save({**state, "plain": torch.arange(6), "object": {1, 2}}, checkpoint_id=folder)
    zeros = placed({name: torch.zeros_like(tensor) for name, tensor in tensors.items()})
    dcp.load({**zeros, "plain": torch.zeros(6, dtype=torch.int64)}, checkpoint_id=folder)
    for name, tensor in zeros.items():
        assert torch.equal(tensor.to_local(), state[name].to_local())
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
