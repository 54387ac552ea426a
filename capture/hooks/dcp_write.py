"""torch.distributed.checkpoint: which parts of which tensors were written where.

A file holds items one after another. Each tensor is an archive of torch.save's: where
its bytes lie in that is what the hook of torch.save finds out. In the other format a
file is one safetensors archive, whose header torch has in memory when it writes it.
Vendors open the files in ways of their own: then each item asks its stream for the path.
"""

from __future__ import annotations

import json
from functools import wraps
from time import monotonic_ns
from typing import TYPE_CHECKING, NamedTuple

from .dcp import ENGINE, OpenFile
from .targets import Target
from .tensors import describe, dtype_name, emit_rows, first_byte
from .wrapping import argument, require, safely, target_or_nowhere

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from .span import Span
    from .spans import Spans

HEADER_LENGTH_BYTES = 8  # of a safetensors archive: the length of its header


class Piece(NamedTuple):
    """Some bytes of a tensor that were moved: where in the archive, and when."""

    offset: int
    length: int
    start_ns: int
    end_ns: int


def bind(module: Any, spans: Spans) -> None:
    """Wrap what writes one item.

    Raises:
        CannotBind: The function or a parameter is missing.
    """
    require(module, "_write_item")
    write_item = module._write_item
    find_item, find_data = argument(write_item, "write_item"), argument(write_item, "data")
    find_stream = argument(write_item, "stream")

    @wraps(write_item)
    def _write_item(*args: Any, **kwargs: Any) -> Any:
        span = spans.current()
        if span is None or span.engine != ENGINE or span.op != "save":
            return write_item(*args, **kwargs)
        if isinstance(span.work, OpenFile):
            return written(span, args, kwargs)
        file = Target(target_or_nowhere(find_stream(args, kwargs)).path, 0)
        span = spans.create("save", ENGINE, file)
        spans.enter(span)
        try:
            return written(span, args, kwargs)
        finally:
            spans.leave(span)

    def written(span: Span, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not isinstance(span.work, FileWrites):
            span.work = FileWrites(spans, span)
        work = span.work
        work.pieces.clear()
        start_ns = monotonic_ns()
        result = write_item(*args, **kwargs)
        end_ns = monotonic_ns()
        item, data = find_item(args, kwargs), find_data(args, kwargs)
        safely(work.written, item, data, result, start_ns, end_ns)
        return result

    module._write_item = _write_item


class FileWrites(OpenFile):
    """The items that are written to one file.

    Args:
        spans: The way into the trace.
        span: The file's.
    """

    def __init__(self, spans: Spans, span: Span) -> None:
        spans.engage(span)
        span.receive = self.receive
        self._emitter = spans.emitter
        self._target = span.target
        self._head = span.row_head("tensor")
        self._unplaced: dict[str, str] = {}
        self._archive = 0
        self._header: dict[str, Any] = {}
        self._start_ns = 0
        self.pieces: list[Piece] = []

    def receive(self, offset: int, length: int, start_ns: int, end_ns: int) -> None:
        """Note where in the archive of this item torch.save has put bytes."""
        self.pieces.append(Piece(offset, length, start_ns, end_ns))

    def written(self, item: Any, data: Any, result: Any, start_ns: int, end_ns: int) -> None:
        """Write the rows of an item that is in the file."""
        stored = result.storage_data
        whole = Piece(0, stored.length, start_ns, end_ns)
        name = item.index.fqn
        if item.tensor_data is None:
            text = describe(name, "uint8", (stored.length,), "cpu")
            self._emit(text, stored.offset, (whole,))
            return
        text = describe_item(name, item.tensor_data, data)
        if self.pieces and not getattr(stored, "transform_descriptors", None):
            self._emit(text, stored.offset, self.pieces)
        elif stored.length and self.pieces:  # compressed on the way: the item is what is stored
            self._emit(text, stored.offset, (whole,))
        else:
            self._unplaced[name] = text
            self._archive = stored.offset

    def serialized(self, archive: bytes, start_ns: int) -> None:
        """Note the header of the safetensors archive that is written next."""
        length = int.from_bytes(archive[:HEADER_LENGTH_BYTES], "little")
        first = HEADER_LENGTH_BYTES + length
        self._header = json.loads(archive[HEADER_LENGTH_BYTES:first])
        self._archive += first
        self._start_ns = start_ns

    def finish(self) -> None:
        """Write the rows of the tensors in a safetensors archive: it is written at last."""
        now_ns = monotonic_ns()
        for name, text in self._unplaced.items():
            entry = self._header.get(name)
            if entry is not None:
                first, last = entry["data_offsets"]
                piece = Piece(first, last - first, self._start_ns, now_ns)
                self._emit(text, self._archive, (piece,))

    def _emit(self, text: str, base: int, pieces: Iterable[Piece]) -> None:
        for offset, length, start_ns, end_ns in pieces:
            place = self._target.offset(base + offset)
            emit_rows(self._emitter, self._head, (text,), place, length, start_ns, end_ns)


def describe_item(name: str, described: Any, data: Any) -> str:
    """Return what is said of a tensor, or of the part of it that one item holds.

    Args:
        name: Fully qualified.
        described: What the plan says of it.
        data: What is written, in host memory.
    """
    shape = tuple(described.size)
    skipped = first_byte(shape, described.chunk.offsets, data.element_size())
    return describe(name, dtype_name(data.dtype), shape, data.device, skipped)
