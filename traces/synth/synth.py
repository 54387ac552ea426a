"""A trace without a run: what an engine would ask for to save and load a model of known shapes.

It has no times: requests have the order in which each rank would issue them. It says that it is
synthetic in its history and wherever its completeness is shown.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any

from iotrace.traces.errors import TraceFormatError
from iotrace.traces.formats.rows import Rows, noted
from iotrace.traces.metadata import HistoryEntry, Metadata, Process
from iotrace.traces.synth.layouts import LAYOUTS, Step
from iotrace.traces.synth.models import MODELS, shard
from iotrace.traces.trace import Trace
from iotrace.traces.version import tool_version

FOLDER = "/synthetic/step0"
_RANKS_MAX = 1 << 16
_SCALE_MAX = 1024
_CREATE = os.O_WRONLY | os.O_CREAT
# Without times all saves begin at once and all loads behind them: `seq` has the order.
_SAVE_NS, _LOAD_NS = 0, 1


def synthesize(
    model: str, engine: str, ranks: int = 1, scale: float = 1.0, optimizer: bool = True
) -> Trace:
    """Return the trace of one save and one load.

    Args:
        model: of `MODELS`.
        engine: of `LAYOUTS`.
        ranks: each holds its rows of every tensor.
        scale: of the tensors' sizes; their number stays.
        optimizer: whether the optimizer's state is saved too.

    Raises:
        TraceFormatError: there is no such model or engine, or a number is out of range, or the
            trace would not fit into memory.
    """
    if model not in MODELS:
        raise TraceFormatError(f"no model {model!r}; choose one of {', '.join(MODELS)}")
    if engine not in LAYOUTS:
        raise TraceFormatError(f"no engine {engine!r}; choose one of {', '.join(LAYOUTS)}")
    if not 1 <= ranks <= _RANKS_MAX:
        raise TraceFormatError(f"{ranks} ranks: give 1 to {_RANKS_MAX} ranks")
    if not 0 < scale <= _SCALE_MAX:
        raise TraceFormatError(f"scale {scale:g}: give a scale above 0, up to {_SCALE_MAX}")
    rows = Rows()
    files: dict[str, int] = {}
    for rank in range(ranks):
        tensors = shard(MODELS[model], rank, ranks, scale, optimizer)
        steps = list(LAYOUTS[engine](tensors, rank, ranks))
        who: dict[str, Any] = {"engine": engine, "rank": rank, "process": rank, "step": 0}
        for step in steps:
            for op, layer, values in _saved(step, files):
                rows.add(op, _SAVE_NS, layer=layer, **values, **who)
        for op, layer, values in _loaded(steps, files):
            rows.add(op, _LOAD_NS, layer=layer, **values, **who)
    what = f"{model}, {engine}, {ranks} ranks, scale {scale:g}"
    what += "" if optimizer else ", without the optimizer's state"
    metadata = Metadata(
        processes=tuple(Process(0, rank=rank, world_size=ranks) for rank in range(ranks)),
        completeness=noted(f"SYNTHETIC: made of shapes, not of a run ({what}); it has no times"),
        history=(
            HistoryEntry("synth", what, realtime_ns=time.time_ns(), tool_version=tool_version()),
        ),
    )
    return rows.finish(metadata)


Row = tuple[str, str, dict[str, Any]]


def _saved(step: Step, files: dict[str, int]) -> Iterator[Row]:
    """Yield the request of a step, and the tensors that are in place with it."""
    file = files.setdefault(step.path, len(files))
    values: dict[str, Any] = {
        "path": f"{FOLDER}/{step.path}",
        "file": file,
        "api": "posix",
        "result": 0,
    }
    if step.op == "open":
        values["flags"] = _CREATE | (0 if step.length else os.O_TRUNC)
    elif step.op == "write":
        values |= {"offset": step.offset, "length": step.length, "result": step.length}
        values["offset_source"] = "tracked"
    elif step.op == "truncate":
        values["length"] = step.length
    elif step.op == "sync":
        values["flags"] = 0
    elif step.op == "rename":
        values["target"] = f"{FOLDER}/{step.target}"
        files[step.target] = files.pop(step.path)
    yield step.op, "request", values
    for tensor, offset, length, inner in step.pieces:
        skipped = tensor.first_row * tensor.row_bytes + inner
        yield "save", "tensor", _tensor(step, file, tensor, offset, length, skipped)


def _tensor(
    step: Step, file: int, tensor: Any, offset: int, length: int, skipped: int
) -> dict[str, Any]:
    return {
        "path": f"{FOLDER}/{step.target or step.path}",
        "file": file,
        "offset": offset,
        "length": length,
        "name": tensor.name,
        "dtype": tensor.dtype,
        "shape": tensor.shape,
        "device": "cpu",
        "tensor_offset": skipped,
    }


def _loaded(steps: list[Step], files: dict[str, int]) -> Iterator[Row]:
    """Yield a read for each tensor, file by file."""
    current = ""
    for step in steps:
        if not step.pieces:
            continue
        name = step.target or step.path
        path, file = f"{FOLDER}/{name}", files[name]
        common = {"path": path, "file": file, "api": "posix"}
        if name != current:
            if current:
                yield "close", "request", _closed(current, files)
            yield "open", "request", {**common, "flags": os.O_RDONLY, "result": 0}
            current = name
        for tensor, offset, length, inner in step.pieces:
            extent = {"offset": offset, "length": length, "result": length}
            yield "read", "request", {**common, **extent, "offset_source": "tracked"}
            skipped = tensor.first_row * tensor.row_bytes + inner
            yield "load", "tensor", _tensor(step, file, tensor, offset, length, skipped)
    if current:
        yield "close", "request", _closed(current, files)


def _closed(name: str, files: dict[str, int]) -> dict[str, Any]:
    return {"path": f"{FOLDER}/{name}", "file": files[name], "api": "posix", "result": 0}
