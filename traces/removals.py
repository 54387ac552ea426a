"""Which files a job removed again."""

from __future__ import annotations

import numpy as np

from iotrace.traces.schema import REQUEST_LAYERS
from iotrace.traces.trace import Trace


def removed_paths(trace: Trace) -> set[str]:
    """Return the names that a job removed and did not use again; rows are in order of time."""
    done = trace.where(trace.row_mask(layer=REQUEST_LAYERS) & (trace.ints("result", null=0) >= 0))
    codes, paths = done.codes("path")
    rows = np.flatnonzero(done.row_mask(op="unlink"))
    if not len(rows):
        return set()
    removed = dict(zip(codes[rows].tolist(), rows.tolist(), strict=True))
    back = _last_rows(done, "path", "open") | _last_rows(done, "target", ("rename", "link"))
    return {
        paths[code]
        for code, row in removed.items()
        if code >= 0 and back.get(paths[code], -1) < row
    }


def _last_rows(trace: Trace, column: str, ops: str | tuple[str, ...]) -> dict[str, int]:
    """Return the last row of some ops that names each path."""
    codes, paths = trace.codes(column)
    rows = np.flatnonzero(trace.row_mask(op=ops))
    last = dict(zip(codes[rows].tolist(), rows.tolist(), strict=True))
    return {paths[code]: row for code, row in last.items() if code >= 0}
