"""Files of torch.save: zip archives since 1.6, and the legacy stream of pickles before."""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from math import prod
from typing import Any, BinaryIO, NamedTuple

from iotrace.traces.formats.pickled import (
    MAX_OPCODES,
    Global,
    Object,
    Pairs,
    Persistent,
    children,
    parse,
)
from iotrace.traces.formats.piece import ITEM_BYTES, MAX_BYTES, Piece, sizes
from iotrace.traces.schema import MAX_TEXT_BYTES

ZIP_MAGIC = b"PK\x03\x04"
PICKLE = "data.pkl"
STORAGES = "data/"
# The first pickle of the legacy format: one number of ten bytes.
LEGACY_MAGIC = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."
PICKLE_MAX_BYTES = 1 << 29
MAX_TENSORS = 1 << 22  # 400 bytes each until they are rows
_MAX_DEPTH = 10_000  # pickle itself gives up before
_LOCAL_HEADER = struct.Struct("<26xHH")
_COUNT_BYTES = 8  # before each storage of the legacy format
_MODULE_PARTS = ("_parameters", "_buffers", "_modules")
_STORAGE_TYPES = {
    "DoubleStorage": "float64", "FloatStorage": "float32", "HalfStorage": "float16",
    "BFloat16Storage": "bfloat16", "LongStorage": "int64", "IntStorage": "int32",
    "ShortStorage": "int16", "CharStorage": "int8", "ByteStorage": "uint8",
    "BoolStorage": "bool", "ComplexFloatStorage": "complex64",
    "ComplexDoubleStorage": "complex128", "QInt8Storage": "qint8", "QUInt8Storage": "quint8",
    "QInt32Storage": "qint32", "UntypedStorage": "uint8",
}  # fmt: skip


class Stored(NamedTuple):
    """Where a storage lies."""

    offset: int
    length: int


class Named(NamedTuple):
    """A tensor of the pickle.

    Attributes:
        skipped: bytes of its storage before its own.
        needed: bytes that its storage must have: up to the end of its last element.
        unit_bytes: of an element of its storage.
    """

    key: str
    name: str
    dtype: str
    shape: tuple[int, ...]
    device: str
    skipped: int
    needed: int
    unit_bytes: int = 1

    def flaw(self, length: int, there: int) -> str:
        """Return why it cannot be made of its storage; empty: nothing.

        Args:
            length: bytes of the storage, by the pickle.
            there: bytes of the record.
        """
        if there != length:
            return f"its record has {there:,} bytes, the pickle says {length:,}"
        if self.skipped < 0:
            return f"it begins {-self.skipped:,} bytes before its storage"
        if self.needed > length:
            return f"its shape and strides reach to byte {self.needed:,} of a storage of {length:,}"
        return ""


def zip_pieces(file: BinaryIO, path: str, base: int = 0) -> Iterator[Piece]:
    """Yield the tensors of an archive, in the order of their bytes.

    Args:
        file: the archive alone.
        path: of the file that it is in, and its offset there, in bytes.

    Raises:
        ValueError: it is broken, or no archive of torch's.
    """
    storages, pickled = _records(file)
    named: dict[str, list[tuple[Named, int]]] = {}
    for tensor, length in tensors_with_lengths(parse(pickled)):
        if tensor.key not in storages:
            raise ValueError(f"no record of the storage {tensor.key[:40]!r}")
        named.setdefault(tensor.key, []).append((tensor, length))
    for key, stored in sorted(storages.items(), key=lambda item: item[1].offset):
        whole = stored.length
        nameless = [(Named(key, "", "uint8", (whole,), "cpu", 0, whole), whole)]
        for one, length in named.get(key, nameless):
            yield _piece(one, stored, path, base, one.flaw(length, whole))


def _piece(tensor: Named, stored: Stored, path: str, base: int, flaw: str) -> Piece:
    """Return a tensor in its place: the extent is that of its whole storage."""
    name = tensor.name or None
    offset = base + stored.offset
    described = (name, tensor.dtype, tensor.shape, tensor.device, -tensor.skipped)
    return Piece(path, offset, stored.length, *described, flaw=flaw)


