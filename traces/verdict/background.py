"""How far a save goes on while the job goes on: what it blocked, what ran behind its back."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from iotrace.traces.intervals import Intervals
from iotrace.traces.lanes import Lanes
from iotrace.traces.verdict.episodes import Episode, Span

_BLOCKING_SPANS = ("save", "stage", "wait", "commit")


@dataclass(frozen=True)
class Background:
    """One save, as the threads that asked for it saw it; the process with most I/O outside.

    Attributes:
        call_seconds: until the saving call returned, or had copied what is saved behind it.
        blocked_seconds: in calls of the engine in all: save, stage, wait, commit.
        io_seconds: writes in flight, of the process.
        hidden_seconds: of these, outside those calls, of other threads: the job went on.
        hidden_bytes: whose writes began outside those calls.
        waited_seconds: of the blocked time, in `wait` and `commit`.
    """

    call_seconds: float
    blocked_seconds: float
    io_seconds: float
    hidden_seconds: float
    hidden_bytes: int
    waited_seconds: float

    @property
    def asynchronous(self) -> bool:
        """Whether anything was written outside the calls."""
        return self.hidden_bytes > 0


def background(episode: Episode) -> Background | None:
    """Return what went on in the background of a save; `None` where no call was seen."""
    saving = {span.process for span in episode.spans if span.op == "save"}
    calls = {p: own for p, own in blocking_spans(episode).items() if p in saving}
    return _of_process(episode, *_most_hidden(episode, calls)) if calls else None


def blocking_spans(episode: Episode) -> dict[int, list[Span]]:
    """Return the spans of a save on the thread of each process that asked for it.

    By process, ascending, and in order of start; none of a process without any. What an engine
    marks in threads of its own does not block that one. The copy before an asynchronous save is
    made on it, also where the save itself is marked on another.
    """
    found: defaultdict[int, list[Span]] = defaultdict(list)
    for span in episode.spans:
        if span.op in _BLOCKING_SPANS:
            found[span.process].append(span)
    return {process: _of_asker(found[process]) for process in sorted(found)}


def _of_asker(spans: list[Span]) -> list[Span]:
    copies = [span for span in spans if span.op == "stage" and span.engine]
    first = next(iter(copies), min(spans, key=lambda s: (s.op != "save", s.start_ns)))
    return [span for span in spans if span.thread == first.thread]


def _most_hidden(episode: Episode, calls: Mapping[int, list[Span]]) -> tuple[int, list[Span]]:
    """Return the process that wrote most outside its calls, of these the one blocked longest."""
    processes = np.array([*calls], np.int64)
    askers = np.array([own[0].thread for own in calls.values()], np.int64)
    flat = [span for own in calls.values() for span in own]
    start_ns = np.array([span.start_ns for span in flat], np.int64)
    end_ns = np.array([span.end_ns for span in flat], np.int64)
    of_span = np.repeat(np.arange(len(calls)), [len(own) for own in calls.values()])
    requests = episode.requests
    writes = requests.where(requests.is_op("write", "sync") & np.isin(requests.process, processes))
    lane = np.searchsorted(processes, writes.process)
    lanes = Lanes.of(len(calls), start_ns, end_ns, writes.start_ns)
    blocked = lanes.intervals(of_span, start_ns, end_ns)
    outside = ~blocked.contains(lanes.at(lane, writes.start_ns))
    outside &= (writes.thread != askers[lane]) | (askers[lane] < 0)
    hidden_bytes = np.zeros(len(calls), np.int64)
    np.add.at(hidden_bytes, lane[outside], writes.moved[outside])
    most = np.lexsort((-lanes.totals_ns(blocked), -hidden_bytes))[0]
    process = int(processes[most])
    return process, calls[process]


def _of_process(episode: Episode, process: int, own: list[Span]) -> Background:
    asker = own[0].thread
    blocked = _union(own)
    waited = _union([span for span in own if span.op in ("wait", "commit")])
    requests = episode.requests
    writes = requests.where(requests.is_op("write", "sync") & (requests.process == process))
    io = Intervals.of(writes.start_ns, writes.end_ns)
    # What the asking thread writes itself, as after a save that failed, holds the job up.
    others = writes.where((writes.thread != asker) | (asker < 0))
    outside = ~blocked.contains(others.start_ns)
    behind = Intervals.of(others.start_ns, others.end_ns)
    call = next((span for span in own if span.op == "save"), own[0])
    return Background(
        call_seconds=(call.end_ns - call.start_ns) / 1e9,
        blocked_seconds=blocked.total / 1e9,
        io_seconds=io.total / 1e9,
        hidden_seconds=behind.without(blocked).total / 1e9,
        hidden_bytes=int(others.moved[outside].sum()),
        waited_seconds=waited.total / 1e9,
    )


def _union(spans: list[Span]) -> Intervals:
    return Intervals.of(
        np.array([span.start_ns for span in spans], np.int64),
        np.array([span.end_ns for span in spans], np.int64),
    )
