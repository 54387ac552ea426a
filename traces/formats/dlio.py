"""A configuration of DLIO: as much of a trace's checkpoints as that benchmark can be told.

DLIO generates checkpoints of its own: each rank saves one tensor with torch.save. It can be told
how many ranks there are, how much each saves, how often, and whether it syncs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from iotrace.traces.columns import IntArray
from iotrace.traces.errors import TraceFormatError
from iotrace.traces.phases import Phase, phases
from iotrace.traces.schema import REQUEST_LAYERS
from iotrace.traces.summary import Summary, summarize
from iotrace.traces.sync_kind import syncs_folder
from iotrace.traces.trace import Trace
from iotrace.traces.writer import replacing

NAME = "dlio"


def write(trace: Trace, target: Path) -> list[str]:
    """Write the YAML; return what it leaves out.

    Raises:
        TraceFormatError: the trace saves nothing.
        OSError: the file cannot be written.
    """
    summary = summarize(trace)
    saved = _saved_bytes(trace, max(summary.saves, 1))
    if not saved:
        raise TraceFormatError("the trace saves nothing that DLIO could be told of")
    with replacing(target) as file:
        for line in _lines(trace, summary, saved):
            file.write(f"{line}\n".encode())
    said = [
        "the tensors, files and requests: DLIO writes one tensor of a rank's bytes with torch.save",
        "the times of requests, threads, direct and asynchronous I/O, renames",
    ]
    if max(saved.values()) > min(saved.values()):
        least, most = min(saved.values()), max(saved.values())
        said.append(f"that ranks differ: they saved {least:,} to {most:,} bytes")
    return said


def _saved_bytes(trace: Trace, saves: int) -> dict[int, int]:
    """Return the bytes of one checkpoint of each rank that saves, or process outside a launcher.

    The launcher's own process has no rank, and what it writes is no checkpoint.
    """
    writes = trace.where(trace.row_mask(layer=REQUEST_LAYERS, op="write"))
    moved = writes.ints("result", null=0).clip(min=0)
    if not len(writes):  # tensors alone
        writes = trace.where(trace.row_mask(layer="tensor", op="save"))
        moved = writes.ints("length", null=0)
    saver = writes.ints("rank")
    if not (saver >= 0).any():
        saver = writes.ints("process")
    totals = {one: _sum(moved[saver == one]) // saves for one in np.unique(saver).tolist()}
    return {one: total for one, total in totals.items() if one >= 0 and total}


def _sum(values: IntArray) -> int:
    """Return the sum, which may be more than 64 bits hold."""
    return (int((values >> 32).sum()) << 32) + int((values & 0xFFFFFFFF).sum())


def _lines(trace: Trace, summary: Summary, saved: dict[int, int]) -> Iterator[str]:
    ranks = len(saved)
    size = round(sum(saved.values()) / ranks)
    of_folder = syncs_folder(trace.ints("flags"))
    syncs = bool((trace.row_mask(layer=REQUEST_LAYERS, op="sync") & ~of_folder).any())
    pause = _pause_seconds(trace)
    engines = ", ".join(summary.engines) or "unknown"
    yield f"# Made by iotrace convert of a trace of {json.dumps(engines)}; run it with:"
    yield f"#   mpirun -n {ranks} dlio_benchmark workload={{this file's name}}"
    yield "# It needs a DLIO that checkpoints without training."
    yield "model:"
    yield "  name: iotrace"
    yield f"  model_size: {size}  # bytes, of each of {ranks} ranks"
    yield "framework: pytorch"
    yield "workflow:"
    yield "  generate_data: False"
    yield "  train: False"
    yield "  checkpoint: True"
    yield "checkpoint:"
    yield "  checkpoint_folder: checkpoints/iotrace"
    yield f"  model_size: {size}  # where release 2.0.0 looks for it"
    yield f"  fsync: {syncs}"
    yield f"  num_checkpoints_write: {max(summary.saves, 1)}"
    yield f"  num_checkpoints_read: {summary.loads}"
    if pause is not None:
        yield f"  time_between_checkpoints: {pause:.3f}"


def _pause_seconds(trace: Trace) -> float | None:
    """Return the median time from the start of one save to that of the next; None without two."""
    saves = trace.where((phases(trace) == Phase.SAVE) & trace.valid("step"))
    step, start_ns = saves.ints("step"), saves.ints("start_ns")
    begins = [int(start_ns[step == one].min()) for one in np.unique(step).tolist()]
    return float(np.median(np.diff(sorted(begins)))) * 1e-9 if len(begins) > 1 else None