def _records(file: BinaryIO) -> tuple[dict[str, Stored], bytes]:
    """Return the storages of an archive by key, and its pickle."""
    try:
        with zipfile.ZipFile(file) as archive:
            storages: dict[str, Stored] = {}
            pickled = None
            for record in archive.infolist():
                name = record.filename.partition("/")[2]
                if name == PICKLE:
                    grows = record.file_size > 16 * record.compress_size + (1 << 20)
                    if grows or record.file_size > PICKLE_MAX_BYTES:
                        raise ValueError(f"a pickle of {record.file_size} bytes")
                    pickled = archive.read(record)
                elif name.startswith(STORAGES):
                    storages[name[len(STORAGES) :]] = _stored(file, record)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, zlib.error) as error:
        raise ValueError("a broken archive") from error
    if pickled is None:
        raise ValueError(f"an archive without {PICKLE}")
    return storages, pickled


def _stored(file: BinaryIO, record: zipfile.ZipInfo) -> Stored:
    file.seek(record.header_offset)
    header = file.read(30)
    if len(header) < 30 or not header.startswith(ZIP_MAGIC):
        raise ValueError("a broken archive")
    name_bytes, extra_bytes = _LOCAL_HEADER.unpack(header)
    return Stored(record.header_offset + 30 + name_bytes + extra_bytes, record.compress_size)


def legacy_pieces(file: BinaryIO, path: str) -> Iterator[Piece]:
    """Yield the tensors of the legacy format, in the order of their bytes.

    Raises:
        ValueError: it is broken.
    """
    for _ in range(3):  # magic number, protocol, the machine's sizes
        parse(file)
    root, keys = parse(file), parse(file)
    named: dict[str, list[Named]] = {}
    lengths: dict[str, int] = {}
    for tensor, length in tensors_with_lengths(root):
        named.setdefault(tensor.key, []).append(tensor)
        lengths[tensor.key] = length
    position = file.tell()
    listed = keys if isinstance(keys, list) else []
    if len(listed) != len(lengths):
        raise ValueError(f"{len(listed):,} storages, {len(lengths):,} of them with tensors")
    for key in listed:
        if not isinstance(key, str) or key not in lengths:
            raise ValueError(f"the storage {str(key)[:40]!r} belongs to no tensor")
        file.seek(position)
        count = file.read(_COUNT_BYTES)
        stored = Stored(position + _COUNT_BYTES, lengths[key])
        for tensor in named[key]:
            # Where the file is cut, the end tells.
            cut = len(count) < _COUNT_BYTES
            there = lengths[key] if cut else int.from_bytes(count, "little") * tensor.unit_bytes
            yield _piece(tensor, stored, path, 0, tensor.flaw(lengths[key], there))
        position = stored.offset + stored.length


def tensors_with_lengths(root: Any) -> Iterator[tuple[Named, int]]:
    """Yield each tensor or bare storage, and the bytes of its storage.

    A container is entered once.

    Raises:
        ValueError: there are more, or deeper down, than any checkpoint has.
    """
    entered: dict[int, Any] = {}  # by id, and so kept alive
    inside: list[tuple[str, Iterator[tuple[object, Any]]]] = [("", iter((("", root),)))]
    visited = tensors = 0
    while inside:
        above, nodes = inside[-1]
        key, node = next(nodes, (None, inside))
        if node is inside:
            inside.pop()
            continue
        visited += 1
        if visited > MAX_OPCODES:
            raise ValueError(f"more than {MAX_OPCODES:,} values in a pickle")
        name = _joined(above, key)
        leaf = _leaf(name, node)
        if leaf is not None:
            tensors += 1
            if tensors > MAX_TENSORS:
                raise ValueError(f"more than {MAX_TENSORS:,} tensors in a pickle")
            yield leaf
        elif isinstance(node, Pairs | list | tuple | Object) and id(node) not in entered:
            entered[id(node)] = node
            if len(inside) > _MAX_DEPTH or len(name) > MAX_TEXT_BYTES:
                raise ValueError("a pickle that is nested too deeply")
            inside.append((name, _parts(node)))


