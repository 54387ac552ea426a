"""The process that libFuzzer drives: what it mutates, and what it runs.

Usage: python -m tests.fuzz.child COUNTS FOLDER [libFuzzer's options] CORPUS...
   or: python -m tests.fuzz.child --again INPUT
"""

from __future__ import annotations

import atexit
import ctypes
import mmap
import random
import signal
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path

import atheris
import pyarrow as pa

with nullcontext() if "--again" in sys.argv else atheris.instrument_imports(include=["iotrace"]):
    from iotrace.replay.transforms import prefetch, split
    from iotrace.traces.formats import actions
    from tests.fuzz import trial

from tests.fuzz.comparisons import freed
from tests.fuzz.mutations import damage, edit

GIVEN_BACK_BYTES = 16 << 20  # an input that took more gives it back, in a millisecond
OTHERS = 64  # inputs that a mutation borrows from


class Child:
    """Counts executions by kind where the parent sees them, also after a crash.

    After the counts stands the most memory that an input took: `heaviest` in the folder.
    """

    def __init__(self, counts: Path, folder: Path) -> None:
        with counts.open("r+b") as file:
            self._counts = memoryview(mmap.mmap(file.fileno(), 0)).cast("q")
        self._folder = folder
        self._recent: dict[str, list[bytes]] = {}
        self._first_bytes = _resident_bytes()  # the fuzzer's own growth is no input's
        self._is_freeing = False

    def run(self, content: bytes) -> None:
        """Try one input.

        Raises:
            MemoryError: it took more than may be, or all so far have left more than may be.
        """
        content = content or b"\0"  # libFuzzer begins with nothing
        if not self._is_freeing:  # Atheris puts its own in place when it begins
            atheris._trace_cmp = freed(atheris._trace_cmp)
            self._is_freeing = True
        self._counts[trial.NAMES.index(trial.kind_of(content))] += 1
        grown = _resident_bytes() - self._first_bytes
        if grown > trial.GROWN_BYTES:
            raise MemoryError(f"{grown >> 20} MiB are kept of inputs that are over: a leak")
        Path("/proc/self/clear_refs").write_bytes(b"5")  # the peak begins anew
        trial.attempt(content, self._folder)
        own = _resident_bytes("VmHWM") - grown
        if own > self._counts[-1]:
            self._counts[-1] = own
            (self._folder / "heaviest").write_bytes(content)
        if own > trial.MEMORY_BYTES:
            raise MemoryError("more than a gigabyte")
        if own > self._first_bytes + GIVEN_BACK_BYTES:
            give_back()

    def mutate(self, content: bytes, most_bytes: int, seed: int) -> bytes:
        """Return another input of the same kind."""
        if not content:
            return trial.selector(trial.NAMES[seed % len(trial.NAMES)])
        first, rest = content[:1], content[1:]
        kind = trial.kind_of(content)
        rng = random.Random(seed)
        others = self._recent.setdefault(kind, [b"\0"])
        if len(others) < OTHERS or rng.random() < 0.01:
            others[len(others) % OTHERS :] = [rest or b"\0"]
        if rng.random() < 0.4:
            rest = bytes(atheris.Mutate(rest, max(1, most_bytes - 1)))
        elif kind in ("trace", "rows", "checkpoint") or rng.random() < 0.2:
            rest = damage(rest, rng, others)
        else:
            rest = edit(rest, rng, others)
        return (first + rest)[:most_bytes]


def give_back() -> None:
    """Give the system what the allocators keep of memory that was freed."""
    pa.default_memory_pool().release_unused()
    ctypes.CDLL(None).malloc_trim(0)


def _resident_bytes(which: str = "VmRSS") -> int:
    """Return what this process holds of memory, or with "VmHWM" held at most."""
    for line in Path("/proc/self/status").read_bytes().splitlines():
        if line.startswith(which.encode()):
            return int(line.split()[1]) << 10
    raise ValueError(f"/proc/self/status does not say {which}")


def main() -> None:
    """Fuzz, or try one input again."""
    # The package's own limits let a plan take 2 GB and more.
    split.MOST_CUTS = prefetch.MOST_BLOCKS = actions.MOST_CUTS = trial.MOST_REQUESTS
    if sys.argv[1] == "--again":
        with tempfile.TemporaryDirectory() as name:
            print(trial.attempt(Path(sys.argv[2]).read_bytes(), Path(name)))
        if _resident_bytes("VmHWM") > trial.MEMORY_BYTES:
            raise MemoryError("more than a gigabyte")
        return
    child = Child(Path(sys.argv[1]), Path(sys.argv[2]))
    atheris.Setup([sys.argv[0], *sys.argv[3:]], child.run, custom_mutator=child.mutate)
    # Python's end gives SIGALRM back, libFuzzer's timer goes on, and findings are written last.
    atexit.register(signal.setitimer, signal.ITIMER_REAL, 0)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
