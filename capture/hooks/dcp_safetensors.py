"""torch.distributed.checkpoint in the safetensors format: the header, while it is in memory."""

from __future__ import annotations

from functools import wraps
from time import monotonic_ns
from typing import TYPE_CHECKING

from .dcp_write import FileWrites
from .wrapping import require, safely

if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from .spans import Spans


def bind(module: ModuleType, spans: Spans) -> None:
    """Wrap what makes the bytes of an archive.

    Raises:
        CannotBind: The function is missing.
    """
    require(module, "save")
    save: Any = module.save

    @wraps(save)
    def saved(*args: Any, **kwargs: Any) -> Any:
        start_ns = monotonic_ns()
        archive = save(*args, **kwargs)
        span = spans.current()
        if span is not None and isinstance(span.work, FileWrites):
            safely(span.work.serialized, archive, start_ns)
        return archive

    module.save = saved  # type: ignore[attr-defined]
