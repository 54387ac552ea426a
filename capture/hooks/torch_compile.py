"""torch.compile: keep its tracer out of the hooks.

A job may save inside a compiled function. The tracer breaks the graph at
torch.save, runs it, and would try to compile the hooks' own functions when torch
calls them: a second of work and a warning that the job would not have seen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from .spans import Spans


def bind(module: Any, spans: Spans) -> None:
    """Name the hooks' package to the tracer as one to be run as it is.

    A tracer without a list of such packages has none to be told, and no tensor is missing then.
    """
    if hasattr(module, "add"):
        module.add(__package__)
