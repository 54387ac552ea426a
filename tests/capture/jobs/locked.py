"""Saves into a file, and says whether it still has the lock it took before; usage: FILE CASE."""

import fcntl
import os
import subprocess
import sys

import torch

path, case, *inherited = sys.argv[1:]
take = fcntl.flock if case == "flock" else fcntl.lockf
locked = f"{path}.lock" if case == "other" else path
TRY = f"import fcntl, sys; fcntl.{take.__name__}(open(sys.argv[1], 'r+b'), 6)"  # without waiting

if inherited:  # a lock outlives the program that took it
    fd = int(inherited[0])
else:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT)
    take(fd if locked == path else os.open(locked, os.O_WRONLY | os.O_CREAT), fcntl.LOCK_EX)
if case == "duplicate":
    os.dup(fd)
if case == "exec" and not inherited:
    os.set_inheritable(fd, True)
    os.execv(sys.executable, [sys.executable, *sys.argv, str(fd)])
with os.fdopen(fd, "wb") as file:
    torch.save({"w": torch.ones(1024)}, file)
    file.flush()
    tried = subprocess.run([sys.executable, "-c", TRY, locked], stderr=subprocess.DEVNULL)
print("kept" if tried.returncode else "lost")
