"""safetensors loads: which tensors were taken from an open file, where they lie and when.

`safe_open` and its slices are classes of a compiled module. Their methods are
replaced in the class, which thus stays the class it is for everyone who has it.
Objects of these classes take no attributes and no weak references: what is known of
them is kept by address, until they are closed or the address is used again.

A file that is open is one load, a step of the job; its tensors may be taken long
after, from other threads or from a generator. So the load's span lasts while the file
is opened (or during the framework's `load_file`), and each tensor's row says
when that tensor was taken. By default the library maps the file: the bytes are
read when the tensor is used, which is when the row's extent is touched.
"""

from __future__ import annotations

import ctypes
import sys
from functools import wraps
from time import monotonic_ns
from typing import TYPE_CHECKING

from .json_header import size_of
from .registry import CannotBind
from .safetensors_layout import opened_pieces, part_of
from .safetensors_save import CPU, ENGINE
from .tensors import describe, emit_rows
from .wrapping import argument, require, safely, target_or_nowhere

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    from .safetensors_layout import Piece
    from .span import Span
    from .spans import Spans

PY_TP_NEW = 65  # of typeslots.h, part of Python's stable ABI


class OpenFile:
    """One file that is open.

    Attributes:
        head: What the rows of its tensors begin with.
        path: The file; None if it is not known.
        file_bytes: Its size.
        pieces: Its tensors by name, from the first one taken on.
    """

    __slots__ = ("file_bytes", "head", "path", "pieces")

    def __init__(self, head: str, path: str | None, file_bytes: int) -> None:
        self.head = head
        self.path = path
        self.file_bytes = file_bytes
        self.pieces: dict[str, Piece] | None = None


class Loads:
    """The files and slices that are open.

    Args:
        spans: The way into the trace.
        get_slice: The class's own method.
    """

    def __init__(self, spans: Spans, get_slice: Callable[..., Any]) -> None:
        self.spans = spans
        self._get_slice = get_slice
        self._files: dict[int, OpenFile] = {}
        self._slices: dict[int, tuple[OpenFile, Piece]] = {}

    def opened(self, handle: Any, span: Span) -> None:
        """Note a file that has been opened."""
        path = span.target.path
        self.forget(handle)
        self.spans.engage(span)
        if path is not None:
            size = size_of(path, self.spans.emitter)
            self._files[id(handle)] = OpenFile(span.row_head("tensor"), path, size)

    def forget(self, handle: Any) -> None:
        """Note that a file has been closed."""
        self._files.pop(id(handle), None)

    def took(self, handle: Any, name: str, tensor: Any, start_ns: int) -> None:
        """Write the row of a tensor."""
        file = self._files[id(handle)]
        piece = self._pieces(file, handle)[name]
        self._emit(file, piece, (0, piece.length), tensor, start_ns, monotonic_ns())

    def took_all(self, handle: Any, tensors: dict[str, Any], start_ns: int) -> None:
        """Write the rows of all tensors of a file, in the order of their bytes."""
        end_ns = monotonic_ns()
        file = self._files[id(handle)]
        for name, piece in self._pieces(file, handle).items():
            self._emit(file, piece, (0, piece.length), tensors[name], start_ns, end_ns)

    def sliced(self, handle: Any, name: str, piece: Any) -> None:
        """Note a slice of which parts will be taken."""
        self._slices.pop(id(piece), None)  # of an earlier one at this address
        file = self._files[id(handle)]
        self._slices[id(piece)] = (file, self._pieces(file, handle)[name])

    def took_part(self, sliced: Any, key: Any, tensor: Any, start_ns: int) -> None:
        """Write the row of a part of a tensor."""
        end_ns = monotonic_ns()
        file, piece = self._slices[id(sliced)]
        self._emit(file, piece, part_of(piece, key), tensor, start_ns, end_ns)

    def _pieces(self, file: OpenFile, handle: Any) -> dict[str, Piece]:
        if file.pieces is None:
            look = Lookup(handle, self._get_slice)
            pieces = opened_pieces(look, file.path or "", file.file_bytes, self.spans.emitter)
            file.pieces = {piece.name: piece for piece in pieces}
        return file.pieces

    def _emit(
        self,
        file: OpenFile,
        piece: Piece,
        part: tuple[int, int],
        tensor: Any,
        start_ns: int,
        end_ns: int,
    ) -> None:
        first, length = part
        text = describe(piece.name, piece.dtype, piece.shape, device_of(tensor), first)
        emit_rows(
            self.spans.emitter, file.head, (text,), piece.offset + first, length, start_ns, end_ns
        )


