"""TorchSnapshot: taking a snapshot, at once or in the background.

The engine plans its writes, copies what it will write (`stage`), and writes, in part
on threads of its own. The names of the tensors are noted while it plans; what became
of the plan, with slabs that hold many tensors, is looked at before it is carried out.
"""

from __future__ import annotations

from functools import wraps
from time import monotonic_ns
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from .targets import NOWHERE, Target, absolute
from .torchsnapshot_parts import ENGINE, Part, dotted, emit_part, part_of, pieces
from .waits import watch
from .wrapping import argument, require, safely

if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from .span import Span
    from .spans import Spans

FILE_SCHEME = "fs://"
FS_PLUGIN = "FSStoragePlugin"


def bind(module: ModuleType, spans: Spans) -> None:
    """Wrap what taking a snapshot comes to.

    Raises:
        CannotBind: A function or a parameter is missing.
    """
    require(module, "Snapshot", "PendingSnapshot", "prepare_write", "sync_execute_write_reqs")
    require(module.Snapshot, "take", "async_take", "_take_impl")
    require(module.PendingSnapshot, "_complete_snapshot")
    pending: WeakKeyDictionary[Any, Span] = WeakKeyDictionary()
    wrappers = (
        *plan_wrappers(module, spans),
        *span_wrappers(module, spans, pending),
    )
    for owner, name, wrapper in wrappers:
        setattr(owner, name, wrapper)


def span_wrappers(module: Any, spans: Spans, pending: Any) -> list[tuple[Any, str, Any]]:
    """Return what goes around the whole of a snapshot.

    Args:
        module: TorchSnapshot's.
        spans: The way into the trace.
        pending: Snapshots that are completed in the background, by their storage.
    """
    snapshot, background = module.Snapshot, module.PendingSnapshot
    take, async_take, implement = (
        vars(snapshot)[name].__func__ for name in ("take", "async_take", "_take_impl")
    )
    complete = background._complete_snapshot
    find_path, find_async_path = argument(take, "path"), argument(async_take, "path")
    find_storage, find_late_storage = argument(implement, "storage"), argument(complete, "storage")
    find_is_async = argument(implement, "is_async_snapshot")

    def begin(path: Any) -> Span:
        span = spans.create("save", ENGINE, safely(folder_target, path) or NOWHERE)
        spans.engage(span)
        span.receive = ignore
        span.work = Writes(spans, span)
        spans.enter(span)
        return span

    @wraps(take)
    def whole(*args: Any, **kwargs: Any) -> Any:
        span = begin(find_path(args, kwargs))
        try:
            return take(*args, **kwargs)
        finally:
            spans.leave(span)

    @wraps(async_take)
    def first_part(*args: Any, **kwargs: Any) -> Any:
        span = begin(find_async_path(args, kwargs))
        try:
            result = async_take(*args, **kwargs)
        except BaseException:
            spans.leave(span)
            raise
        spans.suspend(span)
        safely(watch, result, span, spans.emitter)
        return result

    @wraps(implement)
    def staged(*args: Any, **kwargs: Any) -> Any:
        span = spans.current()
        if span is None or span.engine != ENGINE:
            return implement(*args, **kwargs)
        storage = find_storage(args, kwargs)
        span.target = safely(root_target, storage) or NOWHERE
        if find_is_async(args, kwargs):
            safely(pending.__setitem__, storage, span)
        start_ns = monotonic_ns()
        result = implement(*args, **kwargs)
        if span.outer is None:
            spans.emitter.emit(start_ns, monotonic_ns(), span.row_head("span", op="stage") + "}")
        return result

    @wraps(complete)
    def last_part(*args: Any, **kwargs: Any) -> Any:
        span = safely(pending.pop, find_late_storage(args, kwargs))
        if span is None:
            return complete(*args, **kwargs)
        spans.enter(span)
        try:
            return complete(*args, **kwargs)
        finally:
            spans.leave(span)

    return [
        (snapshot, "take", classmethod(whole)),
        (snapshot, "async_take", classmethod(first_part)),
        (snapshot, "_take_impl", classmethod(staged)),
        (background, "_complete_snapshot", last_part),
    ]


