"""Which save or load each thread is in.

Spans nest, as engines call each other; the outermost one is a step of the job
and becomes a row of the trace. Ordinals count the steps of this process, apart
for saves and loads.
"""

from __future__ import annotations

import os
from itertools import count
from threading import local
from time import monotonic_ns
from typing import TYPE_CHECKING

from .emit import quote

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from .emit import Emitter
    from .targets import Target


class Span:
    """One save or load of one engine on one thread.

    Attributes:
        op: `save` or `load`.
        engine: Value of the trace's `engine` column.
        target: The file it works on.
        start_ns: When it began.
        outer: The span it is nested in.
        step: Ordinal of the outermost span; None until the engine's work begins.
        work: What the engine's hook keeps for this span.
    """

    __slots__ = ("engine", "op", "outer", "start_ns", "step", "target", "work")

    def __init__(self, op: str, engine: str, target: Target, outer: Span | None) -> None:
        self.op = op
        self.engine = engine
        self.target = target
        self.outer = outer
        self.start_ns = monotonic_ns()
        self.step: int | None = None
        self.work: Any = None

    def row_head(self, layer: str) -> str:
        """Return the JSON that the rows of this span begin with, the object left open."""
        return (
            f'{{"layer":"{layer}","op":"{self.op}","engine":{quote(self.engine)},'
            f'"step":{self.step},"path":{quote(self.target.path)}'
        )


class Spans:
    """The spans of all threads, and the way into the trace.

    Args:
        emitter: Where rows go.
    """

    def __init__(self, emitter: Emitter) -> None:
        self.emitter = emitter
        self._thread = local()
        self._process = -1
        self._ordinals: dict[str, Iterator[int]] = {}

    def current(self) -> Span | None:
        """Return the innermost span of this thread."""
        span: Span | None = getattr(self._thread, "span", None)
        return span

    def create(self, op: str, engine: str, target: Target) -> Span:
        """Return a span that begins now; `enter` makes it this thread's."""
        return Span(op, engine, target, self.current())

    def enter(self, span: Span) -> None:
        """Make a span this thread's innermost one; `leave` must follow on the same thread."""
        self._thread.span = span

    def engage(self, span: Span) -> None:
        """Say that the engine's work begins: from here on the span is a step, or part of one."""
        outer = span.outer
        if outer is not None and outer.step is None:
            self.engage(outer)
        if span.step is None:
            span.step = self._next_ordinal(span.op) if outer is None else outer.step

    def leave(self, span: Span) -> None:
        """End a span, and those inside it that were left open; write the outermost's row."""
        self._thread.span = span.outer
        span.work = None
        if span.outer is None and span.step is not None:
            self.emitter.emit(span.start_ns, monotonic_ns(), span.row_head("span") + "}")

    def _next_ordinal(self, op: str) -> int:
        if self._process != os.getpid():  # a forked child counts its own steps
            self._process = os.getpid()
            self._ordinals = {"save": count(), "load": count()}
        return next(self._ordinals[op])