def _joined(name: str, key: object) -> str:
    if key in _MODULE_PARTS:
        key = ""
    return f"{name}.{key}" if name and key != "" else name or str(key)


def _parts(node: Any) -> Iterator[tuple[object, Any]]:
    """Yield what is in a node; what wraps one tensor names it as itself."""
    if isinstance(node, Object) and isinstance(node.maker, Global) and _rebuilds(node.maker):
        arguments = node.arguments if isinstance(node.arguments, tuple) else ()
        if node.maker.name == "_rebuild_from_type_v2" and len(arguments) >= 3:
            yield "", Object(arguments[0], arguments[2])
            yield "", arguments[-1]  # the attributes of a subclass
        elif node.maker.name == "_rebuild_sparse_tensor" and len(arguments) >= 2:
            names = ("indices", "values")
            inner = arguments[1] if isinstance(arguments[1], tuple) else ()
            yield from zip(names, inner, strict=False)
        else:
            for argument in arguments:
                yield "", argument if isinstance(argument, Object | tuple | Pairs) else None
        return
    yield from children(node)


def _rebuilds(maker: Global) -> bool:
    return maker.module.partition(".")[0] == "torch" and maker.name.startswith("_rebuild")


def _leaf(name: str, node: Any) -> tuple[Named, int] | None:
    if isinstance(node, Persistent):
        key, dtype, device, length = _storage(node)
        unit = ITEM_BYTES[dtype]
        return Named(key, name, "uint8", (length,), device, 0, length, unit), length
    if not (isinstance(node, Object) and isinstance(node.maker, Global)):
        return None
    arguments = node.arguments
    if not (_rebuilds(node.maker) and isinstance(arguments, tuple) and len(arguments) >= 4):
        return None
    if not isinstance(arguments[0], Persistent):
        return None
    key, dtype, device, length = _storage(arguments[0])
    unit = ITEM_BYTES[dtype]
    given = arguments[6] if len(arguments) > 6 else None
    if node.maker.name == "_rebuild_tensor_v3" and isinstance(given, Global):
        dtype = given.name
    skipped = arguments[1]
    if type(skipped) is not int:
        raise ValueError("a tensor without an offset")
    shape, strides = (sizes(_plain_tuple(value)) for value in arguments[2:4])
    if len(shape) != len(strides):
        raise ValueError("a tensor whose strides are not those of its shape")
    item = ITEM_BYTES.get(dtype, 1)
    needed = item * _end(skipped, shape, strides)
    return Named(key, name, dtype, shape, device, skipped * item, needed, unit), length


def _end(skipped: int, shape: Sequence[int], strides: Sequence[int]) -> int:
    """Return how many elements a storage must have for a tensor that begins behind `skipped`.

    >>> _end(3, (4, 2), (1, 10))
    17
    """
    elements = prod(shape)
    if elements > MAX_BYTES:  # torch counts them in 63 bits, however few of them are stored
        return elements
    last = sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    return skipped + last + 1 if elements else skipped


def _plain_tuple(value: Any) -> Any:
    """Return what torch.Size is made of."""
    if isinstance(value, Object) and isinstance(value.arguments, tuple) and value.arguments:
        return value.arguments[0]
    return value


def _storage(node: Persistent) -> tuple[str, str, str, int]:
    """Return key, type, device and bytes of a storage."""
    parts = node.key
    if not isinstance(parts, tuple) or len(parts) < 5 or parts[0] != "storage":
        raise ValueError("a storage that is not torch's")
    kind, key, device, count = parts[1:5]
    dtype = _STORAGE_TYPES.get(kind.name, "uint8") if isinstance(kind, Global) else "uint8"
    if type(count) is not int or not 0 <= count * ITEM_BYTES[dtype] <= MAX_BYTES:
        raise ValueError("a storage without a size")
    return str(key), dtype, str(device), count * ITEM_BYTES[dtype]
