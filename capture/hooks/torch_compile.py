"""torch.compile: keep its tracer out of the hooks.

A job may save inside a compiled function. The tracer breaks the graph at
torch.save, runs it, and would try to compile the hooks' own functions when torch
calls them: a second of work and a warning that the job would not have seen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .wrapping import require

if TYPE_CHECKING:
    from typing import Any

    from .spans import Spans


def bind(module: Any, spans: Spans) -> None:
    """Name the hooks' package to the tracer as one to be run as it is.

    Raises:
        CannotBind: The tracer has no list of such packages.
    """
    require(module, "add")
    module.add(__package__)
