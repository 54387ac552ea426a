"""torch.distributed.checkpoint: which parts of which tensors were read from where.

torch reads whole items, each through a view of the file. The order of the items in
the plan tells which one a view is of; the hook of torch.load, where in it bytes lie.
"""

from __future__ import annotations

from collections import deque
from functools import wraps
from time import monotonic_ns
from typing import TYPE_CHECKING

from .dcp import ENGINE, OpenFile
from .dcp_write import Piece
from .tensors import describe, dtype_name, emit_rows, first_byte
from .wrapping import argument, require, safely

if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from .span import Span
    from .spans import Spans


def bind(module: ModuleType, spans: Spans) -> None:
    """Wrap what reads the items of a plan.

    Raises:
        CannotBind: A method or a parameter is missing.
    """
    require(module, "FileSystemReader")
    reader = module.FileSystemReader
    require(reader, "read_data", "_slice_file")
    read, cut = reader.read_data, reader._slice_file
    find_plan, find_planner = argument(read, "plan"), argument(read, "planner")
    find_stored = argument(cut, "sinfo")

    @wraps(read)
    def read_data(*args: Any, **kwargs: Any) -> Any:
        span = spans.current()
        if span is not None and span.engine == ENGINE:
            plan, planner = find_plan(args, kwargs), find_planner(args, kwargs)
            span.work = safely(Items, args[0].storage_data, plan, planner)
        return read(*args, **kwargs)

    @wraps(cut)
    def _slice_file(*args: Any, **kwargs: Any) -> Any:
        span = spans.current()
        if span is not None and span.engine == ENGINE:
            safely(begin_item, spans, span, find_stored(args, kwargs))
        return cut(*args, **kwargs)

    reader.read_data, reader._slice_file = read_data, _slice_file


class Items:
    """What a load reads: the items of its plan by where they are stored.

    Args:
        storage_data: Where each item is stored.
        plan: What is to be read.
        planner: What knows the tensors.
    """

    def __init__(self, storage_data: Any, plan: Any, planner: Any) -> None:
        self._by_place: dict[int, deque[Any]] = {}
        for item in plan.items:
            place = id(storage_data[item.storage_index])
            self._by_place.setdefault(place, deque()).append(item)
        metadata = getattr(planner, "metadata", None)
        self._stored = getattr(metadata, "state_dict_metadata", {})
        self._wanted = getattr(planner, "state_dict", None) or {}

    def next_of(self, stored: Any) -> Any:
        """Return the item that a view of `stored` is made for."""
        return self._by_place[id(stored)].popleft()

    def describe(self, item: Any, length: int) -> str:
        """Return what is said of a tensor, or of the part of it that one item holds.

        Args:
            item: Of the plan.
            length: Bytes of the item as it is stored.
        """
        index = item.storage_index
        stored: Any = self._stored.get(index.fqn)
        properties = getattr(stored, "properties", None)
        if properties is None:
            return describe(index.fqn, "uint8", (length,), "cpu")
        shape = tuple(stored.size)
        device = getattr(self._wanted.get(item.dest_index.fqn), "device", "cpu")
        skipped = first_byte(shape, index.offset or (), properties.dtype.itemsize)
        return describe(index.fqn, dtype_name(properties.dtype), shape, device, skipped)


def begin_item(spans: Spans, span: Span, stored: Any) -> None:
    """Note that a view of the file is made, through which one item is read."""
    if not isinstance(span.work, FileReads):
        if span.outer is None or not isinstance(span.outer.work, Items):
            return
        span.work = FileReads(spans, span, span.outer.work)
    span.work.begin(stored)


class FileReads(OpenFile):
    """The items that are read from one file.

    Args:
        spans: The way into the trace.
        span: The file's.
        items: Of the load.
    """

    def __init__(self, spans: Spans, span: Span, items: Items) -> None:
        spans.engage(span)
        span.receive = self.receive
        self._emitter = spans.emitter
        self._target = span.target
        self._head = span.row_head("tensor")
        self._items = items
        self._stored: Any = None
        self._start_ns = 0
        self._pieces: list[Piece] = []

    def begin(self, stored: Any) -> None:
        """Begin an item; the one before has been read."""
        self.finish()
        self._stored = stored
        self._start_ns = monotonic_ns()

    def receive(self, offset: int, length: int, start_ns: int, end_ns: int) -> None:
        """Note where in the archive of this item torch.load has found bytes."""
        self._pieces.append(Piece(offset, length, start_ns, end_ns))

    def finish(self) -> None:
        """Write the rows of the item that was read last."""
        stored, self._stored = self._stored, None
        pieces, self._pieces = self._pieces, []
        if stored is None:
            return
        item = self._items.next_of(stored)
        if item.type.name == "BYTE_IO" or getattr(stored, "transform_descriptors", None):
            pieces = [Piece(0, stored.length, self._start_ns, monotonic_ns())]
        text = self._items.describe(item, stored.length)
        for offset, length, start_ns, end_ns in pieces:
            place = self._target.offset(stored.offset + offset)
            emit_rows(self._emitter, self._head, (text,), place, length, start_ns, end_ns)
