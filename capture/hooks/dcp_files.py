"""torch.distributed.checkpoint: a span around each file while it is open."""

from __future__ import annotations

from functools import partial, wraps
from typing import TYPE_CHECKING

from .dcp import ENGINE, folder_target
from .targets import NOWHERE
from .wrapping import SpannedOpener, require, safely

if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from .spans import Spans


def bind(module: ModuleType, spans: Spans) -> None:
    """Wrap what opens the files, of torch's own file system and of fsspec's.

    Raises:
        CannotBind: A class or a method is missing.
    """
    require(module, "FileSystem")
    file_system = module.FileSystem
    require(file_system, "create_stream")
    create = file_system.create_stream

    @wraps(create)
    def create_stream(self: Any, path: Any, mode: str) -> Any:
        return FileOpener(partial(create, self, path, mode), spans, path, mode)

    file_system.create_stream = create_stream


class FileOpener(SpannedOpener):
    """A context manager of torch's that has one file open.

    Args:
        opener: Makes torch's context manager; its errors are the job's.
        spans: Where the span goes.
        path: The file.
        mode: How it is opened.
    """

    def __init__(self, opener: Any, spans: Spans, path: Any, mode: str) -> None:
        op = "load" if mode.startswith("r") else "save"
        super().__init__(opener, spans, op, ENGINE, None)
        self._span = spans.create(op, ENGINE, safely(folder_target, path) or NOWHERE)

    def __exit__(self, *error: Any) -> Any:
        work = self._span.work
        if work is not None:
            safely(work.finish)
        return super().__exit__(*error)
