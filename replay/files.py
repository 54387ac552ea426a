"""What must be there before a replay, and what will be there after."""

import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from iotrace.replay.bindings import Bindings
from iotrace.replay.grouping import first_of_each, grouped
from iotrace.replay.intervals import running_max
from iotrace.replay.job import Op, is_op
from iotrace.replay.pieces import Ints, Rows
from iotrace.replay.relocation import Relocation
from iotrace.replay.requests import Requests
from iotrace.traces.lazy_rows import LazyRows

Mask = npt.NDArray[np.bool_]

# A part of a file, and which recorded bytes lie there.
EXTENT = np.dtype(
    [("file", "<i4"), ("source", "<i4"), ("offset", "<i8"), ("origin", "<i8"), ("length", "<i8")]
)
# fallocate modes (linux/falloc.h): the size stays as it is with KEEP_SIZE, and bytes read as zeros
# after PUNCH_HOLE and ZERO_RANGE.
KEEP_SIZE, PUNCH_HOLE, ZERO_RANGE = 0x01, 0x02, 0x10
_ZEROING = PUNCH_HOLE | ZERO_RANGE


def by_place(extents: Rows) -> Rows:
    """Return EXTENT rows with their payload numbered by where it lies, see `Plan`."""
    extents = extents.copy()
    payload = extents["source"] >= 0
    extents["source"][payload] = extents["file"][payload]
    extents["origin"][payload] = extents["offset"][payload]
    return extents


@dataclass(frozen=True)
class FileSpec:
    """One file of a plan.

    Attributes:
        path: the first name, relative to the root.
        exists: whether it is there before the run.
        initial_bytes: how many of its recorded bytes must be there before the run, wherever
            they lie by then.
        initial_size_bytes: its size then.
        old_bytes: how many bytes of an older checkpoint lie in it before the run, from its
            beginning, so that its blocks are written over; no payload is like them.
        final_bytes: its size after the run.
        final_path: its name after the run; None: removed.
        written: whether the plan writes to it.
        read: whether the plan reads it.
        changed: whether the plan makes it, or changes its bytes, its size or its name.
    """

    path: str
    exists: bool = False
    initial_bytes: int = 0
    initial_size_bytes: int = 0
    old_bytes: int = 0
    final_bytes: int = 0
    final_path: str | None = None
    written: bool = False
    read: bool = False
    changed: bool = False

    def __str__(self) -> str:
        verbs = [verb for verb, does in (("written", self.written), ("read", self.read)) if does]
        before = f", {self.initial_size_bytes} bytes before the run" if self.exists else ""
        before += f", {self.old_bytes} of them old" if self.old_bytes else ""
        after = f"{self.final_bytes} bytes after it" if self.final_path else "gone after it"
        return f"{self.path}: {' and '.join(verbs)}{before}, {after}"


@dataclass(frozen=True, eq=False)
class Files(LazyRows[FileSpec]):
    """The files of a plan: a column per field of FileSpec, and one FileSpec at a time.

    Attributes:
        paths: what the columns `path` and `final_path` index; -1 there: none.
    """

    paths: Sequence[str]
    path: Ints
    exists: Mask
    initial_bytes: Ints
    initial_size_bytes: Ints
    old_bytes: Ints
    final_bytes: Ints
    final_path: Ints
    written: Mask
    read: Mask
    changed: Mask

    def __len__(self) -> int:
        return len(self.path)

    def count_names(self, chosen: Mask) -> int:
        """Return how many names the chosen files have at the end, or had: as a trace counts them.

        A file that is replaced by another, or made anew, is one with it.
        """
        return len(self._name_numbers(chosen))

    def names(self, chosen: Mask) -> set[str]:
        """Return the names that `count_names` counts; of those without one an empty one."""
        numbers = self._name_numbers(chosen).tolist()
        return {self.paths[number] if number >= 0 else "" for number in numbers}

    def _name_numbers(self, chosen: Mask) -> Ints:
        return np.unique(np.where(self.final_path < 0, self.path, self.final_path)[chosen])

    def row(self, place: int) -> FileSpec:
        """Return one file."""
        first, last = int(self.path[place]), int(self.final_path[place])
        return FileSpec(
            path=self.paths[first] if first >= 0 else "",
            exists=bool(self.exists[place]),
            initial_bytes=int(self.initial_bytes[place]),
            initial_size_bytes=int(self.initial_size_bytes[place]),
            old_bytes=int(self.old_bytes[place]),
            final_bytes=int(self.final_bytes[place]),
            final_path=self.paths[last] if last >= 0 else None,
            written=bool(self.written[place]),
            read=bool(self.read[place]),
            changed=bool(self.changed[place]),
        )


def describe_files(
    requests: Requests,
    paths: Sequence[str],
    initial_bytes: Ints,
    relocation: Relocation,
    previous: Files | None = None,
    old_bytes: Ints | None = None,
) -> Files:
    """Return what is known of each file.

    Args:
        requests: in order of issue.
        paths: names that the requests' `path` and `target` index.
        initial_bytes: per file, recorded bytes that must be there before the run.
        relocation: where recorded extents lie.
        previous: gives the path of a file that no request names.
        old_bytes: per file, see FileSpec; None: as they were previously.
    """
    count = len(initial_bytes)
    path, exists = _beginnings(requests, count)
    if previous is not None:
        unnamed = np.flatnonzero(path[: len(previous)] < 0)
        path[unnamed] = _numbers_in(paths, previous, unnamed)
    written, read = (_files_of(requests, op, count) for op in (Op.WRITE, Op.READ))
    if old_bytes is None:
        old_bytes = np.zeros(count, np.int64)
        if previous is not None:
            old_bytes[: len(previous)] = previous.old_bytes
    old_bytes = np.where(written, old_bytes, 0)
    before = initial_extents(initial_bytes, relocation)
    sizes = old_bytes.copy()
    np.maximum.at(sizes, before["file"], before["offset"] + before["length"])
    names = Bindings.of(requests, paths)
    exists |= sizes > 0
    path, known_paths = _before_moves(requests, path, exists, names.paths)
    changes = resets_of(requests) | is_op(
        requests["op"], (Op.WRITE, Op.ALLOCATE, Op.RENAME, Op.LINK)
    )
    changed = ~exists
    changed[requests["file"][changes & (requests["file"] >= 0)]] = True
    return Files(
        paths=known_paths,
        path=path,
        exists=exists,
        initial_bytes=initial_bytes,
        initial_size_bytes=sizes,
        old_bytes=old_bytes,
        final_bytes=final_sizes(requests, sizes),
        final_path=names.last_paths(count),
        written=written,
        read=read,
        changed=changed,
    )


