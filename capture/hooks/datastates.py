"""DataStates-LLM, the public generation: what is saved and loaded, where in the file and when.

`Checkpointing.save` returns at once. A thread of a pool lays the file out and hands
the tensors to `CkptEngine.async_save`, with the offset of each; threads of the C++
engine copy and write them later, and those know nothing of Python. So a row's
times are those of the handing over, and the requests find their save by the file that
the rows name. Rows come in the order of the header, which is that of the queue.

The step of a save is the engine's own version of the checkpoint: all files of one have
the same. A load of a file has no version, and is counted. Names are those of the header,
with dots for the engine's bars.
"""

from __future__ import annotations

import sys
from functools import wraps
from time import monotonic_ns
from typing import TYPE_CHECKING

from .json_header import read_header
from .span import Span
from .tensors import describe, dtype_name, emit_rows
from .wrapping import argument, require, safely, target_or_nowhere

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import ModuleType
    from typing import Any

    from .spans import Spans

ENGINE = "datastates-llm"
SEPARATOR = "|"
METADATA = "datastates_metadata"
CPU = "cpu"


class Names(tuple[tuple[str, int], ...]):
    """The tensors of a save in the order in which they are handed over: (name, bytes)."""


def bind(module: ModuleType, spans: Spans) -> None:
    """Wrap the methods of `Checkpointing` or of `CkptEngine`, whichever the module defines.

    Raises:
        CannotBind: The class or a method is missing.
    """
    if module.__name__.endswith(".ckpt_engine"):
        require(module, "CkptEngine")
        wrap_engine(module.CkptEngine, spans)
        return
    require(module, "Checkpointing", "get_checkpoint_version")
    wrap_checkpointing(module, module.Checkpointing, spans)


