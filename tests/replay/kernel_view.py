"""What the kernel saw of a run: its own trace points, in an instance of their own."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

TRACING = Path("/sys/kernel/tracing")
LINE = re.compile(r"(\d+\.\d+): (\w+): (.*)")


def unavailable() -> str:
    """Return why the kernel's trace points cannot be read here, or nothing."""
    if not os.access(TRACING / "instances", os.W_OK):
        return "tracefs is not mounted or not ours to write"
    if not (TRACING / "events/io_uring").exists():
        return "this kernel has no io_uring trace points"
    return ""


@dataclass
class Events:
    """Trace points hit, in order: name and text of each. Filled when the block ends."""

    seen: list[tuple[str, str]] = field(default_factory=list)


@contextmanager
def kernel_events(*names: str) -> Iterator[Events]:
    """Record the trace points `group/event` of the whole machine while the block runs."""
    instance = TRACING / "instances" / f"iotrace-{os.getpid()}"
    instance.mkdir()
    events = Events()
    try:
        (instance / "buffer_size_kb").write_text("8192")
        (instance / "trace_clock").write_text("global")
        for name in names:
            (instance / "events" / name / "enable").write_text("1")
        yield events
        (instance / "tracing_on").write_text("0")
        for line in (instance / "trace").read_text().splitlines():
            if match := LINE.search(line):
                events.seen.append((match[2], match[3]))
    finally:
        instance.rmdir()
