"""How hooks put themselves around an engine's functions."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

from .registry import CannotBind
from .targets import NOWHERE, target_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .spans import Spans
    from .targets import Target


def require(owner: Any, *names: str) -> None:
    """Check that `owner` has all that a hook is about to wrap.

    Raises:
        CannotBind: Something is missing: another version of the engine.
    """
    missing = [name for name in names if not hasattr(owner, name)]
    if missing:
        raise CannotBind(f"{getattr(owner, '__name__', 'torch')} has no {', '.join(missing)}")


def argument(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return what finds the argument `name` among those of a call, None if it was left out.

    Versions of an engine differ in the place of a parameter, hardly ever in its name.

    Raises:
        CannotBind: There is no such parameter: another version of the engine.
    """
    parameters = list(inspect.signature(function).parameters)
    if name not in parameters:
        raise CannotBind(f"{function.__qualname__} has no parameter {name}")
    place = parameters.index(name)

    def find(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return args[place] if place < len(args) else kwargs.get(name)

    return find


def safely(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return what a function of the hook's own returns, None if it fails: the job goes on."""
    try:
        return function(*arguments)
    except Exception:
        return None


def target_or_nowhere(destination: Any) -> Target:
    """Return the target of what the job named; nowhere if that is nothing known."""
    return safely(target_of, destination) or NOWHERE


class SpannedOpener:
    """A context manager of torch's, around whose block a span lies.

    Args:
        opener: Makes torch's context manager; its errors are the job's.
        spans: Where the span goes.
        op: `save` or `load`.
        engine: Value of the trace's `engine` column.
        target: What is opened.
    """

    def __init__(
        self, opener: Callable[[], Any], spans: Spans, op: str, engine: str, target: Target
    ) -> None:
        self._spans = spans
        self._span = spans.create(op, engine, target)
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
