"""One execution: a file becomes a trace and a plan, or one clear error."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from iotrace.replay.build import LAYERS, plan_from_trace
from iotrace.replay.job import check_job
from iotrace.replay.schedule import schedule
from iotrace.traces.check import check_trace
from iotrace.traces.errors import IotraceError
from iotrace.traces.reader import read_trace
from iotrace.traces.summary import summarize

LIMIT_BYTES = 256 << 20  # what a reader may be asked to hold, well below the bound of 1 GB


def attempt(path: Path) -> str:
    """Read, check, sum up and plan the file at `path`; return how far it came."""
    try:
        trace = read_trace(path, limit_bytes=LIMIT_BYTES)
    except IotraceError as error:
        _assert_one_line(error)
        return "refused"
    with np.errstate(all="ignore"):
        check_trace(trace)
        summarize(trace)
    planned = 0
    for layer in LAYERS:
        try:
            plan = plan_from_trace(trace, layer)
        except IotraceError as error:
            _assert_one_line(error)
            continue
        plan.validate()
        check_job(schedule(plan, 4).job)
        planned += 1
    return "planned" if planned else "read"


def _assert_one_line(error: IotraceError) -> None:
    message = str(error)
    assert "\n" not in message, message
    assert len(message) < 1000, message
