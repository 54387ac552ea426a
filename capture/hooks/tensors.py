"""What a trace says of a tensor, and which tensors lie in which storage."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from .emit import quote
from .names import Kinds, attributes, walk

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from .emit import Emitter
    from .span import Held

COMPRESSED_PARTS = ("crow_indices", "ccol_indices", "col_indices", "row_indices", "values")
CHANNEL_PARTS = ("q_per_channel_scales", "q_per_channel_zero_points")
NESTED_PARTS = (
    "values",
    "_nested_tensor_size",
    "_nested_tensor_strides",
    "_nested_tensor_storage_offsets",
)


class Inventory:
    """The tensors of a nested object, each as the JSON members that describe it.

    They are kept as text: ten thousand containers more would make the job's
    garbage collector run.

    Attributes:
        meta: Tensors that have no bytes.
    """

    def __init__(self) -> None:
        self.meta: list[str] = []
        self._first: dict[int, str] = {}
        self._others: dict[int, list[str]] = {}

    def add(self, address: int, text: str) -> None:
        """Add a tensor whose storage has this address, as torch.save tells storages apart."""
        if self._first.setdefault(address, text) is not text:
            self._others.setdefault(address, []).append(text)

    def __contains__(self, address: int) -> bool:
        return address in self._first

    def tensors(self, address: int) -> Sequence[str]:
        """Return the tensors in a storage; none if it was not found in the object."""
        first = self._first.get(address)
        return () if first is None else (first, *self._others.get(address, ()))


def take_inventory(root: object, torch: Any) -> Inventory:
    """List the tensors and bare storages in `root`; keeps no reference to them.

    Overrides of torch's functions are off meanwhile: a look at a shape must not
    run the job's code.
    """
    kinds = Kinds(
        leaves=(torch.Tensor, torch.UntypedStorage, torch.TypedStorage),
        modules=(torch.nn.Module,),
        parts=lambda leaf: parts_of(leaf, torch),
    )
    inventory = Inventory()
    with torch._C.DisableTorchFunction(), suppress(RuntimeError):  # a dict changed meanwhile
        for name, leaf in walk(root, kinds):
            try:
                add_leaf(inventory, name, leaf, torch)
            except (AttributeError, NotImplementedError, RuntimeError, TypeError):
                continue  # it has no storage of its own: its parts do
    return inventory


def add_leaf(inventory: Inventory, name: str, leaf: Any, torch: Any) -> None:
    """Add one tensor or storage.

    Raises:
        NotImplementedError, RuntimeError: A tensor without a storage.
        AttributeError, TypeError: Not a tensor after all; sizes that are symbols.
    """
    if not isinstance(leaf, torch.Tensor):
        storage = getattr(leaf, "_untyped_storage", leaf)
        text = describe(name, "uint8", (storage.nbytes(),), storage.device)
        inventory.add(storage._cdata, text)
        return
    device = leaf.device
    dtype = dtype_name(leaf.dtype)
    if device.type == "meta":
        inventory.meta.append(describe(name, dtype, leaf.shape, device))
    storage = leaf.untyped_storage()
    skipped = leaf.storage_offset() * leaf.element_size()
    inventory.add(storage._cdata, describe(name, dtype, leaf.shape, device, -skipped))


def describe(
    name: str | None, dtype: str, shape: Iterable[int], device: object, tensor_offset: int = 0
) -> str:
    """Return what is said of a tensor wherever it lies, as members of a JSON object.

    Args:
        name: Fully qualified, None if unknown.
        dtype: Such as `float32`.
        shape: Elements per dimension.
        device: Such as `cuda:0`.
        tensor_offset: Where in the tensor its storage begins, in bytes: never positive.
    """
    sizes = ",".join(map(int.__repr__, shape))
    return (
        f'"name":{quote(name)},"dtype":"{dtype}","shape":[{sizes}],"device":"{device}",'
        f'"tensor_offset":{tensor_offset}'
    )


def unnamed(length: int, device: object = "cpu") -> Sequence[str]:
    """Return what is said of a storage whose tensor was not found: it has bytes."""
    return (describe(None, "uint8", (length,), device),)


def first_byte(shape: Sequence[int], offsets: Sequence[int], item_bytes: int) -> int:
    """Return where in a tensor a part of it begins, in bytes, rows one after another.

    >>> first_byte((4, 10), (2, 5), 4)
    100
    """
    position = 0
    for size, offset in zip(shape, offsets):
        position = position * size + offset
    return position * item_bytes


def dtype_name(dtype: object) -> str:
    """Return the name of a torch dtype without the module."""
    return str(dtype).rpartition(".")[2]


def parts_of(leaf: Any, torch: Any) -> Iterable[tuple[str, Any]]:
    """Return the tensors that a sparse, nested, quantised or wrapping tensor is saved with."""
    kind = type(leaf)
    if not issubclass(kind, torch.Tensor):
        return ()
    if leaf.layout is torch.strided:
        if leaf.is_nested and kind is torch.Tensor:
            return called(leaf, NESTED_PARTS)
        if leaf.is_quantized:
            return called(leaf, CHANNEL_PARTS)
        if kind is torch.Tensor or kind is torch.nn.Parameter:
            return ()
        return [pair for pair in attributes(leaf) if isinstance(pair[1], torch.Tensor)]
    if leaf.layout is torch.sparse_coo:
        return (("indices", leaf._indices()), ("values", leaf._values()))
    return called(leaf, COMPRESSED_PARTS)


def called(leaf: Any, methods: Iterable[str]) -> Iterable[tuple[str, Any]]:
    """Return what the methods return; those that do not apply to the layout are left out."""
    pairs = []
    for method in methods:
        try:
            pairs.append((method.lstrip("_"), getattr(leaf, method)()))
        except (AttributeError, RuntimeError):
            continue
    return pairs


def emit_rows(
    emitter: Emitter | Held,
    head: str,
    tensors: Iterable[str],
    offset: int | None,
    length: int,
    start_ns: int,
    end_ns: int,
) -> None:
    """Write one row for each tensor of a storage.

    Args:
        emitter: The way into the trace.
        head: What the rows of the span begin with, an open JSON object.
        tensors: What is said of each tensor.
        offset: Where the storage's bytes lie in the file, None if in none.
        length: How many they are.
        start_ns: When they began to be moved.
        end_ns: When they were moved.
    """
    place = f'"offset":{"null" if offset is None else offset},"length":{length}}}'
    for text in tensors:
        emitter.emit(start_ns, end_ns, f"{head},{text},{place}")
