"""One save or load of one engine on one thread."""

from __future__ import annotations

from time import monotonic_ns
from typing import TYPE_CHECKING

from .emit import quote

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .emit import Emitter
    from .targets import Target

    Receiver = Callable[[int, int, int, int], None]
    Reading = tuple[int, dict[str, Any]]  # when, and the fields of the rows of counters


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
        before: What was counted when it began; None of a nested one.
    """

    __slots__ = (
        "before",
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
        self.before: Reading | None = None

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
