"""What the kernel saw of a run: its own trace points, in an instance of their own."""

import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

LINE = re.compile(r"^ *(.*)-\d+ +\[\d+\].*? \d+\.\d+: (\w+): (.*)$", re.MULTILINE)
RING = re.compile(r"\bring (\w+)")


@dataclass
class Events:
    """Trace points hit, in order: name and text of each. Filled when the block ends."""

    seen: list[tuple[str, str]] = field(default_factory=list)


@contextmanager
def tracefs() -> Iterator[Path]:
    """Mount the kernel's trace points for a while; skip the test where that is not allowed."""
    with tempfile.TemporaryDirectory() as folder:
        mount = ["mount", "-t", "tracefs", "none", folder]
        if subprocess.run(mount, capture_output=True).returncode:
            pytest.skip("tracefs cannot be mounted here")
        try:
            yield Path(folder)
        finally:
            subprocess.run(["umount", folder], check=True)


@contextmanager
def thread_name() -> Iterator[str]:
    """Give this thread, and those it starts, a name that no other program's have."""
    comm = Path("/proc/thread-self/comm")
    before, own = comm.read_text(), f"view-{os.getpid()}"
    comm.write_text(own)
    try:
        yield own
    finally:
        comm.write_text(before)


@contextmanager
def kernel_events(*names: str) -> Iterator[Events]:
    """Record the trace points `group/event` of the whole machine while the block runs.

    Those of rings that others submit to are left out; workers of the kernel complete requests
    under their own names, so it is the ring that tells whose they are.
    """
    events = Events()
    with tracefs() as root, thread_name() as own:
        missing = [name for name in names if not (root / "events" / name).exists()]
        if missing:
            pytest.skip(f"this kernel has no trace point {missing[0]}")
        instance = root / "instances" / f"iotrace-{os.getpid()}"
        instance.mkdir()
        try:
            (instance / "buffer_size_kb").write_text("8192")
            (instance / "trace_clock").write_text("global")
            for name in names:
                (instance / "events" / name / "enable").write_text("1")
            yield events
            (instance / "tracing_on").write_text("0")
            text = (instance / "trace").read_text()
            lines = [
                (comm, RING.search(said), name, said) for comm, name, said in LINE.findall(text)
            ]
            rings = {ring[1] for comm, ring, _, _ in lines if ring and comm == own}
            events.seen += [
                (name, said) for _, ring, name, said in lines if not ring or ring[1] in rings
            ]
        finally:
            instance.rmdir()
