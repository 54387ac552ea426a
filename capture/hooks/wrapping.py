"""How hooks put themselves around an engine's functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .registry import CannotBind
from .targets import NOWHERE, target_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .spans import Spans


def require(owner: Any, *names: str) -> None:
    """Check that `owner` has all that a hook is about to wrap.

    Raises:
        CannotBind: Something is missing: another version of the engine.
    """
    missing = [name for name in names if not hasattr(owner, name)]
    if missing:
        raise CannotBind(f"{owner.__name__} has no {', '.join(missing)}")


def safely(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return what a function of the hook's own returns, None if it fails: the job goes on."""
    try:
        return function(*arguments)
    except Exception:
        return None


class SpannedOpener:
    """A context manager of torch's, around whose block a span lies.

    Args:
        opener: Makes torch's context manager; its errors are the job's.
        spans: Where the span goes.
        op: `save` or `load`.
        engine: Value of the trace's `engine` column.
        destination: The path or file object the job named.
    """

    def __init__(
        self, opener: Callable[[], Any], spans: Spans, op: str, engine: str, destination: Any
    ) -> None:
        self._spans = spans
        self._span = spans.create(op, engine, safely(target_of, destination) or NOWHERE)
        self._opener = opener()

    def __enter__(self) -> Any:
        opened = self._opener.__enter__()
        self._spans.enter(self._span)
        return opened

    def __exit__(self, *error: Any) -> Any:
        try:
            return self._opener.__exit__(*error)
        finally:
            self._spans.leave(self._span)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._opener, name)
