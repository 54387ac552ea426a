"""Lightning: torch.save writes its checkpoints into memory, which then goes into a file at once."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING

from .span import Held
from .targets import NOWHERE
from .wrapping import argument, require, safely, target_or_nowhere

if TYPE_CHECKING:
    from typing import Any

    from .spans import Spans
    from .targets import Target

ENGINE = "torch.save"  # which makes the bytes, all of them


def bind(module: Any, spans: Spans) -> None:
    """Wrap what `Trainer.save_checkpoint` and `Fabric.save` end in.

    Raises:
        CannotBind: The function or its parameter is missing.
    """
    require(module, "_atomic_save")
    save = module._atomic_save
    find_path = argument(save, "filepath")

    @wraps(save)
    def _atomic_save(*args: Any, **kwargs: Any) -> Any:
        target = safely(local_target, find_path(args, kwargs)) or NOWHERE
        span = spans.create("save", ENGINE, target)
        held = span.held = Held() if target.path else None
        spans.enter(span)
        try:
            result = save(*args, **kwargs)
            if held is not None:
                safely(held.release, spans.emitter)
            return result
        finally:
            spans.leave(span)

    module._atomic_save = _atomic_save


def local_target(path: Any) -> Target:
    """Return the target of a path; nowhere if it names an object store."""
    return NOWHERE if "://" in str(path) else target_or_nowhere(path)
