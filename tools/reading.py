"""Traces that the commands read, with a line on the terminal where that takes long."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from iotrace.tools.progress import waiting
from iotrace.traces.reader import read_trace
from iotrace.traces.stores import shown
from iotrace.traces.trace import Trace


def read(location: str | Path, columns: Sequence[str] | None = None) -> Trace:
    """Return the trace at `location`, as `read_trace` does, and show that it is being read.

    Raises:
        TraceFormatError: as `read_trace`.
    """
    with waiting(f"reading {shown(location)}"):
        return read_trace(location, columns)
