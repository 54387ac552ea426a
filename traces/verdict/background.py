"""How far a save goes on while the job goes on: what it blocked, what ran behind its back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from iotrace.traces.intervals import Intervals
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
    processes = {span.process for span in episode.spans if span.op == "save"}
    found = [_of_process(episode, process) for process in sorted(processes)]
    return max(found, key=lambda one: (one.hidden_bytes, one.blocked_seconds), default=None)


def blocking_spans(episode: Episode, process: int) -> list[Span]:
    """Return the spans of a save on the thread of `process` that asked for it, in order of start.

    What an engine marks in threads of its own does not block that one. The copy before an
    asynchronous save is made on it, also where the save itself is marked on another.
    """
    spans = [s for s in episode.spans if s.process == process and s.op in _BLOCKING_SPANS]
    copies = [span for span in spans if span.op == "stage" and span.engine]
    first = next(iter(copies), min(spans, key=lambda s: (s.op != "save", s.start_ns), default=None))
    return [span for span in spans if first is not None and span.thread == first.thread]


def _of_process(episode: Episode, process: int) -> Background:
    own = blocking_spans(episode, process)
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
