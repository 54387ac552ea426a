"""The parts of tensors that a TorchSnapshot request moves, and their places in files."""

from __future__ import annotations

import io
import struct
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from .tensors import describe, dtype_name, emit_rows, first_byte
from .zip_layout import LOCAL_HEADER_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from .span import Span
    from .spans import Spans

ENGINE = "torchsnapshot"
RAW = "buffer_protocol"  # of a tensor whose bytes are in the file as they are
STORAGE_FOLDER = "data"
NAME_LENGTHS = struct.Struct("<26xHH")  # of a zip's local header: of the name, of the extra field


class Part(NamedTuple):
    """A tensor, or a part of one, in a file.

    Attributes:
        text: What is said of it, as members of a JSON object; None for an object that
            is not a tensor.
        name: Fully qualified.
        is_raw: Whether its bytes are in the file as they are, not in an archive.
        first: Where it begins in the file, in bytes.
        last: Where it ends; None for the end of the file.
    """

    text: str | None
    name: str
    is_raw: bool
    first: int
    last: int | None


def dotted(path: str) -> str:
    """Return a path in the state as the name that other engines give a tensor.

    >>> dotted("model/layer.0.weight")
    'model.layer.0.weight'
    """
    return path.replace("/", ".").replace("%2F", "/").replace("%25", "%")


def part_of(
    name: str,
    entry: Any,
    shape: Sequence[int],
    offsets: Sequence[int],
    device: object,
    byte_range: Sequence[int] | None,
) -> Part:
    """Return a part of a tensor.

    Args:
        name: Fully qualified.
        entry: What the manifest says of the part.
        shape: Of the whole tensor.
        offsets: Where in it the part begins, per dimension.
        device: Of the tensor in the job.
        byte_range: What is moved of the file; None for all of it.
    """
    dtype = dtype_name(entry.dtype)
    torch: Any = sys.modules["torch"]
    skipped = first_byte(shape, offsets, torch._utils._element_size(getattr(torch, dtype)))
    if byte_range is not None and entry.serializer == RAW:
        skipped += byte_range[0] - (entry.byte_range or (0,))[0]  # a part read bit by bit
    text = describe(name, dtype, shape, device, skipped)
    first, last = byte_range or (0, None)
    return Part(text, name, entry.serializer == RAW, first, last)


def pieces(entry: Any) -> list[tuple[Any, Sequence[int]]]:
    """Return the entries of a tensor's parts, and where in it each begins, per dimension."""
    shards = getattr(entry, "shards", None) or getattr(entry, "chunks", None)
    if shards is None:
        return [(entry, ())]
    return [(shard.tensor, shard.offsets) for shard in shards]


def emit_part(
    spans: Spans, span: Span, path: str, part: Part, moved: Any, start_ns: int, end_ns: int
) -> None:
    """Write the rows of a part that was moved.

    Args:
        spans: The way into the trace.
        span: The save or load.
        path: The file.
        part: What was moved.
        moved: The bytes of the file that were moved with it; the file's first is theirs
            unless the part lies raw in it.
        start_ns: When moving them began.
        end_ns: When they were moved.
    """
    last = len(moved) if part.last is None else part.last
    extents = [(part.first, last - part.first)]
    text = part.text
    if text is None:
        text = describe(part.name, "uint8", (last - part.first,), "cpu")
    elif not part.is_raw:
        extents = list(stored_extents(moved))
    head = span.row_head("tensor", path=path)
    for offset, length in extents:
        emit_rows(spans.emitter, head, (text,), offset, length, start_ns, end_ns)


def stored_extents(archive: Any) -> Iterator[tuple[int, int]]:
    """Yield offset and length of each storage in an archive of torch.save's.

    It is in memory, where its own directory tells; nothing is read from a file.
    """
    import zipfile  # few snapshots have such tensors: quantised and complex ones

    with suppress(zipfile.BadZipFile), zipfile.ZipFile(io.BytesIO(archive)) as opened:
        for record in opened.infolist():
            if record.filename.split("/")[1:2] == [STORAGE_FOLDER]:
                header = record.header_offset
                skipped = sum(NAME_LENGTHS.unpack_from(archive, header))
                yield header + LOCAL_HEADER_BYTES + skipped, record.file_size
