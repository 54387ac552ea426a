"""Saves and loads with DataStates-LLM; says what it saved.

Usage: datastates_cases.py FOLDER

The engine needs a GPU only to ask which one it is: without one, the tensors are in host
memory. Its `wait` waits for the copies from a GPU and not for the files, so the job looks at
them. Tensors may be missing there: the engine empties a file when it writes the header, and
by then it may have written some.

Writes FOLDER/truth.json: for each file the bytes of each tensor by its key in the header.
"""

import json
import os
import sys
import time
from collections import OrderedDict
from pathlib import Path

import torch

if not torch.cuda.is_available():
    torch.cuda.is_available = lambda: True
    torch.cuda.current_device = lambda: 0

from datastates.llm import Checkpointing  # it looks for the GPU

TIMEOUT_S = 60
SETTLE_S = 0.2
LENGTH_BYTES = 8


def make_state(seed):
    """Return a small training state: nested, views, several types, things that are no tensors."""
    torch.manual_seed(seed)
    base = torch.rand(6, 4)
    return {
        "model": OrderedDict(
            (f"layers.{index}.weight", torch.rand(64, 64).bfloat16()) for index in range(4)
        ),
        "optimizer": {
            "state": [{"exp_avg": torch.rand(64, 64), "step": index} for index in range(4)],
            "groups": [[], {"lr": 0.1}],
        },
        "transposed": base.t(),
        "row": base[2],
        "scalar": torch.tensor(3, dtype=torch.int64),
        "hidden": (torch.rand(2),),  # the engine does not look into tuples: it is pickled
        "epoch": seed,
    }


def bytes_by_key(node, key=""):
    """Return the bytes of the tensors in a state by the engine's key, in its order."""
    if torch.is_tensor(node):
        flat = node.contiguous().flatten().view(torch.uint8)
        return {key: flat.numpy().tobytes().hex()}
    if not isinstance(node, (dict, list)):
        return {}
    found = {}
    for part, child in node.items() if isinstance(node, dict) else enumerate(node):
        found.update(bytes_by_key(child, f"{key}|{part}" if key else str(part)))
    return found


def is_laid_out(path):
    """Say whether a checkpoint has its header and its last byte."""
    try:
        content = path.read_bytes()
        length = int.from_bytes(content[:LENGTH_BYTES], "little")
        header = json.loads(content[LENGTH_BYTES : LENGTH_BYTES + length])
    except (FileNotFoundError, ValueError):
        return False
    ends = [entry["data_offsets"][1] for entry in header.values()]
    return len(content) == LENGTH_BYTES + length + max(ends)


def wait_for(path):
    """Wait until a file is laid out, and some more for the engine's threads to write tensors."""
    wait_until(lambda: is_laid_out(path))
    time.sleep(SETTLE_S)


def wait_until(condition):
    """Wait until something is so."""
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(0.02)


def main():
    folder = Path(sys.argv[1])
    engine = Checkpointing(runtime_config={"host_cache_size": 1, "parser_threads": 2}, rank=0)
    truth = {}
    for step in range(2):
        paths = [folder / f"step{step}" / f"rank{rank}.ckpt" for rank in range(2)]
        paths[0].parent.mkdir()
        for path in paths:
            state = make_state(step)
            truth[str(path)] = bytes_by_key(state)
            assert engine.save(state, path=str(path))
        for path in paths:
            wait_for(path)
        engine.commit(step)
    loaded = engine.load(str(paths[0]))
    assert list(loaded) == list(make_state(1))
    assert torch.equal(loaded["hidden"][0], make_state(1)["hidden"][0])
    direct = folder / "direct"
    tensors = [(7, torch.rand(100), 0, str(direct)), (7, torch.rand(3), 400, str(direct))]
    engine.ckpt_engine.async_save(tensors)
    wait_until(lambda: direct.exists() and direct.stat().st_size == 412)
    engine.wait()
    back = [(8, torch.zeros(100), 0, str(direct)), (8, torch.zeros(3), 400, str(direct))]
    engine.ckpt_engine.load(back)
    wait_until(lambda: back[1][1].all())
    assert torch.equal(back[0][1], tensors[0][1])
    (folder / "truth.json").write_text(json.dumps(truth))
    print("saved and loaded")
    sys.stdout.flush()
    os._exit(0)  # the engine's threads do not end


if __name__ == "__main__":
    main()