def wrap_checkpointing(module: Any, kind: Any, spans: Spans) -> None:
    """Follow whole checkpoint files."""
    require(kind, "save", "save_background", "load", "commit", "wait")
    find_state = argument(kind.save_background, "state_dict")

    def version_of(self: Any, path: str) -> int:
        version: int = module.get_checkpoint_version(path, self.last_ckpt_version)
        return version

    def begin_save(span: Span, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        span.work = names_of(find_state(args, kwargs))

    def end_load(span: Span, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        note_loaded(spans, span)

    around = Around(spans, version_of)
    kind.save = around.call("save", kind.save, is_asynchronous=True)
    kind.save_background = around.call(
        "save", kind.save_background, begin=begin_save, is_asynchronous=True
    )
    kind.load = around.call("load", kind.load, end=end_load)
    kind.commit = around.call("commit", kind.commit)
    kind.wait = around.call("wait", kind.wait)


def wrap_engine(kind: Any, spans: Spans) -> None:
    """Follow the tensors that are handed to the C++ engine."""
    require(kind, "async_save", "load", "commit", "wait")
    around = Around(spans, lambda self, path: int(self.last_ckpt_version) + 1)
    kind.async_save = following_tensors("save", kind.async_save, spans)
    kind.load = following_tensors("load", kind.load, spans)
    kind.commit = around.call("commit", kind.commit)
    kind.wait = around.call("wait", kind.wait)


class Around:
    """Puts spans around methods.

    Args:
        spans: Where the spans go.
        version_of: Returns the engine's own number of a checkpoint, from the engine object and
            the path; None: it has none.
    """

    def __init__(self, spans: Spans, version_of: Callable[[Any, str], int | None]) -> None:
        self._spans = spans
        self._version_of = version_of

    def call(
        self,
        op: str,
        method: Any,
        begin: Callable[..., None] | None = None,
        end: Callable[..., None] | None = None,
        is_asynchronous: bool = False,
    ) -> Callable[..., Any]:
        """Return a method with a span around it.

        Args:
            op: What the span is.
            method: The class's own.
            begin: Called before it, with the span and the arguments.
            end: Called after it, also when it fails.
            is_asynchronous: Whether the engine goes on after the method.
        """
        spans, version_of = self._spans, self._version_of
        find_path = argument(method, "path") if op in ("save", "load") else None

        @wraps(method)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            path = find_path(args, kwargs) if find_path is not None else None
            span = spans.create(op, ENGINE, target_or_nowhere(path))
            span.is_asynchronous = is_asynchronous
            version = safely(version_of, args[0], path or "") if op != "load" else None
            safely(spans.engage, span, version)
            spans.enter(span)
            try:
                if begin is not None:
                    safely(begin, span, args, kwargs)
                return method(*args, **kwargs)
            finally:
                if end is not None:
                    safely(end, span, args, kwargs)
                spans.leave(span)

        return wrapped


def following_tensors(op: str, method: Any, spans: Spans) -> Callable[..., Any]:
    """Return a method that is given (version, tensor, offset, path) of many tensors, followed."""
    find_tensors = argument(method, "tensors")

    @wraps(method)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        tensors = find_tensors(args, kwargs)
        version, path = safely(first_of, tensors) or (None, None)
        span = spans.create(op, ENGINE, target_or_nowhere(path))
        span.is_asynchronous = True
        safely(spans.engage, span, version)
        spans.enter(span)
        try:
            return method(*args, **kwargs)
        finally:
            safely(note_handed_over, spans, span, tensors)
            spans.leave(span)

    return wrapped


def first_of(tensors: Sequence[tuple[int, Any, int, str]]) -> tuple[int, str]:
    """Return version and path of the first of some tensors."""
    version, _, _, path = tensors[0]
    return version, path


def note_handed_over(
    spans: Spans, span: Span, tensors: Sequence[tuple[int, Any, int, str]]
) -> None:
    """Write the rows of tensors that were handed to the engine; it stops at an empty one."""
    end_ns = monotonic_ns()
    names = names_for(span, tensors)
    heads: dict[tuple[int, str], str] = {}
    for name, (version, tensor, offset, path) in zip(names, tensors):
        length = bytes_of(tensor)
        if length == 0:
            return
        head = heads.get((version, path))
        if head is None:
            head = heads[version, path] = head_of(span, version, path)
        text = describe(name, dtype_name(tensor.dtype), tensor.shape, tensor.device)
        emit_rows(spans.emitter, head, (text,), int(offset), length, span.start_ns, end_ns)


def head_of(span: Span, version: int, path: str) -> str:
    """Return what the rows of tensors in one file begin with."""
    row = Span(span.op, ENGINE, target_or_nowhere(path), span.outer)
    if span.outer is None:
        row.step = version
    else:
        row.take_step(span)
    row.is_asynchronous = True
    return row.row_head("tensor")


def names_for(span: Span, tensors: Sequence[tuple[int, Any, int, str]]) -> Sequence[str | None]:
    """Return the names of tensors that were handed over; none if they are not those expected."""
    names = span.outer.work if span.outer is not None else None
    if isinstance(names, Names) and len(names) == len(tensors):
        lengths = [length for _, length in names]
        if lengths == [bytes_of(tensor) for _, tensor, _, _ in tensors]:
            return [name for name, _ in names]
    return [None] * len(tensors)


def names_of(state: Any) -> Names:
    """Return the tensors of a state as the engine will find them."""
    found = dict(walk("", state, sys.modules["torch"].is_tensor))
    return Names((dotted(key), bytes_of(tensor)) for key, tensor in found.items())


def walk(key: str, node: Any, is_tensor: Callable[[Any], bool]) -> Iterator[tuple[str, Any]]:
    """Yield the tensors in lists and dicts by the engine's key; it looks into nothing else."""
    if is_tensor(node):
        yield key, node
    elif isinstance(node, (list, dict)):
        items = node.items() if isinstance(node, dict) else enumerate(node)
        for part, child in items:
            yield from walk(f"{key}{SEPARATOR}{part}" if key else f"{part}", child, is_tensor)


def dotted(key: str) -> str:
    """Return a key of the header as a name like any other engine's."""
    return key.replace(SEPARATOR, ".")


def bytes_of(tensor: Any) -> int:
    """Return what a tensor takes in the file."""
    length: int = tensor.numel() * tensor.element_size()
    return length


def note_loaded(spans: Spans, span: Span) -> None:
    """Write the rows of a load that has just ended.

    The engine keeps neither its header nor the offsets, and what it loads does not
    tell them: behind the tensors lies a pickle of unknown length. So the header is read
    once more.
    """
    end_ns = monotonic_ns()
    header, begin = read_header(span.target.path or "", spans.emitter)
    head = span.row_head("tensor")
    for key, entry in header.items():
        if key == METADATA:
            continue
        first, last = entry["data_offsets"]
        text = describe(dotted(key), dtype_name(entry["dtype"]), entry["shape"], CPU)
        emit_rows(spans.emitter, head, (text,), begin + first, last - first, span.start_ns, end_ns)
