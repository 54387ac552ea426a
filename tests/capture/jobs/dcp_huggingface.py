"""Saves and loads with torch.distributed.checkpoint in the format of Hugging Face.

Usage: dcp_huggingface.py FOLDER
"""

import sys
import warnings
from pathlib import Path

import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.hf_storage import (
    HuggingFaceStorageReader,
    HuggingFaceStorageWriter,
)

warnings.simplefilter("ignore")
folder = str(Path(sys.argv[1], "model"))
state = {f"w{number}": torch.full((5,), float(number)) for number in range(4)}
places = {name: 1 + number % 2 for number, name in enumerate(state)}

dcp.save(state, storage_writer=HuggingFaceStorageWriter(folder, places), no_dist=True)
blank = {name: torch.zeros(5) for name in state}
reader = HuggingFaceStorageReader(folder, thread_count=2)
dcp.load(blank, storage_reader=reader, no_dist=True)
assert all(torch.equal(blank[name], state[name]) for name in state)