def _files_of(requests: Requests, op: Op, count: int) -> Mask:
    used = np.zeros(count, np.bool_)
    used[requests["file"][requests["op"] == op]] = True
    return used


def _beginnings(requests: Requests, count: int) -> tuple[Ints, Mask]:
    """Return each file's first name (-1: none), and whether the file is there before the run."""
    named = np.flatnonzero((requests["file"] >= 0) & (requests["path"] >= 0))
    files, first = first_of_each(requests["file"][named])
    rows = requests.take(named[first])
    creates = (rows["op"] == Op.OPEN) & (rows["flags"] & os.O_CREAT != 0)
    path, exists = np.full(count, -1), np.zeros(count, np.bool_)
    path[files], exists[files] = rows["path"], ~creates
    return path, exists


def _numbers_in(paths: Sequence[str], previous: Files, file: Ints) -> Ints:
    """Return the numbers in `paths` of the names that files had; -1: none."""
    if not len(file):
        return file
    numbers = {name: number for number, name in enumerate(paths)}
    names = (previous.paths[one] if one >= 0 else None for one in previous.path[file].tolist())
    return np.array([numbers.get(name, -1) if name else -1 for name in names], np.int64)


def _before_moves(
    requests: Requests, path: Ints, exists: Mask, paths: Sequence[str]
) -> tuple[Ints, Sequence[str]]:
    """Return the names before the run, where a file is first met in a folder that was renamed.

    Such a file was in the folder before, as nobody recorded that it came later.

    Returns:
        The given paths with these in their place, and the names that they index: first the given.
    """
    place = np.flatnonzero((requests["op"] == Op.RENAME) & (requests["file"] < 0))
    if not len(place):
        return path, paths
    columns = (requests.at(name, place).tolist() for name in ("path", "target"))
    moves = [
        (paths[source] + "/", paths[target] + "/") for source, target in zip(*columns, strict=True)
    ]
    files, first = first_of_each(requests["file"])
    numbers = {name: number for number, name in enumerate(paths)}
    path = path.copy()
    for file, before in zip(files.tolist(), np.searchsorted(place, first).tolist(), strict=True):
        if file < 0 or not exists[file] or path[file] < 0:
            continue
        name = paths[path[file]]
        for source, target in reversed(moves[:before]):
            if name.startswith(target):
                name = source + name[len(target) :]
        path[file] = numbers.setdefault(name, len(numbers))
    return path, tuple(numbers)


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
    return extents.take(np.lexsort((extents["offset"], extents["file"])))


def resets_of(requests: Requests) -> npt.NDArray[np.bool_]:
    """Return which requests give their file a size regardless of the one it had."""
    empties = os.O_TRUNC | os.O_EXCL
    opens = (requests["op"] == Op.OPEN) & (requests["flags"] & empties != 0)
    return np.asarray(opens | (requests["op"] == Op.TRUNCATE))


def zeroes_of(requests: Requests | np.void) -> npt.NDArray[np.bool_]:
    """Return which requests make a range of their file read as zeros."""
    return np.asarray((requests["op"] == Op.ALLOCATE) & (requests["flags"] & _ZEROING != 0))


def empties_of(requests: Requests) -> npt.NDArray[np.bool_]:
    """Return which requests leave their file without bytes."""
    return np.asarray(
        resets_of(requests) & ((requests["op"] == Op.OPEN) | (requests["length"] == 0))
    )


def growth_of(requests: Requests) -> npt.NDArray[np.int64]:
    """Return the least size of its file after each request; 0 where it does not matter."""
    allocates = (requests["op"] == Op.ALLOCATE) & (requests["flags"] & KEEP_SIZE == 0)
    extends = ((requests["op"] == Op.WRITE) & (requests["length"] > 0)) | allocates
    truncates = requests["op"] == Op.TRUNCATE
    ends = np.where(extends, requests["offset"] + requests["length"], 0)
    return np.where(truncates, requests["length"], ends)


def sizes_before(requests: Requests, initial_size_bytes: Ints) -> Ints:
    """Return the size of each request's file right before it; 0 where there is no file."""
    order = grouped(requests["file"])
    file = requests["file"][order]
    fresh = np.ones(len(order), np.bool_)
    fresh[1:] = file[1:] != file[:-1]
    resets = resets_of(requests)[order]
    initial = np.append(initial_size_bytes, 0)[file]
    reach = growth_of(requests)[order]
    reach = np.where(fresh & ~resets, np.maximum(reach, initial), reach)
    reach = running_max(reach, fresh | resets)
    sizes = np.empty(len(order), np.int64)
    sizes[order] = np.where(fresh, initial, np.concatenate([[0], reach[:-1]])[: len(order)])
    return np.where(requests["file"] < 0, 0, sizes)


def final_sizes(
    requests: Requests, initial_size_bytes: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
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