def plan_wrappers(module: Any, spans: Spans) -> list[tuple[Any, str, Any]]:
    """Return what looks at the plan of a snapshot."""
    prepare, execute = module.prepare_write, module.sync_execute_write_reqs
    find_object, find_name = argument(prepare, "obj"), argument(prepare, "logical_path")
    find_requests = argument(execute, "write_reqs")

    @wraps(prepare)
    def prepare_write(*args: Any, **kwargs: Any) -> Any:
        entry, requests = prepare(*args, **kwargs)
        work = work_of(spans)
        if work is not None:
            named = (find_name(args, kwargs), find_object(args, kwargs))
            safely(work.planned, *named, entry, requests)
        return entry, requests

    @wraps(execute)
    def sync_execute_write_reqs(*args: Any, **kwargs: Any) -> Any:
        work = work_of(spans)
        if work is not None:
            safely(work.place, find_requests(args, kwargs))
        return execute(*args, **kwargs)

    return [
        (module, "prepare_write", prepare_write),
        (module, "sync_execute_write_reqs", sync_execute_write_reqs),
    ]


def work_of(spans: Spans) -> Writes | None:
    """Return the writes of the snapshot that this thread takes."""
    span = spans.current()
    return span.work if span is not None and isinstance(span.work, Writes) else None


def ignore(offset: int, length: int, start_ns: int, end_ns: int) -> None:
    """Take an extent of an archive in memory: the archive tells when it is written."""


class Planned:
    """What is known of a stager's bytes before they have a place."""

    __slots__ = ("device", "name", "offsets", "shape")

    def __init__(self, name: str, tensor: Any, shape: Any, offsets: Any) -> None:
        self.name = name
        self.shape = tuple(shape)
        self.offsets = offsets
        self.device: object = "cpu" if tensor is None else tensor.device


class Writes:
    """The writes of one snapshot.

    Args:
        spans: The way into the trace.
        span: The snapshot.
    """

    def __init__(self, spans: Spans, span: Span) -> None:
        self._spans = spans
        self._span = span
        self._planned: dict[int, Planned] = {}
        self._files: dict[str, list[Part]] = {}

    def planned(self, path: str, obj: Any, entry: Any, requests: Any) -> None:
        """Note the stagers of an object; the engine keeps them until they are written."""
        offsets = {id(part): where for part, where in pieces(entry)}
        for request in requests:
            stager = request.buffer_stager
            tensor = getattr(stager, "tensor", None)
            shape = () if tensor is None else obj.size()
            where = offsets.get(id(getattr(stager, "entry", None)), ())
            self._planned[id(stager)] = Planned(dotted(path), tensor, shape, where)

    def place(self, requests: Any) -> None:
        """Note what each file will hold."""
        for request in requests:
            stager = request.buffer_stager
            slab = getattr(stager, "byte_range_to_buffer_stager", None)
            stagers = [stager] if slab is None else slab.values()
            self._files[request.path] = [place_part(self._planned[id(one)], one) for one in stagers]
        self._planned.clear()

    def moved(self, root: str, io_request: Any, start_ns: int, end_ns: int) -> None:
        """Write the rows of a file that was written."""
        path = f"{root}/{io_request.path}"
        for part in self._files.pop(io_request.path, ()):
            emit_part(self._spans, self._span, path, part, io_request.buf, start_ns, end_ns)


def place_part(planned: Planned, stager: Any) -> Part:
    """Return a part with its place in the file, which its entry knows by now."""
    entry = getattr(stager, "entry", None)
    if entry is None:
        return Part(None, planned.name, True, 0, None)
    return part_of(
        planned.name, entry, planned.shape, planned.offsets, planned.device, entry.byte_range
    )


def folder_target(path: str) -> Target:
    """Return the target of a snapshot by the path it is given; nowhere for object stores."""
    name = path[len(FILE_SCHEME) :] if path.startswith(FILE_SCHEME) else path
    return NOWHERE if "://" in name else Target(absolute(name).rstrip("/"), 0)


def root_target(storage: Any) -> Target:
    """Return the folder that a storage plugin writes below; nowhere for object stores."""
    if FS_PLUGIN not in (kind.__name__ for kind in type(storage).__mro__):
        return NOWHERE
    return Target(absolute(storage.root).rstrip("/"), 0)
