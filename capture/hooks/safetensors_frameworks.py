"""safetensors.torch and safetensors.numpy: one span around a whole save or load.

The library's own calls inside are nested in it: the span tells how long the job
waited, with the copies to host memory and the opens.
"""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING

from .safetensors_save import CPU, ENGINE, Devices
from .wrapping import argument, require, safely, target_or_nowhere

if TYPE_CHECKING:
    from typing import Any

    from .spans import Spans


def bind(module: Any, spans: Spans) -> None:
    """Wrap `save_file` and `load_file` of one framework's module.

    Raises:
        CannotBind: One is missing, or takes other arguments.
    """
    require(module, "save_file", "load_file")
    save, load = module.save_file, module.load_file
    find_saved, find_loaded = argument(save, "filename"), argument(load, "filename")

    @wraps(save)
    def save_file(*args: Any, **kwargs: Any) -> Any:
        target = target_or_nowhere(find_saved(args, kwargs))
        span = spans.create("save", ENGINE, target)
        span.work = safely(devices_of, args[0] if args else kwargs.get("tensors"))
        spans.enter(span)
        try:
            return save(*args, **kwargs)
        finally:
            spans.leave(span)

    @wraps(load)
    def load_file(*args: Any, **kwargs: Any) -> Any:
        target = target_or_nowhere(find_loaded(args, kwargs))
        span = spans.create("load", ENGINE, target)
        spans.enter(span)
        try:
            return load(*args, **kwargs)
        finally:
            spans.leave(span)

    module.save_file = save_file
    module.load_file = load_file


def devices_of(tensors: Any) -> Devices:
    """Return the devices of the tensors that are given to a save."""
    return Devices((name, str(getattr(tensor, "device", CPU))) for name, tensor in tensors.items())
