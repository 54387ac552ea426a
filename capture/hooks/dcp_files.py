"""torch.distributed.checkpoint: a span around each file while it is open."""

from __future__ import annotations

from functools import partial, wraps
from typing import TYPE_CHECKING

from .dcp import ENGINE, OpenFile, folder_target
from .targets import NOWHERE
from .wrapping import SpannedOpener, argument, require, safely

if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from .spans import Spans


def bind(module: ModuleType, spans: Spans) -> None:
    """Wrap what opens the files, of torch's own file system and of fsspec's.

    Raises:
        CannotBind: A class, a method or a parameter is missing.
    """
    require(module, "FileSystem")
    file_system = module.FileSystem
    require(file_system, "create_stream")
    create = file_system.create_stream

    find_path, find_mode = argument(create, "path"), argument(create, "mode")

    @wraps(create)
    def create_stream(*args: Any, **kwargs: Any) -> Any:
        path, mode = find_path(args, kwargs), find_mode(args, kwargs)
        return FileOpener(partial(create, *args, **kwargs), spans, path, mode)

    file_system.create_stream = create_stream


class FileOpener(SpannedOpener):
    """A context manager of torch's that has one file open.

    Args:
        opener: Makes torch's context manager; its errors are the job's.
        spans: Where the span goes.
        path: The file.
        mode: How it is opened.
    """

    def __init__(self, opener: Any, spans: Spans, path: Any, mode: Any) -> None:
        op = "load" if str(mode).startswith("r") else "save"
        super().__init__(opener, spans, op, ENGINE, safely(folder_target, path) or NOWHERE)
        self._span.work = OpenFile()

    def __exit__(self, *error: Any) -> Any:
        safely(self._span.work.finish)
        return super().__exit__(*error)
