"""TorchSnapshot: when its file system plugin moves the bytes of a file."""

from __future__ import annotations

from functools import wraps
from time import monotonic_ns
from typing import TYPE_CHECKING

from .torchsnapshot_parts import ENGINE
from .torchsnapshot_take import root_target
from .wrapping import argument, require, safely

if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from .spans import Spans


def bind(module: ModuleType, spans: Spans) -> None:
    """Wrap what writes and reads a file.

    Raises:
        CannotBind: A method or a parameter is missing.
    """
    require(module, "FSStoragePlugin")
    plugin = module.FSStoragePlugin
    require(plugin, "write", "read")
    write = followed(plugin.write, spans, "write_io")
    read = followed(plugin.read, spans, "read_io")
    plugin.write, plugin.read = write, read


def followed(method: Any, spans: Spans, request: str) -> Any:
    """Return a method of the plugin, followed; `request` is the argument that says what."""
    find_request = argument(method, request)

    @wraps(method)
    async def moved(*args: Any, **kwargs: Any) -> Any:
        span = spans.current()
        work = span.work if span is not None and span.engine == ENGINE else None
        start_ns = monotonic_ns()
        result = await method(*args, **kwargs)
        if work is not None:
            root = root_target(args[0]).path
            safely(work.moved, root, find_request(args, kwargs), start_ns, monotonic_ns())
        return result

    return moved
