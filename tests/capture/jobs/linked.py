"""Saves and loads through a folder that is a symbolic link, as home and scratch folders are.

Usage: linked.py FOLDER
"""

import os
import sys

import torch
from safetensors.torch import load_file, save_file

os.chdir(sys.argv[1])
os.mkdir("far")
os.symlink("far", "link")
here = os.getcwd()

torch.save({"by_path": torch.arange(3)}, "link/by_path.pt")
with open("link/relative.pt", "wb") as file:
    torch.save({"relative": torch.arange(4)}, file)
fd = os.open(f"{here}/link/descriptor.tmp", os.O_WRONLY | os.O_CREAT, 0o600)
with os.fdopen(fd, "wb") as file:
    torch.save({"descriptor": torch.arange(5)}, file)
os.rename("link/descriptor.tmp", "link/descriptor.pt")
save_file({"renamed": torch.arange(6)}, "link/renamed.safetensors")

os.symlink("relative.pt", "link/latest.pt")
with open("link/latest.pt", "rb") as file:
    torch.load(file)
load_file("link/renamed.safetensors")

with open("far/given.pt", "wb") as file:
    torch.save({"given": torch.arange(7)}, f"/dev/fd/{file.fileno()}")
    with open(f"/proc/self/fd/{file.fileno()}", "rb") as again:
        torch.load(again)
