"""Calls in which a job waits for a save that goes on in the background: `wait` spans."""

from __future__ import annotations

from functools import wraps
from time import monotonic_ns
from typing import TYPE_CHECKING
from weakref import ref

if TYPE_CHECKING:
    from typing import Any

    from .emit import Emitter
    from .span import Span

# What holds a caller until the save has ended: of a future, of an engine's own handle.
METHODS = ("result", "exception", "wait")


def watch(handle: Any, span: Span, emitter: Emitter) -> None:
    """Write a row for each wait for what `handle` stands for.

    Args:
        handle: What an asynchronous save gave the job: a future, or an engine's own.
        span: Of the save, or of the copy before it; a wait is of its step.
        emitter: Where rows go.
    """
    for name in METHODS:
        if hasattr(handle, name):
            setattr(handle, name, _timed(handle, name, span, emitter))


def _timed(handle: Any, name: str, span: Span, emitter: Emitter) -> Any:
    method = getattr(type(handle), name)
    find = ref(handle)  # a method of its own on an object would keep it alive

    @wraps(method)
    def timed(*args: Any, **kwargs: Any) -> Any:
        start_ns = monotonic_ns()
        try:
            return method(find(), *args, **kwargs)
        finally:
            emitter.emit(start_ns, monotonic_ns(), span.row_head("span", op="wait") + "}")

    return timed
