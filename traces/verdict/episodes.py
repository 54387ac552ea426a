"""The saves and the loads of a trace: which rows belong to each, and when it happened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from iotrace.traces.checkpoint_steps import MARKS
from iotrace.traces.phases import LINGERING_OPS, Phase
from iotrace.traces.requests import Requests
from iotrace.traces.trace import Trace


@dataclass(frozen=True)
class Span:
    """A labelled interval of one process, of the layer `span`."""

    op: str
    engine: str | None
    rank: int
    process: int
    thread: int
    start_ns: int
    end_ns: int
    step: int


@dataclass(frozen=True, eq=False)
class Episode:
    """One save or one load, over all processes.

    Attributes:
        phase: save or load.
        step: ordinal of it; -1: no engine was recognised, this is all such I/O of the job.
        engine: who made it, where that is known.
        start_ns, end_ns: first start and last end of its spans and its requests; equal where no
            times are known.
        requests: in order of start.
        spans: of its step, in order of start.
    """

    phase: Phase
    step: int
    engine: str | None
    start_ns: int
    end_ns: int
    requests: Requests
    spans: tuple[Span, ...]

    @property
    def name(self) -> str:
        """Return `save` or `load`."""
        return self.phase.name.lower()

    @property
    def label(self) -> str:
        """Return `save 3 (dcp)`: its step and engine, where they are known."""
        step = f" {self.step}" if self.step >= 0 else ""
        return f"{self.name}{step}" + (f" ({self.engine})" if self.engine else "")

    @property
    def seconds(self) -> float:
        """Time from its start to its end."""
        return (self.end_ns - self.start_ns) / 1e9

    @property
    def moved_bytes(self) -> int:
        """Bytes of a save's writes, or of a load's reads: page faults tell none."""
        op = "write" if self.phase == Phase.SAVE else "read"
        return int(self.requests.moved[self.requests.is_op(op)].sum())


def read_spans(trace: Trace) -> tuple[Span, ...]:
    """Return the spans of `trace` in order of start."""
    rows = trace.layer("span")
    numbers = [
        rows.ints(name).tolist() for name in ("rank", "process", "thread", "start_ns", "step")
    ]
    ends = np.where(rows.valid("end_ns"), rows.ints("end_ns"), rows.ints("start_ns")).tolist()
    columns = (rows.strings("op"), rows.strings("engine"), *numbers, ends)
    return tuple(
        Span(op or "", engine, rank, process, thread, start, end, step)
        for op, engine, rank, process, thread, start, step, end in zip(*columns, strict=True)
    )


def find_episodes(
    requests: Requests, spans: Sequence[Span], steps: Mapping[Phase, Sequence[int]]
) -> tuple[Episode, ...]:
    """Return the saves and loads in order of start; `steps` are those of `checkpoint_steps`."""
    found: list[Episode] = []
    for phase in (Phase.SAVE, Phase.LOAD):
        own = np.flatnonzero(requests.phase == phase)
        own = own[np.argsort(requests.step[own], kind="stable")]  # each step's in order of time
        of_step = requests.step[own]
        names = MARKS[phase]
        for step in steps[phase]:
            rows = own[slice(*np.searchsorted(of_step, [step, step + 1]).tolist())]
            inside = tuple(s for s in spans if step >= 0 and s.step == step and s.op in names)
            episode = _episode(phase, step, requests.where(rows), inside)
            if episode is not None:
                found.append(episode)
    return tuple(sorted(found, key=lambda episode: episode.start_ns))


def _episode(
    phase: Phase, step: int, requests: Requests, spans: tuple[Span, ...]
) -> Episode | None:
    lasting = ~requests.is_op(*LINGERING_OPS) if spans else np.ones(len(requests), np.bool_)
    starts = [int(requests.start_ns[0])] if len(requests) else []
    ends = requests.end_ns[lasting].max(initial=0).tolist() if lasting.any() else 0
    starts += [span.start_ns for span in spans]
    last = max([ends, *(span.end_ns for span in spans)])
    # Of a log without times all begin and end at once.
    if not starts or last < min(starts) or (last == min(starts) and not requests.moved.any()):
        return None
    names = [span.engine for span in spans if span.engine]
    if not names:
        used = requests.engine[requests.engine >= 0]
        names = [requests.engines[int(np.bincount(used).argmax())]] if len(used) else []
    return Episode(phase, step, names[0] if names else None, min(starts), last, requests, spans)
