"""Which save or load each thread is in.

Spans nest, as engines call each other; the outermost one is a step of the job
and becomes a row of the trace. Ordinals count the steps of this process, apart
for saves and loads. An engine's own threads begin with no span: what they do in
the folder of a span of that engine belongs to it.
"""

from __future__ import annotations

import os
from itertools import count
from threading import local
from time import monotonic_ns
from typing import TYPE_CHECKING

from .counters import Counters
from .process import ProcessNotes
from .span import Span

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .emit import Emitter
    from .marks import Mark
    from .targets import Target

    Inside = tuple["Span", "Inside | None"]  # a thread's spans, the innermost first

# A copy that an asynchronous save makes first is of the same step as the save.
COUNTED_AS = {"save": "save", "load": "load", "stage": "save"}


class Spans:
    """The spans of all threads, and the way into the trace.

    Attributes:
        marks: What the job itself has marked and goes on, the innermost last.
        process: What this process says of itself.

    Args:
        emitter: Where rows go.
    """

    def __init__(self, emitter: Emitter) -> None:
        self.emitter = emitter
        self.process = ProcessNotes(emitter)
        self._counters = Counters(emitter)
        self._thread = local()
        self._process = -1
        self._ordinals: dict[str, Iterator[int]] = {}
        self._steps: list[Span] = []
        self.marks: list[Mark] = []

    def current(self) -> Span | None:
        """Return the innermost span of this thread."""
        inside: Inside | None = getattr(self._thread, "inside", None)
        return None if inside is None else inside[0]

    def create(self, op: str, engine: str, target: Target) -> Span:
        """Return a span that begins now; `enter` makes it this thread's.

        What is counted before a step is read here: when the engine says that its work begins,
        it may have read a file's header, and with it what the kernel reads ahead.
        """
        outer = self.current() or self._around(op, engine, target)
        if target.path is None and outer is not None and outer.held is not None:
            target = outer.target
        span = Span(op, engine, target, outer)
        if outer is None:
            # In a save nothing is in the file yet, and an open may be a round trip.
            span.before = self._counters.read(target.path if op == "load" else None)
        return span

    def _around(self, op: str, engine: str, target: Target) -> Span | None:
        """Return the step of an engine, on whatever thread, whose folder holds a file.

        A load may use another engine for the files.
        """
        for step in self._steps:
            folder = step.target.path
            if not folder or not (target.path or "").startswith(f"{folder}/"):
                continue
            if step.engine == engine or step.op == op == "load":
                return step
        return None

    def enter(self, span: Span) -> None:
        """Make a span this thread's innermost one; `leave` must follow on the same thread."""
        self._thread.inside = (span, getattr(self._thread, "inside", None))

    def engage(self, span: Span, step: int | None = None) -> None:
        """Say that the engine's work begins: from here on the span is a step, or part of one.

        Args:
            span: The engine's.
            step: What the engine itself calls this step; None: it is the next one.
        """
        outer = span.outer
        if outer is not None and outer.step is None:
            self.engage(outer)
        if span.step is None:
            self._number(span, step)
        if outer is None and span not in self._steps:
            self._steps.append(span)
            self.process.emit()
            self._counters.emit(span, span.before)

    def suspend(self, span: Span) -> None:
        """Take this thread out of a span that goes on, and of those inside it.

        Another thread enters the span later.
        """
        inside: Inside | None = getattr(self._thread, "inside", None)
        while inside is not None:
            innermost, inside = inside
            if innermost is span:
                self._thread.inside = inside
                return

    def leave(self, span: Span) -> None:
        """End a span, and those inside it that were left open; write the outermost's row."""
        self.suspend(span)
        span.work = None
        span.receive = None
        if span.outer is None and span.step is not None:
            self._steps.remove(span)
            self.emitter.emit(span.start_ns, monotonic_ns(), span.row_head("span") + "}")
            self._counters.emit(span, self._counters.read(span.target.path))

    def _number(self, span: Span, step: int | None) -> None:
        if span.outer is not None:
            span.take_step(span.outer)
            return
        if step is None:
            step = next((m.step for m in reversed(self.marks) if m.step is not None), None)
        span.is_counted = step is None
        span.step = self._next_ordinal(span.op) if step is None else step

    def _next_ordinal(self, op: str) -> int:
        if self._process != os.getpid():  # a forked child counts its own steps
            self._process = os.getpid()
            self._ordinals = {"save": count(), "load": count()}
        return next(self._ordinals[COUNTED_AS[op]])
