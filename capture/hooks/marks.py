"""Spans that the job itself marks, through the module `iotrace_marks`.

The module is there in every Python process of a capture and nowhere else, so a job needs no
package of ours:

    try:
        from iotrace_marks import span
    except ImportError:  # not under `iotrace capture`
        from contextlib import nullcontext

        def span(*args, **kwargs):
            return nullcontext()

    with span("save", step=1200):
        my_engine.write(...)

`span(op, step=None, name=None, path=None)`: `op` is one of save, load, stage, commit, wait,
allocate, barrier. The step is also that of the hooked engines' saves and loads that begin
meanwhile; requests that belong to no engine are given to the mark around them, on the same thread.
"""

from __future__ import annotations

from time import monotonic_ns
from typing import TYPE_CHECKING

from .emit import quote

if TYPE_CHECKING:
    from .spans import Spans

OPS = ("save", "load", "stage", "commit", "wait", "allocate", "barrier")
_INT32_MAX = 2**31 - 1


class Mark:
    """A context manager around a part of the job; an op that is not known makes no row.

    Args:
        spans: Where the row goes; None: nowhere.
        op: What the part does, one of OPS.
        step: Ordinal of the checkpoint, as the job counts; None: not known.
        name: What the job calls the part.
        path: The file or folder it works on.
    """

    __slots__ = ("_head", "_spans", "_start_ns", "step")

    def __init__(
        self, spans: Spans | None, op: str, step: object, name: object, path: object
    ) -> None:
        is_step = isinstance(step, int) and not isinstance(step, bool) and 0 <= step <= _INT32_MAX
        self.step: int | None = step if is_step else None  # type: ignore[assignment]
        self._spans = spans if op in OPS else None
        self._start_ns = 0
        texts = (None if text is None else str(text) for text in (name, path))
        name_json, path_json = map(quote, texts)
        self._head = (
            f'{{"layer":"span","op":{quote(op)},"mark":true,"name":{name_json},"path":{path_json},'
            f'"step":{"null" if self.step is None else self.step}}}'
        )

    def __enter__(self) -> Mark:
        self._start_ns = monotonic_ns()
        if self._spans is not None:
            self._spans.marks.append(self)
        return self

    def __exit__(self, *error: object) -> None:
        if self._spans is None:
            return
        if self in self._spans.marks:
            self._spans.marks.remove(self)
        self._spans.emitter.emit(self._start_ns, monotonic_ns(), self._head)
