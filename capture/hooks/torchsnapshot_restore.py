"""TorchSnapshot: restoring a snapshot, or reading one object of it."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING

from .targets import NOWHERE
from .torchsnapshot_parts import ENGINE, Part, dotted, emit_part, part_of, pieces
from .torchsnapshot_take import folder_target, ignore
from .wrapping import argument, require, safely

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType
    from typing import Any

    from .span import Span
    from .spans import Spans


def bind(module: ModuleType, spans: Spans) -> None:
    """Wrap what restoring a snapshot comes to.

    Raises:
        CannotBind: A function or a parameter is missing.
    """
    require(module, "Snapshot", "get_manifest_for_rank", "prepare_read")
    require(module.Snapshot, "restore", "read_object")
    snapshot = module.Snapshot
    wrappers = [
        *plan_wrappers(module, spans),
        (snapshot, "restore", spanned(snapshot.restore, spans)),
        (snapshot, "read_object", spanned(snapshot.read_object, spans)),
    ]
    for owner, name, wrapper in wrappers:
        setattr(owner, name, wrapper)


def spanned(method: Any, spans: Spans) -> Any:
    """Return a method of a snapshot with a span around it."""

    @wraps(method)
    def whole(self: Any, *args: Any, **kwargs: Any) -> Any:
        span = spans.create("load", ENGINE, safely(folder_target, self.path) or NOWHERE)
        spans.engage(span)
        span.receive = ignore
        span.work = Reads(spans, span)
        spans.enter(span)
        try:
            return method(self, *args, **kwargs)
        finally:
            spans.leave(span)

    return whole


def plan_wrappers(module: Any, spans: Spans) -> list[tuple[Any, str, Any]]:
    """Return what looks at the manifest and at the reads that are planned from it."""
    get_manifest, prepare = module.get_manifest_for_rank, module.prepare_read
    find_entry, find_tensor = argument(prepare, "entry"), argument(prepare, "obj_out")

    @wraps(get_manifest)
    def get_manifest_for_rank(*args: Any, **kwargs: Any) -> Any:
        manifests = get_manifest(*args, **kwargs)
        work = work_of(spans)
        if work is not None:
            safely(work.name, manifests)
        return manifests

    @wraps(prepare)
    def prepare_read(*args: Any, **kwargs: Any) -> Any:
        requests, future = prepare(*args, **kwargs)
        work = work_of(spans)
        if work is not None:
            safely(work.planned, find_entry(args, kwargs), find_tensor(args, kwargs), requests)
        return requests, future

    return [
        (module, "get_manifest_for_rank", get_manifest_for_rank),
        (module, "prepare_read", prepare_read),
    ]


def work_of(spans: Spans) -> Reads | None:
    """Return the reads of the snapshot that this thread restores."""
    span = spans.current()
    return span.work if span is not None and isinstance(span.work, Reads) else None


class Reads:
    """The reads of one restore.

    Args:
        spans: The way into the trace.
        span: The restore.
    """

    def __init__(self, spans: Spans, span: Span) -> None:
        self._spans = spans
        self._span = span
        self._manifests: tuple[Mapping[str, Any], ...] = ()
        self._names: dict[int, str] = {}
        self._files: dict[str, list[Part]] = {}

    def name(self, manifests: tuple[Mapping[str, Any], ...]) -> None:
        """Note the names of the entries; their addresses are theirs while they are kept."""
        self._manifests = manifests
        self._names = {
            id(entry): dotted(path) for part in manifests for path, entry in part.items()
        }

    def planned(self, entry: Any, tensor: Any, requests: Any) -> None:
        """Note what the reads of one entry are for."""
        name = self._names.get(id(entry), "")
        by_path: dict[str, list[Any]] = {}
        for piece in pieces(entry):
            by_path.setdefault(piece[0].location, []).append(piece)
        for request in requests:
            held = (piece for piece in by_path[request.path] if holds(piece[0], request.byte_range))
            part, where = next(held)
            described = describe_read(name, entry, part, where, tensor, request.byte_range)
            self._files.setdefault(request.path, []).append(described)

    def moved(self, root: str, io_request: Any, start_ns: int, end_ns: int) -> None:
        """Write the rows of what was read by one request."""
        path = f"{root}/{io_request.path}"
        moved = io_request.buf.getbuffer()
        first, last = io_request.byte_range or (0, len(moved))
        waiting = self._files.pop(io_request.path, [])
        later = [part for part in waiting if not first <= part.first <= (part.last or last) <= last]
        if later:
            self._files[io_request.path] = later
        for part in waiting:
            if part not in later:
                emit_part(self._spans, self._span, path, part, moved, start_ns, end_ns)


def holds(part: Any, byte_range: Any) -> bool:
    """Return whether some bytes of a part's file are of the part; no range means all of them."""
    own = getattr(part, "byte_range", None)
    if not own or not byte_range:
        return True
    return bool(own[0] <= byte_range[0] and byte_range[1] <= own[1])


def describe_read(
    name: str, entry: Any, part: Any, where: Any, tensor: Any, byte_range: Any
) -> Part:
    """Return what a planned read is for.

    Args:
        name: Fully qualified.
        entry: Of the object in the manifest.
        part: The entry of the part that is read: the object's own if it is in one part.
        where: Where in the tensor the part begins, per dimension.
        tensor: What it is read into, None if that is not there yet.
        byte_range: What is read; of a part that is read bit by bit, one bit.
    """
    if not hasattr(part, "dtype"):
        return Part(None, name, True, 0, None)
    shape = whole_shape(entry) if hasattr(entry, "shards") else entry.shape
    device = getattr(tensor, "device", "cpu")
    return part_of(name, part, shape, where, device, byte_range)


def whole_shape(entry: Any) -> tuple[int, ...]:
    """Return the shape of a tensor of which the manifest has only the shards."""
    ends = ([o + s for o, s in zip(shard.offsets, shard.sizes)] for shard in entry.shards)
    return tuple(map(max, zip(*ends)))
