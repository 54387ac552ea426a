"""What must be there before a replay, and what will be there after."""

import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from iotrace.replay.job import Op
from iotrace.replay.names import Names
from iotrace.replay.pieces import Rows
from iotrace.replay.relocation import Relocation

# A part of a file, and which recorded bytes lie there.
EXTENT = np.dtype(
    [("file", "<i4"), ("source", "<i4"), ("offset", "<i8"), ("origin", "<i8"), ("length", "<i8")]
)
# fallocate modes (linux/falloc.h): the size stays as it is with KEEP_SIZE.
KEEP_SIZE = 0x01


@dataclass(frozen=True)
class FileSpec:
    """One file of a plan.

    Attributes:
        path: the first name, relative to the root.
        exists: whether it is there before the run.
        initial_bytes: how many of its recorded bytes must be there before the run, wherever
            they lie by then.
        initial_size_bytes: its size then.
        final_bytes: its size after the run.
        final_path: its name after the run; None: removed.
        written: whether the plan writes to it.
        read: whether the plan reads it.
    """

    path: str
    exists: bool = False
    initial_bytes: int = 0
    initial_size_bytes: int = 0
    final_bytes: int = 0
    final_path: str | None = None
    written: bool = False
    read: bool = False

    def __str__(self) -> str:
        verbs = [verb for verb, does in (("written", self.written), ("read", self.read)) if does]
        before = f", {self.initial_size_bytes} bytes before the run" if self.exists else ""
        after = f"{self.final_bytes} bytes after it" if self.final_path else "gone after it"
        return f"{self.path}: {' and '.join(verbs)}{before}, {after}"


def describe_files(
    requests: Rows,
    paths: Sequence[str],
    initial_bytes: npt.NDArray[np.int64],
    relocation: Relocation,
    previous: Sequence[FileSpec] = (),
) -> tuple[FileSpec, ...]:
    """Return the FileSpec of each file.

    Args:
        requests: ROW rows in order of issue.
        paths: names that the requests' `path` and `target` index.
        initial_bytes: per file, recorded bytes that must be there before the run.
        relocation: where recorded extents lie.
        previous: gives the path of a file that no request names.
    """
    count = len(initial_bytes)
    first_path, exists = _beginnings(requests, paths, count)
    final_path = final_names(requests, paths)
    before = initial_extents(initial_bytes, relocation)
    sizes = np.zeros(count, np.int64)
    np.maximum.at(sizes, before["file"], before["offset"] + before["length"])
    exists |= sizes > 0
    finals = final_sizes(requests, sizes)
    written, read = (_files_of(requests, op, count) for op in (Op.WRITE, Op.READ))
    fallback = [spec.path for spec in previous] + [""] * (count - len(previous))
    return tuple(
        FileSpec(
            path=first_path.get(file, fallback[file]),
            exists=bool(exists[file]),
            initial_bytes=int(initial_bytes[file]),
            initial_size_bytes=int(sizes[file]),
            final_bytes=int(finals[file]),
            final_path=final_path.get(file),
            written=bool(written[file]),
            read=bool(read[file]),
        )
        for file in range(count)
    )


def _files_of(requests: Rows, op: Op, count: int) -> npt.NDArray[np.bool_]:
    used = np.zeros(count, np.bool_)
    used[requests["file"][requests["op"] == op]] = True
    return used


def _beginnings(
    requests: Rows, paths: Sequence[str], count: int
) -> tuple[dict[int, str], npt.NDArray[np.bool_]]:
    """Return each file's first name, and whether the file is there before the run."""
    named = requests[(requests["file"] >= 0) & (requests["path"] >= 0)]
    files, first = np.unique(named["file"], return_index=True)
    rows = named[first]
    creates = (rows["op"] == Op.OPEN) & (rows["flags"] & os.O_CREAT != 0)
    exists = np.zeros(count, np.bool_)
    exists[files] = ~creates
    names = [paths[path] for path in rows["path"].tolist()]
    return dict(zip(files.tolist(), names, strict=True)), exists


def initial_extents(initial_bytes: npt.NDArray[np.int64], relocation: Relocation) -> Rows:
    """Return what must lie in the files before the run: EXTENT rows by file and offset.

    Args:
        initial_bytes: per recorded file, how much of it from its beginning.
        relocation: where recorded extents lie.
    """
    source = np.flatnonzero(initial_bytes > 0)
    parts = relocation.split(source, np.zeros(len(source), np.int64), initial_bytes[source])
    extents = np.zeros(len(parts.extent), EXTENT)
    extents["file"], extents["offset"] = parts.to_file, parts.to_offset
    extents["source"], extents["origin"] = source[parts.extent], parts.offset
    extents["length"] = parts.length
    return extents[np.lexsort((extents["offset"], extents["file"]))]


def resets_of(requests: Rows) -> npt.NDArray[np.bool_]:
    """Return which requests give their file a size regardless of the one it had."""
    empties = os.O_TRUNC | os.O_EXCL
    opens = (requests["op"] == Op.OPEN) & (requests["flags"] & empties != 0)
    return np.asarray(opens | (requests["op"] == Op.TRUNCATE))


def empties_of(requests: Rows) -> npt.NDArray[np.bool_]:
    """Return which requests leave their file without bytes."""
    return np.asarray(
        resets_of(requests) & ((requests["op"] == Op.OPEN) | (requests["length"] == 0))
    )


def growth_of(requests: Rows) -> npt.NDArray[np.int64]:
    """Return the least size of its file after each request; 0 where it does not matter."""
    allocates = (requests["op"] == Op.ALLOCATE) & (requests["flags"] & KEEP_SIZE == 0)
    extends = ((requests["op"] == Op.WRITE) & (requests["length"] > 0)) | allocates
    truncates = requests["op"] == Op.TRUNCATE
    ends = np.where(extends, requests["offset"] + requests["length"], 0)
    return np.where(truncates, requests["length"], ends)


def final_sizes(requests: Rows, initial_size_bytes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the size of each file after the run."""
    last_reset = np.full(len(initial_size_bytes), -1)
    resets = np.flatnonzero(resets_of(requests) & (requests["file"] >= 0))
    np.maximum.at(last_reset, requests["file"][resets], resets)
    sizes = np.where(last_reset < 0, initial_size_bytes, 0)
    grows = growth_of(requests)
    counted = np.flatnonzero((grows > 0) & (requests["file"] >= 0))
    counted = counted[counted >= last_reset[requests["file"][counted]]]
    np.maximum.at(sizes, requests["file"][counted], grows[counted])
    return sizes


def final_names(requests: Rows, paths: Sequence[str]) -> dict[int, str]:
    """Return a name each file has after the run."""
    names = Names()
    rows = requests[requests["path"] >= 0]
    columns = (rows[name].tolist() for name in ("op", "file", "path", "target"))
    for op, file, path, target in zip(*columns, strict=True):
        follow(names, op, file, paths[path], paths[target])
    return {file: name for name, file in names.items()}


def follow(names: Names, op: int, file: int, path: str, target: str) -> None:
    """Let `names` be what a request by path leaves; `target` counts for renames and links."""
    if op == Op.RENAME and file < 0:
        names.move_directory(path, target)
    elif op in (Op.RENAME, Op.LINK):
        if op == Op.RENAME:
            names.unbind(path)
        names.bind(target, file)
    elif op == Op.UNLINK:
        names.unbind(path)
    elif file >= 0:
        names.bind(path, file)
