"""Saves that end with a sync of their folder, as careful jobs make them, in several spellings.

usage: atomic_saves.py FOLDER
"""

import os
import sys
from pathlib import Path


def save(path: str) -> None:
    with open(f"{path}.tmp", "wb") as file:
        file.write(os.urandom(50_000))
        file.flush()
        os.fsync(file.fileno())
    os.rename(f"{path}.tmp", path)


def main() -> None:
    top = sys.argv[1]
    os.mkdir(f"{top}/real")
    os.symlink("real", f"{top}/link")
    for step in range(2):
        folder = f"{top}/step-{step}"
        os.mkdir(folder)
        for part in range(3):
            save(f"{folder}/part-{part}")
        opened = os.open(folder, os.O_RDONLY)
        os.fsync(opened)
        os.close(opened)
        opened = os.open(top, os.O_RDONLY | os.O_DIRECTORY)
        os.fdatasync(opened)
        save(f"{top}/latest")
        os.fsync(opened)
        os.close(opened)
    save(f"{top}/link/model")
    opened = os.open(f"{top}/link", os.O_RDONLY)
    os.fsync(opened)
    os.close(opened)
    os.listdir(top)
    os.close(os.open(Path(top), os.O_RDONLY))  # looked at, and not synced


main()
