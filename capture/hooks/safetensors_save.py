"""safetensors saves: which tensors were written, where in the file and when.

Every framework's `save_file` ends in `serialize_file`, one call into the library that
writes header and tensors. From 0.8 on it writes under a temporary name and renames
the file in a way no preload library sees. The rows name the path that was asked for:
from it, and from the name the file has when it is closed, the trace knows the rename
(a rename row that no API made).
"""

from __future__ import annotations

import sys
from functools import wraps
from time import monotonic_ns
from typing import TYPE_CHECKING

from .safetensors_layout import saved_pieces
from .tensors import describe, emit_rows
from .wrapping import argument, require, safely, target_or_nowhere

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType
    from typing import Any

    from .span import Span
    from .spans import Spans

ENGINE = "safetensors"
CPU = "cpu"


class Devices(dict[str, str]):
    """Where the tensors of a save are, by name; without an entry they are in host memory."""


def bind(module: ModuleType, spans: Spans) -> None:
    """Wrap `serialize_file`, which the frameworks' modules take from here.

    Raises:
        CannotBind: It is missing, or takes other arguments.
    """
    require(module, "serialize", "serialize_file", "SafetensorError")
    original = module.serialize_file
    find_tensors, find_file = argument(original, "tensor_dict"), argument(original, "filename")

    @wraps(original)
    def serialize_file(*args: Any, **kwargs: Any) -> Any:
        target = target_or_nowhere(find_file(args, kwargs))
        span = spans.create("save", ENGINE, target)
        spans.enter(span)
        start_ns = monotonic_ns()
        try:
            spans.engage(span)
            result = original(*args, **kwargs)
            safely(note_tensors, module, spans, span, find_tensors(args, kwargs), start_ns)
            return result
        finally:
            spans.leave(span)

    replace(module, "serialize_file", original, serialize_file)


def replace(module: Any, name: str, original: Any, wrapped: Any) -> None:
    """Put a wrapper in place, also in the modules of the package that have been imported.

    Other packages' are not touched: to ask a lazy one for anything may import it.
    """
    for place, other in list(sys.modules.items()):
        if place.partition(".")[0] == module.__name__ and vars(other).get(name) is original:
            setattr(other, name, wrapped)


def note_tensors(
    module: Any, spans: Spans, span: Span, tensors: Mapping[str, Any], start_ns: int
) -> None:
    """Write the rows of a save that has just ended."""
    end_ns = monotonic_ns()
    devices = span.outer.work if span.outer is not None else None
    if not isinstance(devices, Devices) or span.target.path is None:
        devices = Devices()
    head = span.row_head("tensor")
    for piece in saved_pieces(tensors, span.target.path or "", module, spans.emitter):
        device = devices.get(piece.name, CPU)
        text = describe(piece.name, piece.dtype, piece.shape, device)
        emit_rows(spans.emitter, head, (text,), piece.offset, piece.length, start_ns, end_ns)