class Lookup:
    """An open file with the class's own `get_slice`: the hook's questions are no loads."""

    def __init__(self, handle: Any, get_slice: Callable[..., Any]) -> None:
        self._handle = handle
        self._get_slice = get_slice

    def get_slice(self, name: str) -> Any:
        """Return a slice that is not followed."""
        return self._get_slice(self._handle, name)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._handle, name)


def device_of(tensor: Any) -> str:
    """Return where a tensor is; other frameworks than torch are told to be in host memory."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(tensor, torch.Tensor):
        return CPU
    return str(tensor.device)


def bind(module: ModuleType, spans: Spans) -> None:
    """Replace the methods of `safe_open` that open a file and take tensors.

    Raises:
        CannotBind: A method is missing, or the class cannot be changed.
    """
    kind = module.safe_open
    require(kind, "get_tensor", "get_slice", "__exit__")
    loads = Loads(spans, kind.get_slice)
    construct = constructor_of(kind)
    try:
        wrap_tensors(kind, loads)
    except TypeError as error:  # a class that cannot be changed
        raise CannotBind(str(error)) from None
    wrap_opening(kind, loads, construct)


def constructor_of(kind: type) -> Callable[[type, tuple[Any, ...], dict[str, Any]], Any]:
    """Return the class's C constructor: Python calls it for no class that has a `__new__`.

    Raises:
        CannotBind: It has none.
    """
    get_slot = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_int)(
        ("PyType_GetSlot", ctypes.pythonapi)
    )
    address = get_slot(kind, PY_TP_NEW)
    if not address:
        raise CannotBind(f"{kind.__name__} has no constructor")
    arguments = (ctypes.py_object, ctypes.py_object, ctypes.py_object)
    return ctypes.PYFUNCTYPE(ctypes.py_object, *arguments)(address)


def wrap_opening(kind: Any, loads: Loads, construct: Callable[..., Any]) -> None:
    """Follow the files that are opened and closed."""
    spans, leave_file = loads.spans, kind.__exit__

    @wraps(kind.__new__)
    def __new__(cls: type, *args: Any, **kwargs: Any) -> Any:
        filename = args[0] if args else kwargs.get("filename")
        span = spans.create("load", ENGINE, target_or_nowhere(filename))
        spans.enter(span)
        try:
            handle = construct(cls, args, kwargs)
            safely(loads.opened, handle, span)
            return handle
        finally:
            spans.leave(span)

    @wraps(leave_file)
    def __exit__(self: Any, *error: Any) -> Any:
        safely(loads.forget, self)
        return leave_file(self, *error)

    kind.__new__ = __new__
    kind.__exit__ = __exit__


def wrap_tensors(kind: Any, loads: Loads) -> None:
    """Follow the tensors that are taken."""
    get_one, get_slice_of = kind.get_tensor, kind.get_slice
    find_one, find_slice = argument(get_one, "name"), argument(get_slice_of, "name")
    get_all: Any = getattr(kind, "get_tensors", None)  # from 0.8 on

    @wraps(get_one)
    def get_tensor(*args: Any, **kwargs: Any) -> Any:
        start_ns = monotonic_ns()
        tensor = get_one(*args, **kwargs)
        safely(loads.took, args[0], find_one(args, kwargs), tensor, start_ns)
        return tensor

    @wraps(get_slice_of)
    def get_slice(*args: Any, **kwargs: Any) -> Any:
        piece = get_slice_of(*args, **kwargs)
        safely(follow_slices, type(piece), loads)
        safely(loads.sliced, args[0], find_slice(args, kwargs), piece)
        return piece

    def get_tensors(self: Any) -> Any:
        start_ns = monotonic_ns()
        tensors = get_all(self)
        safely(loads.took_all, self, tensors, start_ns)
        return tensors

    kind.get_tensor = get_tensor
    kind.get_slice = get_slice
    if get_all is not None:
        kind.get_tensors = wraps(get_all)(get_tensors)


def follow_slices(kind: Any, loads: Loads) -> None:
    """Follow what is taken from slices, from the first one on: their class has no name to go by."""
    take = kind.__getitem__
    if hasattr(take, "__wrapped__"):
        return

    @wraps(take)
    def __getitem__(self: Any, key: Any) -> Any:
        start_ns = monotonic_ns()
        tensor = take(self, key)
        safely(loads.took_part, self, key, tensor, start_ns)
        return tensor

    kind.__getitem__ = __getitem__
