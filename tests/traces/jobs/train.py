"""Saves and loads the parameters and moments of a small GPT with one engine.

Usage: train.py ENGINE PATH [save|restore]; under torchrun for dcp and torchsnapshot-ranks
"""

import logging
import sys
import warnings

import torch

WIDTH, LAYERS, VOCABULARY, CONTEXT = 192, 3, 1000, 128


def parameters():
    """Yield the parameters of the model: name and shape."""
    yield "transformer.wte.weight", (VOCABULARY, WIDTH)
    yield "transformer.wpe.weight", (CONTEXT, WIDTH)
    for layer in range(LAYERS):
        for name, shape in (
            ("ln_1", (WIDTH,)),
            ("attn.c_attn", (WIDTH, 3 * WIDTH)),
            ("attn.c_proj", (WIDTH, WIDTH)),
            ("ln_2", (WIDTH,)),
            ("mlp.c_fc", (WIDTH, 4 * WIDTH)),
            ("mlp.c_proj", (4 * WIDTH, WIDTH)),
        ):
            yield f"transformer.h.{layer}.{name}.weight", shape
            yield f"transformer.h.{layer}.{name}.bias", shape[-1:]
    yield "transformer.ln_f.weight", (WIDTH,)
    yield "transformer.ln_f.bias", (WIDTH,)


def make_state(dtype):
    """Return 120 tensors: parameters of `dtype`, two moments in single precision for each."""
    state = {name: torch.randn(shape).to(dtype) for name, shape in parameters()}
    for index, (_, shape) in enumerate(parameters()):
        for moment in ("exp_avg", "exp_avg_sq"):
            state[f"optimizer.state.{index}.{moment}"] = torch.randn(shape)
    return state


def run_torch_save(path, does):
    if "save" in does:
        torch.save(make_state(torch.bfloat16), f"{path}/step100.pt")
    if "restore" in does:
        torch.load(f"{path}/step100.pt")


def run_torchsnapshot(path, does):
    from torchsnapshot import Snapshot, StateDict

    # In single precision: TorchSnapshot 0.1.0 fails on bfloat16 with torch 2.13.
    app = {"train": StateDict(**make_state(torch.float32))}
    if "save" in does:
        Snapshot.take(f"{path}/step100", app)
    if "restore" in does:
        Snapshot(f"{path}/step100").restore(app)


def run_torchsnapshot_ranks(path, does):
    """Each rank has a state of its own."""
    import torch.distributed as dist

    dist.init_process_group("gloo")
    run_torchsnapshot(path, does)
    dist.barrier()
    dist.destroy_process_group()


def run_dcp(path, does):
    """Save and load with each rank's rows of each tensor."""
    import torch.distributed as dist
    import torch.distributed.checkpoint as dcp
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor import DTensor, Shard

    dist.init_process_group("gloo")
    world, rank = dist.get_world_size(), dist.get_rank()
    mesh = DeviceMesh("cpu", list(range(world)))

    def sharded(tensor):
        local = tensor.chunk(world)[rank].contiguous()
        place = {"shape": tensor.shape, "stride": tensor.stride()}
        return DTensor.from_local(local, mesh, [Shard(0)], run_check=False, **place)

    state = {name: sharded(tensor) for name, tensor in make_state(torch.bfloat16).items()}
    if "save" in does:
        dcp.save(state, checkpoint_id=f"{path}/step100")
    if "restore" in does:
        dcp.load(state, checkpoint_id=f"{path}/step100")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    logging.disable()
    runs = {
        "torch-save": run_torch_save,
        "torchsnapshot": run_torchsnapshot,
        "torchsnapshot-ranks": run_torchsnapshot_ranks,
        "dcp": run_dcp,
    }
    runs[sys.argv[1]](sys.argv[2], sys.argv[3:] or ("save", "restore"))
