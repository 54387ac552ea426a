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
from .emit import quote
from .process import ProcessNotes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from .emit import Emitter
    from .marks import Mark
    from .targets import Target

    Receiver = Callable[[int, int, int, int], None]
    Inside = tuple["Span", "Inside | None"]  # a thread's spans, the innermost first

# A copy that an asynchronous save makes first is of the same step as the save.
COUNTED_AS = {"save": "save", "load": "load", "stage": "save"}


class Held:
    """Takes the rows of tensors that lie in memory, until the file has them."""

    def __init__(self) -> None:
        self._rows: list[tuple[int, str]] = []

    def emit(self, start_ns: int, end_ns: int, text: str) -> None:
        """Keep a row; its end is that of the file's write."""
        self._rows.append((start_ns, text))

    def release(self, emitter: Emitter) -> None:
        """Write the rows: by now the file is there under its name."""
        now_ns = monotonic_ns()
        for start_ns, text in self._rows:
            emitter.emit(start_ns, now_ns, text)


class Span:
    """One save or load of one engine on one thread.

    Attributes:
        op: `save`, `load` or `stage`.
        engine: Value of the trace's `engine` column.
        target: The file it works on.
        start_ns: When it began.
        outer: The span it is nested in.
        step: Ordinal of the outermost span; None until the engine's work begins.
        is_counted: Whether the step is only how many this process had before.
        work: What the engine's hook keeps for this span.
        receive: Takes the extents that a nested engine moves in memory, in place of
            that engine's rows: offset and length in what it writes, start and end.
        held: Where the rows of a nested engine wait that writes into memory what is then put
            into this span's file, from its first byte on.
        is_asynchronous: Whether the engine goes on in threads of its own after the end.
    """

    __slots__ = (
        "below",
        "engine",
        "held",
        "is_asynchronous",
        "is_counted",
        "op",
        "outer",
        "receive",
        "start_ns",
        "step",
        "target",
        "work",
    )

    def __init__(self, op: str, engine: str, target: Target, outer: Span | None) -> None:
        self.op = op
        self.engine = engine
        self.target = target
        self.outer = outer
        self.start_ns = monotonic_ns()
        self.step: int | None = None
        self.is_counted = False
        self.work: Any = None
        self.receive: Receiver | None = None
        self.held: Held | None = None
        self.is_asynchronous = False

    def receiver(self) -> Receiver | None:
        """Return what takes this span's extents, if an engine around it asked for them."""
        if self.outer is None or self.target.path is not None:
            return None
        return self.outer.receive

    def take_step(self, other: Span) -> None:
        """Make this span part of another's step."""
        self.step, self.is_counted = other.step, other.is_counted

    def rows_to(self, emitter: Emitter) -> Emitter | Held:
        """Return where the rows of this span's tensors go."""
        return (self.outer and self.outer.held) or emitter

    def row_head(self, layer: str, op: str | None = None, path: str | None = None) -> str:
        """Return the JSON that the rows of this span begin with, the object left open.

        Args:
            layer: `tensor` or `span`.
            op: If other than the span's.
            path: If other than the span's.
        """
        mark = '"asynchronous":true,' if self.is_asynchronous else ""
        if self.is_counted:
            mark += '"counted":true,'
        return (
            f'{{"layer":"{layer}","op":"{op or self.op}","engine":{quote(self.engine)},'
            f'{mark}"step":{self.step},"path":{quote(path or self.target.path)}'
        )


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
        """Return a span that begins now; `enter` makes it this thread's."""
        outer = self.current() or self._around(engine, target)
        if target.path is None and outer is not None and outer.held is not None:
            target = outer.target
        return Span(op, engine, target, outer)

    def _around(self, engine: str, target: Target) -> Span | None:
        """Return the step of an engine, on whatever thread, whose folder holds a file."""
        for step in self._steps:
            folder = step.target.path
            if folder and step.engine == engine and (target.path or "").startswith(f"{folder}/"):
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
            self._counters.emit(span, begins=True)

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
            self._counters.emit(span, begins=False)

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
