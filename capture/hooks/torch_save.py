"""torch.save: which tensors were written, where in the file and when.

The zip format writes one record per storage. The writer that torch hands to its
own `_save` is wrapped to time each record; where the payload lies follows from the
order, names and lengths of the records, without a look at the file. The legacy
format writes the storages one after another behind its pickles.
"""

from __future__ import annotations

import sys
from functools import partial, wraps
from time import monotonic_ns
from typing import TYPE_CHECKING

from .targets import unwrapped
from .tensors import Inventory, emit_rows, take_inventory, unnamed
from .wrapping import SpannedOpener, require, safely, target_or_nowhere
from .zip_layout import place_record

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType
    from typing import Any

    from .span import Span
    from .spans import Spans

ENGINE = "torch.save"
ALIGNMENT_BYTES = 64  # before torch 2.7 made it a setting
STORAGE_PREFIX = "data/"
COUNT_BYTES = 8  # before each storage of the legacy format: its number of elements


def bind(module: ModuleType, spans: Spans) -> None:
    """Wrap what `torch.serialization` calls while it saves.

    Raises:
        CannotBind: A function is missing.
    """
    storage = sys.modules["torch.storage"].UntypedStorage
    require(module, "_open_zipfile_writer", "_open_file_like")
    require(module, "_save", "_legacy_save", "location_tag")
    require(storage, "_write_file")
    wrap_openers(module, spans)
    wrap_zip(module, spans)
    wrap_legacy(module, storage, spans)


def wrap_openers(module: Any, spans: Spans) -> None:
    """Let a span last as long as the file is open."""
    open_zip, open_file = module._open_zipfile_writer, module._open_file_like

    @wraps(open_zip)
    def _open_zipfile_writer(name_or_buffer: Any, *args: Any, **kwargs: Any) -> Any:
        opener = partial(open_zip, name_or_buffer, *args, **kwargs)
        target = target_or_nowhere(name_or_buffer)
        return SpannedOpener(opener, spans, "save", ENGINE, target)

    @wraps(open_file)
    def _open_file_like(name_or_buffer: Any, mode: str, *args: Any, **kwargs: Any) -> Any:
        opener = partial(open_file, name_or_buffer, mode, *args, **kwargs)
        if "w" not in mode:
            return opener()
        target = target_or_nowhere(name_or_buffer)
        return SpannedOpener(opener, spans, "save", ENGINE, target)

    module._open_zipfile_writer = _open_zipfile_writer
    module._open_file_like = _open_file_like


def wrap_zip(module: Any, spans: Spans) -> None:
    """Time the records of the zip format."""
    save, tag = module._save, module.location_tag

    @wraps(save)
    def _save(obj: Any, zip_file: Any, *args: Any, **kwargs: Any) -> Any:
        span = spans.current()
        if span is None or span.op != "save":
            return save(obj, zip_file, *args, **kwargs)
        span.work = safely(begin_zip, module, spans, span, obj, zip_file)
        result = save(obj, span.work or zip_file, *args, **kwargs)
        if span.work is not None:
            safely(span.work.finish)
        return result

    @wraps(tag)
    def location_tag(storage: Any, *args: Any, **kwargs: Any) -> Any:
        location = tag(storage, *args, **kwargs)
        span = spans.current()
        if span is not None and isinstance(span.work, RecordWriter):
            safely(span.work.see, storage, location)
        return location

    module._save = _save
    module.location_tag = location_tag


def begin_zip(module: Any, spans: Spans, span: Span, obj: Any, writer: Any) -> RecordWriter:
    """Return the writer to hand to torch's `_save` in place of its own."""
    spans.engage(span)
    get_alignment = getattr(module, "_get_storage_alignment", lambda: ALIGNMENT_BYTES)
    is_named_outside = span.receiver() is not None
    inventory = Inventory() if is_named_outside else take_inventory(obj, sys.modules["torch"])
    return RecordWriter(writer, spans, span, inventory, get_alignment())


