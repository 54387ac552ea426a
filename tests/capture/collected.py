"""Collect raw logs that a test wrote, and read the rows."""

import os
from pathlib import Path
from typing import Any

from iotrace.capture.collector import collect
from iotrace.traces.check import check_trace
from iotrace.traces.trace import Trace

from .raw_log_writer import RawLogWriter

WRITE_NEW = os.O_WRONLY | os.O_CREAT | os.O_TRUNC


def rows(trace: Trace, *names: str, **only: str) -> list[tuple[Any, ...]]:
    """Return some columns of the rows of a layer or op, None for null."""
    trace = trace.where(trace.row_mask(**only))
    columns = []
    for name in names:
        if name in ("path", "target", "op", "engine", "name", "api", "offset_source"):
            columns.append(trace.strings(name))
        else:
            valid = trace.valid(name).tolist()
            values = trace.ints(name).tolist()
            columns.append([v if ok else None for v, ok in zip(values, valid, strict=True)])
    return list(zip(*columns, strict=True))


def collected(folder: Path, *writers: RawLogWriter) -> Trace:
    """Write the logs, collect them, and check the trace as any trace is checked."""
    for one in writers:
        one.write(folder)
    trace = collect(folder, ("python", "train.py"))
    assert check_trace(trace) == []
    return trace
