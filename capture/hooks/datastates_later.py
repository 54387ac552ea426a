"""Later generations of DataStates-LLM: whose save or load a request belongs to.

They lay files out in a compiled core and move the bytes in its threads. Spans around
the documented methods name engine, step and file; rows of tensors are missing, and the
trace says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .datastates import Around
from .registry import CannotBind

if TYPE_CHECKING:
    from typing import Any

    from .spans import Spans

CLASSES = (
    "BaseCheckpointEngine",
    "CheckpointEngine",
    "SimpleCheckpointEngine",
    "StateCheckpointEngine",
    "StateCheckpointEngineAggregated",
)
METHODS = ("save", "load")


def bind(module: Any, spans: Spans) -> None:
    """Wrap the engines that a module defines; the public generation's modules define none.

    Raises:
        CannotBind: There are some: says that their tensors will be missing.
    """
    around = Around(spans, lambda engine, path: None)
    wrapped = []
    for kind in filter(None, (own_class(module, name) for name in CLASSES)):
        for name in METHODS:
            if name in vars(kind):
                method = around.call(name, vars(kind)[name], is_asynchronous=name == "save")
                setattr(kind, name, method)
                wrapped.append(f"{kind.__name__}.{name}")
    if wrapped:
        raise CannotBind(
            f"{module.__name__} lays files out in its core; {', '.join(wrapped)} are followed"
        )


def own_class(module: Any, name: str) -> Any:
    """Return a class that a module defines; None if it has none, or has it from elsewhere."""
    kind = vars(module).get(name)
    return kind if getattr(kind, "__module__", None) == module.__name__ else None