class RecordWriter:
    """A PyTorchFileWriter that says which tensors each record holds.

    Args:
        writer: torch's own.
        spans: The way into the trace.
        span: The save.
        inventory: The tensors of the object that is saved.
        alignment: What payload offsets are multiples of, in bytes.
    """

    def __init__(
        self, writer: Any, spans: Spans, span: Span, inventory: Inventory, alignment: int
    ) -> None:
        self._writer = writer
        self._emitter = span.rows_to(spans.emitter)
        self._target = span.target
        self._head = span.row_head("tensor")
        self._receive = span.receiver()
        self._inventory = inventory
        self._alignment = alignment
        self._prefix_bytes = len(writer.archive_name().encode()) + 1
        self._header = 0
        self._unplaced: list[tuple[str, int]] = []
        self._locations: dict[int, str] = {}
        self._order: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._writer, name)

    def see(self, storage: Any, location: str) -> None:
        """Note that pickling has met a storage: torch numbers them as it meets them."""
        address = storage._cdata
        if address not in self._locations:
            self._locations[address] = location
            self._order.append(address)

    def write_record(self, name: str, data: Any, size: int, *args: Any, **kwargs: Any) -> Any:
        """Write a record, as torch's writer does."""
        if not name.startswith(STORAGE_PREFIX):
            self._unplaced.append((name, size))
            return self._writer.write_record(name, data, size, *args, **kwargs)
        start_ns = monotonic_ns()
        result = self._writer.write_record(name, data, size, *args, **kwargs)
        safely(self._written, name, data, size, start_ns, monotonic_ns())
        return result

    def write_record_metadata(self, name: str, size: int, *args: Any, **kwargs: Any) -> Any:
        """Leave room for a record, as torch's writer does under `skip_data`."""
        start_ns = monotonic_ns()
        result = self._writer.write_record_metadata(name, size, *args, **kwargs)
        safely(self._written, name, None, size, start_ns, monotonic_ns())
        return result

    def finish(self) -> None:
        """Write the rows of the tensors that have no bytes."""
        now_ns = monotonic_ns()
        emit_rows(self._emitter, self._head, self._inventory.meta, None, 0, now_ns, now_ns)

    def _written(self, name: str, data: Any, size: int, start_ns: int, end_ns: int) -> None:
        offset = self._place(name, size)
        if self._receive is not None:
            self._receive(offset, size, start_ns, end_ns)
            return
        tensors = self._tensors(int(name[len(STORAGE_PREFIX) :]), data, size)
        place = self._target.offset(offset)
        emit_rows(self._emitter, self._head, tensors, place, size, start_ns, end_ns)

    def _place(self, name: str, size: int) -> int:
        """Return where a storage's record has its bytes, behind those before it."""
        header, offset = self._header, 0
        for one, length in (*self._unplaced, (name, size)):
            name_bytes = self._prefix_bytes + len(one.encode())
            offset, header = place_record(header, name_bytes, length, self._alignment)
        self._unplaced.clear()
        self._header = header
        return offset

    def _tensors(self, key: int, data: Any, size: int) -> Sequence[str]:
        """Return the tensors of one record; `data` is a copy unless it lies in host memory."""
        address: int = getattr(data, "_cdata", -1)
        if address not in self._inventory and key < len(self._order):
            address = self._order[key]
        found = self._inventory.tensors(address)
        return found or unnamed(size, self._locations.get(address, "cpu"))


def wrap_legacy(module: Any, storage: Any, spans: Spans) -> None:
    """Time the storages of the legacy format."""
    save, write_file = module._legacy_save, storage._write_file

    @wraps(save)
    def _legacy_save(obj: Any, f: Any, *args: Any, **kwargs: Any) -> Any:
        span = spans.current()
        if span is None or span.op != "save":
            return save(obj, f, *args, **kwargs)
        span.work = safely(begin_legacy, spans, span, obj)
        result = save(obj, f, *args, **kwargs)
        if span.work is not None:
            safely(span.work.finish)
        return result

    @wraps(write_file)
    def _write_file(self: Any, f: Any, *args: Any, **kwargs: Any) -> Any:
        span = spans.current()
        if span is None or not isinstance(span.work, StorageWriter):
            return write_file(self, f, *args, **kwargs)
        work = span.work
        safely(work.find_position, f)
        start_ns = monotonic_ns()
        result = write_file(self, f, *args, **kwargs)
        safely(work.written, self, start_ns, monotonic_ns())
        return result

    module._legacy_save = _legacy_save
    storage._write_file = _write_file


def begin_legacy(spans: Spans, span: Span, obj: Any) -> StorageWriter:
    """Return what follows the storages of one save."""
    spans.engage(span)
    return StorageWriter(spans, span, take_inventory(obj, sys.modules["torch"]))


class StorageWriter:
    """Follows the storages that the legacy format writes one after another.

    Args:
        spans: The way into the trace.
        span: The save.
        inventory: The tensors of the object that is saved.
    """

    def __init__(self, spans: Spans, span: Span, inventory: Inventory) -> None:
        self._emitter = span.rows_to(spans.emitter)
        self._has_file = span.target.path is not None
        self._head = span.row_head("tensor")
        self._inventory = inventory
        self._position: int | None = None

    def find_position(self, file: Any) -> None:
        """Ask once where the first storage goes; torch has flushed the file."""
        if self._has_file and self._position is None:
            self._position = unwrapped(file).tell()

    def written(self, storage: Any, start_ns: int, end_ns: int) -> None:
        """Write the rows of one storage."""
        length = storage.nbytes()
        offset = None
        if self._position is not None:
            offset = self._position + COUNT_BYTES
            self._position = offset + length
        tensors = self._inventory.tensors(storage._cdata) or unnamed(length, storage.device)
        emit_rows(self._emitter, self._head, tensors, offset, length, start_ns, end_ns)

    def finish(self) -> None:
        """Write the rows of the tensors that have no bytes."""
        now_ns = monotonic_ns()
        emit_rows(self._emitter, self._head, self._inventory.meta, None, 0, now_ns, now_ns)
