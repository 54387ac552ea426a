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

import os
from operator import index
from time import monotonic_ns
from typing import TYPE_CHECKING

from .emit import quote
from .targets import absolute
from .wrapping import safely

if TYPE_CHECKING:
    from .emit import Emitter

OPS = ("save", "load", "stage", "commit", "wait", "allocate", "barrier")
_INT32_MAX = 2**31 - 1


class Mark:
    """A context manager around a part of the job; an op that is not known makes no row.

    What the job gave is nobody's promise: a value that cannot be asked is not known.

    Args:
        emitter: Where the row goes; None: nowhere.
        active: The marks that go on, the innermost last.
        op: What the part does, one of OPS.
        step: Ordinal of the checkpoint, as the job counts; None: not known.
        name: What the job calls the part.
        path: The file or folder it works on.
    """

    __slots__ = ("_active", "_emitter", "_head", "_start_ns", "step")

    def __init__(
        self,
        emitter: Emitter | None,
        active: list[Mark],
        op: object,
        step: object,
        name: object,
        path: object,
    ) -> None:
        self.step: int | None = safely(step_of, step)
        known = safely(str, op)
        self._emitter = emitter if known in OPS else None
        self._active = active
        self._start_ns = 0
        name_json = quote(None if name is None else safely(str, name))
        self._head = (
            f'{{"layer":"span","op":{quote(known)},"mark":true,"name":{name_json},'
            f'"path":{quote(safely(place_of, path))},'
            f'"step":{"null" if self.step is None else self.step}}}'
        )

    def __enter__(self) -> Mark:
        self._start_ns = monotonic_ns()
        if self._emitter is not None:
            self._active.append(self)
        return self

    def __exit__(self, *error: object) -> None:
        if self._emitter is None:
            return
        if self in self._active:
            self._active.remove(self)
        self._emitter.emit(self._start_ns, monotonic_ns(), self._head)


def step_of(given: object) -> int | None:
    """Return the step that a job gave, as an integer of whatever kind; None for what is none.

    Raises what `given` itself raises.
    """
    try:
        step = -1 if isinstance(given, bool) else index(given)  # type: ignore[arg-type]
    except TypeError:
        return None
    return step if 0 <= step <= _INT32_MAX else None


def place_of(given: object) -> str | None:
    """Return the path that a job gave, absolute as all are; None for an object store's.

    Raises:
        OSError: The working folder, that it is relative to, is gone.
    """
    if not isinstance(given, (str, bytes, os.PathLike)):
        return None
    path = os.fsdecode(given)
    return None if "://" in path else absolute(path)
