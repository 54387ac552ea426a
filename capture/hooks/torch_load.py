"""torch.load: which tensors were read, from where in the file and when.

The zip reader that torch hands to its own `_load` is wrapped to time each record,
or to see where torch maps it from. The offsets of records that were read come from
the archive's directory, which the reader holds in memory: the hook adds no read.
Names come last, from the loaded object.
"""

from __future__ import annotations

import sys
from functools import partial, wraps
from time import monotonic_ns
from typing import TYPE_CHECKING

from .tensors import emit_rows, take_inventory, unnamed
from .wrapping import SpannedOpener, require, safely, target_or_nowhere
from .zip_layout import descriptor_bytes

if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from .span import Span
    from .spans import Spans

ENGINE = "torch.save"
ALIGNMENT_BYTES = 64  # of files that do not say theirs
ALIGNMENT_RECORD = ".storage_alignment"
COUNT_BYTES = 8  # before each storage of the legacy format: its number of elements


def bind(module: ModuleType, spans: Spans) -> None:
    """Wrap what `torch.serialization` calls while it loads.

    Raises:
        CannotBind: A function is missing.
    """
    storage = sys.modules["torch.storage"].UntypedStorage
    require(module, "_open_file_like", "_load", "_legacy_load", "_get_restore_location")
    require(storage, "_set_from_file")
    wrap_opener(module, spans)
    wrap_zip(module, spans)
    wrap_legacy(module, storage, spans)


def wrap_opener(module: Any, spans: Spans) -> None:
    """Let a span last as long as the file is open."""
    open_file = module._open_file_like

    @wraps(open_file)
    def _open_file_like(name_or_buffer: Any, mode: str, *args: Any, **kwargs: Any) -> Any:
        opener = partial(open_file, name_or_buffer, mode, *args, **kwargs)
        if "r" not in mode:
            return opener()
        target = target_or_nowhere(name_or_buffer)
        return SpannedOpener(opener, spans, "load", ENGINE, target)

    module._open_file_like = _open_file_like


def wrap_zip(module: Any, spans: Spans) -> None:
    """Time the records of the zip format."""
    load, get_restore = module._load, module._get_restore_location

    @wraps(load)
    def _load(zip_file: Any, *args: Any, **kwargs: Any) -> Any:
        span = spans.current()
        if span is None or span.op != "load":
            return load(zip_file, *args, **kwargs)
        spans.engage(span)
        work = span.work = ZipReads(zip_file, spans, span)
        result = None
        try:
            result = load(RecordReader(zip_file, work), *args, **kwargs)
        finally:
            safely(work.finish, result)
        return result

    @wraps(get_restore)
    def _get_restore_location(*args: Any, **kwargs: Any) -> Any:
        restore = get_restore(*args, **kwargs)
        span = spans.current()
        if span is None or not isinstance(span.work, ZipReads):
            return restore
        return span.work.following(restore)

    module._load = _load
    module._get_restore_location = _get_restore_location


class Read:
    """One storage that was read or mapped.

    Attributes:
        name: Its record; None in the legacy format.
        start_ns: When reading it began.
        end_ns: When it was read.
        length: Its bytes.
        offset: Where they lie, from the archive's first byte; None if not known yet.
        storage: Address of the storage they ended up in; 0 if not known yet.
    """

    __slots__ = ("end_ns", "length", "name", "offset", "start_ns", "storage")

    def __init__(
        self, name: str | None, start_ns: int, end_ns: int, length: int, offset: int | None
    ) -> None:
        self.name = name
        self.start_ns = start_ns
        self.end_ns = end_ns
        self.length = length
        self.offset = offset
        self.storage = 0


class Reads:
    """The storages of one load, until the loaded object tells their names.

    Args:
        spans: The way into the trace.
        span: The load.
    """

    def __init__(self, spans: Spans, span: Span) -> None:
        self.emitter = spans.emitter
        self.target = span.target
        self.head = span.row_head("tensor")
        self.receive = span.receiver()
        self.reads: list[Read] = []

    def emit(self, result: Any) -> None:
        """Write the rows of all reads, in the order of reading."""
        if self.receive is not None:
            for read in self.reads:
                if read.offset is not None:
                    self.receive(read.offset, read.length, read.start_ns, read.end_ns)
            return
        inventory = take_inventory(result, sys.modules["torch"])
        for read in self.reads:
            tensors = inventory.tensors(read.storage) or unnamed(read.length)
            offset = None if read.offset is None else self.target.offset(read.offset)
            emit_rows(
                self.emitter,
                self.head,
                tensors,
                offset,
                read.length,
                read.start_ns,
                read.end_ns,
            )


