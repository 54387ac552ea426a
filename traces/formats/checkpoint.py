"""Import of checkpoints themselves: what lies where, by their own indexes, never unpickled.

A file at rest tells no requests. The trace has the tensors as one save and one load of them, which
`iotrace replay --layer tensor` replays.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from iotrace.traces.errors import TraceFormatError
from iotrace.traces.formats import dcp_folder, header_file, snapshot_folder, torch_file
from iotrace.traces.formats.piece import Piece
from iotrace.traces.formats.rows import Rows, noted
from iotrace.traces.formats.source import Source
from iotrace.traces.location import one_line
from iotrace.traces.metadata import Metadata, Process
from iotrace.traces.trace import Trace
from iotrace.traces.words import plural

NAME = "checkpoint"
_HEAD_BYTES = 64 << 10
_SHARD_SUFFIX = ".distcp"  # of DCP: archives one behind another
_FILES_LOOKED_AT = 1000  # to guess what a folder holds
_FOLDERS = {dcp_folder.METADATA: dcp_folder, snapshot_folder.METADATA: snapshot_folder}
_WRONG = (ValueError, OSError, OverflowError, RecursionError)


def looks_like(source: Source) -> bool:
    """Return whether a file is a checkpoint, or a folder holds some."""
    if not source.is_folder:
        return source.path.suffix == _SHARD_SUFFIX or _kind(source.path) != ""
    parts = (part for _, part in zip(range(_FILES_LOOKED_AT), parts_of(source.path), strict=False))
    return any(part.is_folder or _kind(part.path) for part in parts)


def read(path: Path) -> Trace:
    """Return the tensors of a checkpoint as saved once and loaded once.

    Raises:
        TraceFormatError: it holds no tensors, or an index is broken.
    """
    if path.suffix == _SHARD_SUFFIX and path.is_file():
        raise TraceFormatError(
            f"{path} is a part of a checkpoint, whose {dcp_folder.METADATA} tells what is in it; "
            f"give the folder {path.parent}"
        )
    found = _Found()
    for part in parts_of(path, _unreadable) if path.is_dir() else [Part(path, False)]:
        try:
            found.add(part)
        except _WRONG as error:
            raise TraceFormatError(
                f"{part.path} is a damaged checkpoint ({one_line(error)}); leave it out"
            ) from error
    return found.finish(path)


@dataclass(frozen=True)
class Part:
    """A file, or a folder that is one checkpoint."""

    path: Path
    is_folder: bool


def parts_of(folder: Path, failed: Callable[[OSError], object] | None = None) -> Iterator[Part]:
    """Yield what a folder holds, in name order; a checkpoint of many files is one part.

    Args:
        failed: is called with the error of each folder that cannot be read.
    """
    for top, folders, files in os.walk(folder, onerror=failed):
        folders.sort()
        kinds = [name for name in _FOLDERS if name in files]
        if kinds:
            yield Part(Path(top), True)
            if kinds == [snapshot_folder.METADATA]:
                folders.clear()  # all of them are the snapshot's
        for name in sorted(files):
            if not kinds or not name.endswith((*_FOLDERS, _SHARD_SUFFIX)):
                yield Part(Path(top, name), False)


def _unreadable(error: OSError) -> NoReturn:
    raise TraceFormatError(f"{error.filename} cannot be read ({error.strerror}); leave it out")


def _kind(path: Path) -> str:
    """Return which format a file has; empty: none that is known."""
    try:
        if not path.is_file():  # to open a pipe is to wait for its writer
            return ""
        if path.suffix == _SHARD_SUFFIX:
            return ""
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
            size = os.fstat(file.fileno()).st_size
    except OSError:
        return ""
    if head.startswith(torch_file.ZIP_MAGIC) and b"data.pkl" in head:
        return "zip"
    if head.startswith(torch_file.LEGACY_MAGIC):
        return "legacy"
    return "header" if header_file.looks_like(head, size) else ""


class _Found:
    """The rows so far, and what they leave out."""

    def __init__(self) -> None:
        self._rows = Rows()
        self._files: dict[str, int] = {}
        self._ranks: dict[int, int] = {}
        self._extents: dict[str, set[tuple[int, int]]] = {}
        self._strangers: list[Path] = []
        self._stranger_bytes = 0
        self._indexes = 0

    def add(self, part: Part) -> None:
        """Add the tensors of a file or a folder."""
        if part.is_folder:
            for name, module in _FOLDERS.items():
                index = part.path / name
                if index.is_file():
                    self._extents[str(index.absolute())] = set()  # it holds no tensor
                    self._indexes += 1
                    for piece in module.pieces(part.path):
                        self._add(module.ENGINE, part.path / piece.path, piece)
            return
        kind = _kind(part.path)
        if not kind:
            self._strangers.append(part.path)
            self._stranger_bytes += part.path.stat().st_size
            return
        with part.path.open("rb") as file:
            if kind == "header":
                engine, pieces = header_file.pieces(file, "")
                refused = header_file.flaw(engine, pieces, part.path.stat().st_size)
                if refused:
                    raise ValueError(refused)
                for piece in pieces:
                    self._add(engine, part.path, piece)
                return
            read = torch_file.zip_pieces if kind == "zip" else torch_file.legacy_pieces
            for piece in read(file, ""):
                self._add("torch.save", part.path, piece)

    def _add(self, engine: str, path: Path, piece: Piece) -> None:
        if piece.flaw:
            raise ValueError(f"{(piece.name or '')[-40:]!r}: {piece.flaw}")
        name = str(path.absolute())
        file = self._files.setdefault(name, len(self._files))
        process = self._ranks.setdefault(piece.rank, len(self._ranks))
        self._extents.setdefault(name, set()).add((piece.offset, piece.length))
        for start_ns, op in enumerate(("save", "load")):
            self._rows.add(
                op,
                start_ns,
                layer="tensor",
                engine=engine,
                rank=piece.rank,
                process=process,
                path=name,
                file=file,
                offset=piece.offset,
                length=piece.length,
                step=0,
                name=piece.name,
                dtype=piece.dtype,
                shape=piece.shape,
                device=piece.device,
                tensor_offset=piece.tensor_offset,
            )

    def finish(self, path: Path) -> Trace:
        """Return the trace."""
        if not len(self._rows):
            raise TraceFormatError(
                f"{path} holds no tensors in a format that is known: torch.save, safetensors, "
                "torch.distributed.checkpoint, TorchSnapshot, DataStates-LLM"
            )
        processes = tuple(Process(0, rank=rank) for rank in self._ranks)
        return self._rows.finish(Metadata(processes=processes, completeness=noted(*self._notes())))

    def _notes(self) -> Iterator[str]:
        yield (
            "made of a checkpoint at rest: one save and one load of its tensors; requests, times "
            "and threads are not known"
        )
        held = total = past = 0
        for name, extents in self._extents.items():
            size = os.path.getsize(name) if os.path.isfile(name) else 0
            total += size
            past += sum(offset + length > size for offset, length in extents)
            held += _union_bytes(extents, size)
        beside = f" ({plural(self._indexes, 'index file')} included)" if self._indexes else ""
        yield f"{total - held:,} of the files' {total:,} bytes belong to no tensor{beside}"
        if past:
            yield f"{plural(past, 'tensor')} beyond the end of a file: it is cut short"
        if self._strangers:
            yield (
                f"{plural(len(self._strangers), 'file')} of no known format left out "
                f"({self._stranger_bytes:,} bytes); the first is {self._strangers[0]}"
            )


def _union_bytes(extents: set[tuple[int, int]], size: int) -> int:
    """Return how many of a file's bytes lie in some extent."""
    held = end = 0
    for offset, length in sorted(extents):
        stop = min(offset + length, size)
        held += max(stop - max(offset, end), 0)
        end = max(end, stop)
    return held
