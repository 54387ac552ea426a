"""torch.distributed.checkpoint: its saves and loads as spans.

The functions that all its entry points come to are wrapped, and know their folder.
An asynchronous save is a copy (`stage`) on the caller's thread and a save on a thread
of torch's, which are one step. With the process executor the save happens, and is
counted, in the process that torch spawns for it, where the hooks start by themselves.
"""

from __future__ import annotations

import os
import sys
from concurrent.futures import Future
from functools import wraps
from typing import TYPE_CHECKING

from .targets import NOWHERE, Target, absolute
from .waits import watch
from .wrapping import argument, require, safely

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    from .span import Span
    from .spans import Spans

ENGINE = "dcp"
FILE_SCHEME = "file://"
# The futures in what an asynchronous save with a stager of its own returns.
RESPONSE = ("staging_completion", "upload_completion")
MODULES = ("state_dict_saver", "state_dict_loader", "_async_thread_executor")


class OpenFile:
    """What is moved through one file of a checkpoint while it is open."""

    def finish(self) -> None:
        """Write the rows that are still due: the file is about to be closed."""


def bind(module: ModuleType, spans: Spans) -> None:
    """Wrap what saving and loading a state dict come to.

    Raises:
        CannotBind: A function or a parameter is missing.
    """
    modules: list[Any] = [sys.modules.get(f"{module.__name__}.{name}") for name in MODULES]
    saver, loader, executor = modules
    require(saver, "_save_state_dict")
    require(loader, "_load_state_dict")
    save = spanned(saver._save_state_dict, spans, "save", "storage_writer")
    load = spanned(loader._load_state_dict, spans, "load", "storage_reader")
    if executor is not None and hasattr(executor, "save_wrapper"):
        wrap_async(module, saver, executor, spans)
    saver._save_state_dict, loader._load_state_dict = save, load


def spanned(function: Any, spans: Spans, op: str, storage: str) -> Callable[..., Any]:
    """Return a function of torch's with a span around it; `storage` is the argument that has
    the folder."""
    find_storage = argument(function, storage)

    @wraps(function)
    def whole(*args: Any, **kwargs: Any) -> Any:
        span = spans.create(op, ENGINE, safely(folder_of, find_storage(args, kwargs)) or NOWHERE)
        return run(spans, span, function, args, kwargs)

    return whole


def run(
    spans: Spans, span: Span, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Call a function of torch's within a span."""
    spans.engage(span)
    spans.enter(span)
    try:
        return function(*args, **kwargs)
    finally:
        spans.leave(span)


def wrap_async(package: Any, saver: Any, executor: Any, spans: Spans) -> None:
    """Follow a save from the caller's thread to the one that writes.

    Raises:
        CannotBind: A class or a parameter is missing.
    """
    require(saver, "async_save")
    require(executor, "_ThreadBasedAsyncCheckpointExecutor")
    thread_executor = executor._ThreadBasedAsyncCheckpointExecutor
    async_save, execute, save = (
        saver.async_save,
        thread_executor.execute_save,
        executor.save_wrapper,
    )
    staged_name = "staging_future_or_state_dict"
    find_staged, find_handed = argument(execute, staged_name), argument(save, staged_name)
    staged: dict[int, Span] = {}

    @wraps(async_save)
    def staging(*args: Any, **kwargs: Any) -> Any:
        span = spans.create("stage", ENGINE, safely(named_folder, kwargs) or NOWHERE)
        pending = run(spans, span, async_save, args, kwargs)
        for future in (pending, *(getattr(pending, name, None) for name in RESPONSE)):
            if isinstance(future, Future):
                safely(watch, future, span, spans.emitter)
        return pending

    @wraps(execute)
    def execute_save(*args: Any, **kwargs: Any) -> Any:
        span = spans.current()
        if span is not None:  # torch holds the staged state until it is saved
            staged[id(find_staged(args, kwargs))] = span
        return execute(*args, **kwargs)

    @wraps(save)
    def save_wrapper(*args: Any, **kwargs: Any) -> Any:
        span = spans.create("save", ENGINE, safely(named_folder, kwargs) or NOWHERE)
        staging_span = staged.pop(id(find_handed(args, kwargs)), None)
        if staging_span is not None:
            span.take_step(staging_span)
        return run(spans, span, save, args, kwargs)

    if getattr(package, "async_save", None) is async_save:
        package.async_save = staging
    saver.async_save = staging
    thread_executor.execute_save = execute_save
    executor.save_wrapper = save_wrapper


def named_folder(arguments: dict[str, Any]) -> Target:
    """Return the folder that the arguments of a save name."""
    if arguments.get("checkpoint_id") is not None:
        return folder_target(arguments["checkpoint_id"])
    return folder_of(arguments.get("storage_writer"))


def folder_of(storage: Any) -> Target:
    """Return the folder of a storage writer or reader; nowhere if it has none."""
    return folder_target(getattr(storage, "path", None))


def folder_target(path: Any) -> Target:
    """Return the target of a local path, nowhere for anything else."""
    if not isinstance(path, (str, os.PathLike)):
        return NOWHERE
    name = os.fsdecode(path)
    if name.startswith(FILE_SCHEME):
        name = name[len(FILE_SCHEME) :]
    return NOWHERE if "://" in name else Target(absolute(name).rstrip("/"), 0)
