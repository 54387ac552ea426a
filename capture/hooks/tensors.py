"""What a trace says of a tensor, and which tensors lie in which storage."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from .emit import quote
from .names import Kinds, attributes, walk

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from .emit import Emitter

COMPRESSED_PARTS = ("crow_indices", "ccol_indices", "col_indices", "row_indices", "values")
CHANNEL_PARTS = ("q_per_channel_scales", "q_per_channel_zero_points")
NESTED_PARTS = (
    "values",
    "_nested_tensor_size",
    "_nested_tensor_strides",
    "_nested_tensor_storage_offsets",
)


class Entry(NamedTuple):
    """One tensor, without the tensor.

    Attributes:
        text: Its name, dtype, shape and device as JSON members.
        tensor_offset: Where in the tensor its storage begins, in bytes: never positive.
    """

    text: str
    tensor_offset: int


class Inventory(NamedTuple):
    """The tensors of a nested object.

    Attributes:
        by_storage: By the address of the storage's own object, as torch.save tells storages apart.
        meta: Tensors that have no bytes.
    """

    by_storage: dict[int, list[Entry]]
    meta: list[Entry]


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
    inventory = Inventory({}, [])
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
        entry = Entry(entry_text(name, "uint8", (storage.nbytes(),), storage.device), 0)
        inventory.by_storage.setdefault(storage._cdata, []).append(entry)
        return
    device = leaf.device
    text = entry_text(name, dtype_name(leaf.dtype), leaf.shape, device)
    if device.type == "meta":
        inventory.meta.append(Entry(text, 0))
    storage = leaf.untyped_storage()
    entry = Entry(text, -leaf.storage_offset() * leaf.element_size())
    inventory.by_storage.setdefault(storage._cdata, []).append(entry)


def entry_text(name: str | None, dtype: str, shape: Iterable[int], device: object) -> str:
    """Return what identifies a tensor, as members of a JSON object."""
    sizes = ",".join(map(int.__repr__, shape))
    return f'"name":{quote(name)},"dtype":"{dtype}","shape":[{sizes}],"device":"{device}"'


def unnamed(length: int, device: object = "cpu") -> Entry:
    """Return the entry of a storage whose tensor was not found: its bytes."""
    return Entry(entry_text(None, "uint8", (length,), device), 0)


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
    emitter: Emitter,
    head: str,
    entries: Iterable[Entry],
    offset: int | None,
    length: int,
    start_ns: int,
    end_ns: int,
) -> None:
    """Write one row for each tensor of a storage.

    Args:
        emitter: The way into the trace.
        head: What the rows of the span begin with, an open JSON object.
        entries: The tensors.
        offset: Where the storage's bytes lie in the file, None if in none.
        length: How many they are.
        start_ns: When they began to be moved.
        end_ns: When they were moved.
    """
    place = f'"offset":{"null" if offset is None else offset},"length":{length}'
    for text, tensor_offset in entries:
        emitter.emit(start_ns, end_ns, f'{head},{text},{place},"tensor_offset":{tensor_offset}}}')
