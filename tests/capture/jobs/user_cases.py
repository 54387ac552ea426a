"""What users run, in miniature: each case works in a folder of its own.

Usage: user_cases.py FOLDER CASE...
"""

import io
import os
import sys
from pathlib import Path

import torch

LAYERS = 16


def small_and_large():
    """Return 16 tensors of 2 MiB and 16 of 2 KiB."""
    large = {f"l{i}.w": torch.randn(512, 1024) for i in range(LAYERS)}
    return large | {f"l{i}.b": torch.randn(512) for i in range(LAYERS)}


def by_path(folder):
    """Hand torch.save a path."""
    torch.save(small_and_large(), folder / "ckpt.pt")


def by_file(folder):
    """Hand torch.save an open file."""
    with open(folder / "ckpt.pt", "wb") as file:
        torch.save(small_and_large(), file)


def by_link(folder):
    """Hand torch.save a file without a name, make it last, and name it."""
    fd = os.open(folder, os.O_RDWR | os.O_TMPFILE)
    with open(fd, "w+b") as file:
        torch.save(small_and_large(), file)
        file.flush()
        os.fsync(fd)
        at = {"src_dir_fd": fd, "follow_symlinks": True}  # without the first no link is followed
        os.link(f"/proc/self/fd/{fd}", folder / "ckpt.pt", **at)


def by_memory(folder):
    """Hand torch.save a buffer in memory and write it whole."""
    buffer = io.BytesIO()
    torch.save(small_and_large(), buffer)
    with open(folder / "ckpt.pt", "wb") as file:
        file.write(buffer.getbuffer())


def load(folder):
    """Save and load."""
    by_path(folder)
    torch.load(folder / "ckpt.pt")


def load_mapped(folder):
    """Save and load through a mapping."""
    by_path(folder)
    torch.load(folder / "ckpt.pt", mmap=True)


def safe(folder):
    """Save 2,000 tensors of 4 KiB with safetensors."""
    from safetensors.torch import save_file

    save_file({f"t{i}": torch.randn(32, 32) for i in range(2000)}, folder / "x.safetensors")


def direct(folder):
    """Write a tensor past the page cache from where torch has put it, which no device takes."""
    fd = os.open(folder / "x", os.O_WRONLY | os.O_CREAT | os.O_DIRECT)
    aligned = torch.randn((1 << 20) + 1024)
    pointer = aligned.data_ptr()
    start = (-pointer % 4096 + 64) // 4
    try:
        os.pwrite(fd, aligned[start : start + 1024].numpy().view("u1"), 0)
    except OSError as error:
        print(error.errno)


def full(folder):
    """Fill a small file system."""
    try:
        torch.save({f"l{i}": torch.randn(1 << 20) for i in range(LAYERS)}, folder / "ckpt.pt")
    except RuntimeError as error:
        print(str(error).splitlines()[0])


for name in sys.argv[2:]:
    (Path(sys.argv[1]) / name).mkdir(exist_ok=True)
    globals()[name](Path(sys.argv[1]) / name)
