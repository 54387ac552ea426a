"""Saves into a file that it has locked, and says whether it still has the lock; usage: FILE."""

import fcntl
import subprocess
import sys

import torch

TRY = "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'r+b'), fcntl.LOCK_EX | fcntl.LOCK_NB)"

with open(sys.argv[1], "wb") as file:
    fcntl.lockf(file, fcntl.LOCK_EX)
    torch.save({"w": torch.ones(1024)}, file)
    file.flush()
    other = subprocess.run([sys.executable, "-c", TRY, sys.argv[1]], stderr=subprocess.DEVNULL)
    print("kept" if other.returncode else "lost")