class ZipReads(Reads):
    """The records that one load reads or maps.

    Args:
        reader: torch's own.
        spans: The way into the trace.
        span: The load.
    """

    def __init__(self, reader: Any, spans: Spans, span: Span) -> None:
        super().__init__(spans, span)
        self._reader = reader
        self._last: Read | None = None
        self.alignment = ALIGNMENT_BYTES

    def add(self, read: Read) -> None:
        """Note a record that was read or found."""
        self.reads.append(read)
        self._last = read

    def following(self, restore: Any) -> Any:
        """Return `restore`, which puts a storage on its device, followed."""

        @wraps(restore)
        def restore_location(*args: Any, **kwargs: Any) -> Any:
            result = restore(*args, **kwargs)
            safely(self._restored, result)
            return result

        return restore_location

    def _restored(self, storage: Any) -> None:
        """Note the storage that the last record ended up in."""
        if self._last is None:
            return
        self._last.storage = storage._cdata
        if self._last.length < 0:  # mapped: torch asked only where it is
            self._last.length = storage.nbytes()

    def finish(self, result: Any) -> None:
        """Find the offsets that are still missing and write the rows."""
        if any(read.offset is None for read in self.reads):
            offsets = safely(self._directory_offsets) or {}
            for read in self.reads:
                if read.offset is None:
                    read.offset = offsets.get(read.name)
        self.reads = [read for read in self.reads if read.length >= 0]
        self.emit(result)

    def _directory_offsets(self) -> dict[str | None, int]:
        """Return the payload offsets that the archive's directory implies.

        The directory has the offsets of the headers; a header's length depends on
        the padding the writer chose. An offset counts only if the record then ends
        where the next one begins.
        """
        reader = self._reader
        if not hasattr(reader, "get_record_header_offset"):
            return self._header_offsets()
        lengths = {read.name: read.length for read in self.reads}
        headers = sorted(
            (reader.get_record_header_offset(name), name) for name in reader.get_all_records()
        )
        offsets = {}
        for (header, name), (next_header, _) in zip(headers, headers[1:]):
            length = lengths.get(name)
            if length is None:
                continue
            offset = reader.get_record_offset_no_read(header, name, length, self.alignment)
            if offset + length + descriptor_bytes(header, length) == next_header:
                offsets[name] = offset
        return offsets

    def _header_offsets(self) -> dict[str | None, int]:
        """Return the payload offsets that the records' own headers tell.

        Before torch 2.7 the reader did not give its directory away: it reads each
        header again, some 30 bytes, which are not the job's and not recorded.
        """
        self.emitter.pause()
        try:
            return {read.name: self._reader.get_record_offset(read.name) for read in self.reads}
        finally:
            self.emitter.resume()


class RecordReader:
    """A PyTorchFileReader that notes what is read through it.

    Args:
        reader: torch's own.
        work: Where the records are noted.
    """

    def __init__(self, reader: Any, work: ZipReads) -> None:
        self._reader = reader
        self._work = work

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)

    def get_record(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Read a record, as torch's reader does."""
        record = self._reader.get_record(name, *args, **kwargs)
        if name == ALIGNMENT_RECORD:
            self._work.alignment = safely(int, record) or ALIGNMENT_BYTES
        return record

    def get_storage_from_record(self, name: str, length: int, *args: Any, **kwargs: Any) -> Any:
        """Read a storage, as torch's reader does."""
        start_ns = monotonic_ns()
        storage = self._reader.get_storage_from_record(name, length, *args, **kwargs)
        self._work.add(Read(name, start_ns, monotonic_ns(), length, None))
        return storage

    def get_record_offset(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Return where a record lies, which torch asks for before it maps it."""
        start_ns = monotonic_ns()
        offset = self._reader.get_record_offset(name, *args, **kwargs)
        self._work.add(Read(name, start_ns, monotonic_ns(), -1, offset))
        return offset

    def get_record_offset_no_read(self, header: int, name: str, *args: Any, **kwargs: Any) -> Any:
        """Return where a record lies, which torch asks for before it maps it."""
        start_ns = monotonic_ns()
        offset = self._reader.get_record_offset_no_read(header, name, *args, **kwargs)
        self._work.add(Read(name, start_ns, monotonic_ns(), -1, offset))
        return offset


def wrap_legacy(module: Any, storage: Any, spans: Spans) -> None:
    """Time the storages of the legacy format."""
    load, set_from_file = module._legacy_load, storage._set_from_file

    @wraps(load)
    def _legacy_load(f: Any, *args: Any, **kwargs: Any) -> Any:
        span = spans.current()
        if span is None or span.op != "load":
            return load(f, *args, **kwargs)
        spans.engage(span)
        work = span.work = Reads(spans, span)
        result = None
        try:
            result = load(f, *args, **kwargs)
        finally:
            safely(work.emit, result)
        return result

    @wraps(set_from_file)
    def _set_from_file(self: Any, f: Any, offset: Any, *args: Any, **kwargs: Any) -> Any:
        span = spans.current()
        if span is None or type(span.work) is not Reads:
            return set_from_file(self, f, offset, *args, **kwargs)
        start_ns = monotonic_ns()
        result = set_from_file(self, f, offset, *args, **kwargs)
        safely(note_storage, span.work, self, offset, start_ns)
        return result

    module._legacy_load = _legacy_load
    storage._set_from_file = _set_from_file


def note_storage(work: Reads, storage: Any, position: int | None, start_ns: int) -> None:
    """Note a storage read from `position` in the file; the end is now."""
    offset = None if position is None else position + COUNT_BYTES - work.target.base_bytes
    read = Read(None, start_ns, monotonic_ns(), storage.nbytes(), offset)
    read.storage = storage._cdata
    work.reads.append(read)
