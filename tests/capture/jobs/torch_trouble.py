"""Saves and loads that fail, and looks at torch from all sides; prints what it sees.

Usage: torch_trouble.py FOLDER
"""

import gc
import inspect
import io
import os
import pickle
import sys
import threading
import warnings
import weakref
from pathlib import Path

import torch
from torch import serialization

UNPICKLABLE = {"w": torch.ones(3), "lock": threading.Lock()}


class FullDisk(io.RawIOBase):
    """A file that takes some bytes and then no more."""

    def __init__(self):
        self.room = 500

    def writable(self):
        return True

    def write(self, data):
        self.room -= len(data)
        if self.room < 0:
            raise OSError(28, "No space left on device")
        return len(data)


def attempt(label, action):
    """Print how an action ends."""
    try:
        print(label, "->", type(action()).__name__)
    except BaseException as error:
        print(label, "->", type(error).__name__, str(error)[:200].replace(os.getcwd(), "."))


def fail():
    """Make torch fail in every way a job may see."""
    torch.save({"w": torch.ones(1000)}, "good.pt")
    Path("cut.pt").write_bytes(Path("good.pt").read_bytes()[:-100])
    Path("empty.pt").touch()
    Path("text.pt").write_text("not a checkpoint")
    legacy = io.BytesIO()
    torch.save({"w": torch.ones(1000)}, legacy, _use_new_zipfile_serialization=False)
    Path("cut_legacy.pt").write_bytes(legacy.getvalue()[:-100])
    attempt("unpicklable", lambda: torch.save(UNPICKLABLE, "unpicklable.pt"))
    attempt(
        "unpicklable legacy",
        lambda: torch.save(UNPICKLABLE, "old.pt", _use_new_zipfile_serialization=False),
    )
    attempt("no folder", lambda: torch.save({}, "nowhere/x.pt"))
    attempt("no file object", lambda: torch.save({}, 3))
    attempt("closed file", lambda: torch.save({"w": torch.ones(3)}, closed_file()))
    for name in ("absent", "cut", "cut_legacy", "empty", "text"):
        attempt(name, lambda name=name: torch.load(f"{name}.pt"))
        attempt(f"{name} mapped", lambda name=name: torch.load(f"{name}.pt", mmap=True))
    attempt("bad device", lambda: torch.load("good.pt", map_location="cuda:7"))
    attempt("bad callback", lambda: torch.load("good.pt", map_location=lambda *_: 1 / 0))
    attempt("not weights", lambda: torch.load(saved_object()))
    attempt("full disk", lambda: torch.save({"w": torch.ones(1000)}, FullDisk()))
    attempt("after all", lambda: torch.save({"w": torch.ones(3)}, "after.pt"))


def closed_file():
    with open("closed.pt", "wb") as file:
        return file


def saved_object():
    buffer = io.BytesIO()
    torch.save(FullDisk, buffer)
    buffer.seek(0)
    return buffer


def look():
    """Print what inspection says of the functions that hooks stand before."""
    for name in ("save", "load", "_save", "_load", "_legacy_save", "_legacy_load", "location_tag"):
        function = getattr(serialization, name)
        print(name, inspect.signature(function), function.__module__, function.__qualname__)
        print(len(inspect.getsource(function)), inspect.getdoc(function) is None)
        print(pickle.loads(pickle.dumps(function)) is function)
    spec = serialization.__spec__
    print(spec.name, type(spec.loader).__name__, spec.loader is serialization.__loader__)
    print(torch.save is serialization.save, len(inspect.getsource(serialization)))


def warn():
    """Print which line of whose file a warning of torch's names."""
    tensor = torch.ones(2, requires_grad=True)
    tensor.register_hook(lambda grad: grad)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.save({"hooked": tensor}, "hooked.pt")
        torch.load("good.pt", weights_only=True, encoding="ascii")
    for warning in caught:
        print(os.path.basename(warning.filename), warning.lineno, warning.category.__name__)


def release():
    """Print whether tensors die with their last reference, without the collector."""
    gc.disable()
    saved = torch.ones(5)
    watch_saved = weakref.ref(saved)
    torch.save({"w": saved}, "released.pt")
    loaded = torch.load("released.pt")
    watch_loaded = weakref.ref(loaded["w"])
    legacy = torch.ones(5)
    watch_legacy = weakref.ref(legacy)
    torch.save([legacy], "released_legacy.pt", _use_new_zipfile_serialization=False)
    del saved, loaded, legacy
    print(watch_saved(), watch_loaded(), watch_legacy())
    gc.enable()


def use_threads():
    """Save from several threads at once."""

    def work(index):
        for turn in range(5):
            state = {f"thread{index}": torch.full((100 + index,), float(turn))}
            torch.save(state, f"thread{index}_{turn}.pt")
            torch.load(f"thread{index}_{turn}.pt")

    threads = [threading.Thread(target=work, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def fork():
    """Save in a forked child."""
    pid = os.fork()
    if pid == 0:
        torch.save({"child": torch.ones(3)}, "child.pt")
        os._exit(0)
    print("child", os.waitpid(pid, 0)[1])


def main():
    os.chdir(sys.argv[1])
    warnings.simplefilter("ignore")
    fail()
    look()
    warn()
    release()
    use_threads()
    fork()


if __name__ == "__main__":
    main()
