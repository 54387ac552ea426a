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

LINE = re.compile(r"\d+\.\d+: (\w+): (.*)")


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
def kernel_events(*names: str) -> Iterator[Events]:
    """Record the trace points `group/event` of the whole machine while the block runs."""
    events = Events()
    with tracefs() as root:
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
            events.seen += LINE.findall(text)
        finally:
            instance.rmdir()
