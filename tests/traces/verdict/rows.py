"""Rows of hand-made traces, and the verdict on them."""

import os
from dataclasses import dataclass

import numpy as np

from iotrace.traces.metadata import Metadata, Process
from iotrace.traces.phases import Phase
from iotrace.traces.trace import Ints, Shapes, Strings, Trace
from iotrace.traces.verdict.verdict import Finding, Verdict, examine

CREATE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
_MS = 1_000_000


@dataclass(frozen=True)
class R:
    """A row; times are in ms."""

    op: str
    start: float
    end: float
    layer: str = "request"
    path: str | None = "/c/a.pt"
    target: str | None = None
    file: int | None = 0
    offset: int | None = None
    length: int | None = None
    result: int | None = 0
    flags: int | None = None
    rank: int = 0
    thread: int = 0
    step: int | None = 0
    engine: str | None = "torch.save"
    name: str | None = None
    dtype: str | None = None
    shape: tuple[int, ...] | None = None


def moved(op: str, start: float, end: float, offset: int, length: int, **more: object) -> R:
    return R(op, start, end, offset=offset, length=length, result=length, **more)


def tensor(name: str, offset: int, length: int, op: str = "save", **more: object) -> R:
    return R(op, 0, 0, layer="tensor", name=name, offset=offset, length=length, file=None, **more)


def span(op: str, start: float, end: float, **more: object) -> R:
    return R(op, start, end, layer="span", file=None, result=None, **more)


def verdict_on(*rows: R) -> Verdict:
    return examine(trace_of(*rows))


def trace_of(*rows: R) -> Trace:
    columns: dict[str, object] = {
        "start_ns": np.array([int(r.start * _MS) for r in rows]),
        "end_ns": np.array([int(r.end * _MS) for r in rows]),
        "rank": np.array([r.rank for r in rows]),
        "process": np.array([r.rank if r.rank >= 0 else 1 for r in rows]),
        "thread": np.array([r.thread for r in rows]),
        "shape": Shapes.of([r.shape for r in rows]),
    }
    for field in ("op", "layer", "path", "target", "engine", "name", "dtype"):
        columns[field] = Strings.of([getattr(r, field) for r in rows])
    for field in ("file", "offset", "length", "result", "flags", "step"):
        values = [getattr(r, field) for r in rows]
        known = np.array([v is not None for v in values])
        columns[field] = Ints(np.array([v or 0 for v in values], np.int64), known)
    return Trace.from_columns(columns, Metadata(processes=(Process(1), Process(2))))


def only(verdict: Verdict, phase: Phase = Phase.SAVE) -> Finding:
    (finding,) = verdict.of(phase)
    return finding


SAVE = (
    span("save", 0, 10),
    R("open", 1, 2, flags=CREATE),
    moved("write", 2, 4, 0, 100),
    moved("write", 5, 6, 100, 50),
    R("sync", 6, 9, flags=0),
    R("close", 9, 9.5),
)
