"""A loop that marks its own saves, whether it is captured or not; usage: marked.py FOLDER."""

import os
import sys

try:
    from iotrace_marks import span
except ImportError:  # not under `iotrace capture`
    from contextlib import nullcontext

    def span(*args, **kwargs):
        """Return a block without a meaning."""
        return nullcontext()


class Integer:
    """One of a kind of its own, as numpy's are."""

    def __index__(self):
        return 300


class Broken:
    """Raises whatever it is asked."""

    def __index__(self):
        raise RuntimeError("no index")

    def __str__(self):
        raise RuntimeError("no text")

    def __fspath__(self):
        raise RuntimeError("no path")


folder = sys.argv[1]


def write(name, content):
    """Write a file without an engine."""
    with open(os.path.join(folder, name), "wb", buffering=0) as file:
        file.write(content)


write("before", b"1")
for step in (100, 200):
    with span("save", step=step, name="mine", path=folder):
        write(f"mine{step}", b"22")
        if "torch" in sys.argv:
            import torch

            torch.save({"w": torch.ones(3)}, os.path.join(folder, f"{step}.pt"))
with span("barrier"), span("no such thing"):
    write("barrier", b"333")
os.chdir(folder)
with span("wait", step=Integer(), name="here", path="before"), span("wait", True, path="s3://b/c"):
    pass
try:
    with span("wait", step="soon", name=7):
        raise KeyError(step)
except KeyError:
    print("raised")
with span("load", step=Broken(), name=Broken(), path=Broken()), span(Broken()):
    pass
os.mkdir("gone")
os.chdir("gone")
os.rmdir("../gone")
with span("load", path="here"), span("load", path="/abs/x"):
    pass
