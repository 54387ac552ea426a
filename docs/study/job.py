"""Save and load a state by one engine: large tensors of 8 MiB, four of 4 KiB for each.

Usage: job.py torch.save|dcp|torchsnapshot|safetensors|datastates-llm FOLDER [LARGE] [pairs]

LARGE is 64 if not given: 513 MiB. With `pairs` it saves for each line it reads, as its turn in an
alternation with something else. A line has seconds and a number of saves that warm up. After these
it removes the last checkpoint, waits for the seconds, saves, and prints when that save began, its
call returned, its last write was done and every file was synced (ns of CLOCK_MONOTONIC), and the
seconds that the kernel worked for it until then.
"""

from __future__ import annotations

import importlib
import logging
import os
import resource
import shutil
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import torch

State = dict[str, torch.Tensor]

POLL_SECONDS = 0.001


def state(large: int) -> State:
    """Return the state; the same each time."""
    torch.manual_seed(0)
    weights = {f"layer.{i}.weight": torch.randn(2 << 20) for i in range(large)}
    return weights | {f"layer.{i}.norm": torch.randn(1024) for i in range(4 * large)}


def save(engine: str, tensors: State, target: Path) -> None:
    """Save by `engine`."""
    if engine == "torch.save":
        torch.save(tensors, target)
    elif engine == "safetensors":
        from safetensors.torch import save_file

        save_file(tensors, target)
    elif engine == "dcp":
        import torch.distributed.checkpoint as dcp

        dcp.save(tensors, checkpoint_id=target, no_dist=True)
    else:
        from torchsnapshot import Snapshot, StateDict

        Snapshot.take(str(target), {"app": StateDict(**tensors)})


def load(engine: str, tensors: State, target: Path) -> None:
    """Load what was saved, into fresh memory."""
    fresh = {name: torch.empty_like(tensor) for name, tensor in tensors.items()}
    if engine == "torch.save":
        torch.load(target)
    elif engine == "safetensors":
        from safetensors.torch import load_file

        load_file(target, backend="pread")
    elif engine == "dcp":
        import torch.distributed.checkpoint as dcp

        dcp.load(fresh, checkpoint_id=target, no_dist=True)
    else:
        from torchsnapshot import Snapshot, StateDict

        Snapshot(str(target)).restore({"app": StateDict(**fresh)})


class DataStates:
    """DataStates-LLM, whose threads write after its call has returned, and tell nobody when.

    Without a GPU, which it asks which one it is, it takes tensors in host memory as they are.
    """

    def __init__(self) -> None:
        if not torch.cuda.is_available():
            torch.cuda.is_available = lambda: True
            torch.cuda.current_device = lambda: 0
        logging.disable(logging.INFO)  # it goes to the standard output
        engine = importlib.import_module("datastates.llm").Checkpointing
        self._engine = engine(runtime_config={"host_cache_size": 0.01}, rank=0)
        self._before = 0

    def save(self, tensors: State, target: Path) -> None:
        """Hand the state over."""
        self._before = written_bytes()
        self._engine.save(tensors, path=str(target))

    def wait(self, tensors: State, target: Path) -> None:
        """Wait until as many bytes were written as the file has, the tensors among them."""
        least = sum(tensor.nbytes for tensor in tensors.values())
        while True:
            size = target.stat().st_size if target.exists() else 0
            if size > least and written_bytes() - self._before >= size:
                break
            time.sleep(POLL_SECONDS)
        self._engine.commit(0)

    def load(self, tensors: State, target: Path) -> None:
        """Load what was saved."""
        self._engine.load(str(target))


def written_bytes() -> int:
    """Return how much this process has written so far."""
    fields = Path("/proc/self/io").read_text().split()
    return int(fields[fields.index("wchar:") + 1])


def sync(target: Path) -> None:
    """Wait until every file is on storage."""
    files = [target] if target.is_file() else [p for p in target.rglob("*") if p.is_file()]
    for path in files:
        fd = os.open(path, os.O_RDONLY)
        os.fsync(fd)
        os.close(fd)


def remove(target: Path) -> None:
    """Remove a checkpoint, if there is one."""
    if target.is_dir():
        shutil.rmtree(target)
    target.unlink(missing_ok=True)
    os.sync()


def system_seconds() -> float:
    """Return how long the kernel has worked for this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_stime


def take_turns(save_once: Callable[[], None], wait: Callable[[], None], target: Path) -> None:
    """Save once, after warm-ups, for each line of the standard input."""
    for line in sys.stdin:
        pause_seconds, warmups = line.split()
        for _ in range(int(warmups)):
            remove(target)
            save_once()
            wait()
            sync(target)
        remove(target)
        time.sleep(float(pause_seconds))
        before, begin_ns = system_seconds(), time.monotonic_ns()
        save_once()
        returned_ns = time.monotonic_ns()
        wait()
        written_ns = time.monotonic_ns()
        sync(target)
        durable_ns = time.monotonic_ns()
        worked = system_seconds() - before
        print(begin_ns, returned_ns, written_ns, durable_ns, worked, flush=True)


def main() -> None:
    """Do as the module says."""
    warnings.simplefilter("ignore")
    engine, target = sys.argv[1], Path(sys.argv[2]) / "checkpoint"
    pairs = sys.argv[-1] == "pairs"
    sizes = [int(word) for word in sys.argv[3:] if word != "pairs"]
    tensors = state(sizes[0] if sizes else 64)
    own = DataStates() if engine == "datastates-llm" else None

    def save_once() -> None:
        own.save(tensors, target) if own else save(engine, tensors, target)

    def wait() -> None:
        if own:
            own.wait(tensors, target)

    if pairs:
        take_turns(save_once, wait, target)
    else:
        save_once()
        wait()
        own.load(tensors, target) if own else load(engine, tensors, target)
    sys.stdout.flush()
    os._exit(0)  # DataStates-LLM's threads do not end


if __name__ == "__main__":
    main()
