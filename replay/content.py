"""The bytes of the recorded requests: what they carry, and what must be there before."""

import os
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from iotrace.replay.coverage import (
    CUT,
    READ,
    WRITE,
    ZERO,
    Hole,
    Unwritten,
    find_unwritten,
    make_events,
)
from iotrace.replay.files import growth_of, resets_of, zeroes_of
from iotrace.replay.grouping import first_of_each, grouped
from iotrace.replay.job import Op, is_op
from iotrace.replay.pieces import HOLE, PAST_END, Ints, Pieces, Rows
from iotrace.replay.plan import Note
from iotrace.replay.requests import Requests
from iotrace.replay.table import narrow

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Content:
    """Requests, their pieces, and the recorded bytes each file must have before."""

    requests: Requests
    pieces: Pieces
    initial_bytes: Ints
    notes: tuple[Note, ...]


def find_content(requests: Requests, moved: Ints, is_new: Mask, file_count: int) -> Content:
    """Give each data request the bytes it moved when recorded.

    A read that ended at the end of the file asks for as much as it did then, and may be short. A
    transfer that was short for another reason moves what it moved.

    Args:
        requests: in order of issue; their lengths and pieces are found here.
        moved: bytes each moved.
        is_new: opens that are known to make their file.
        file_count: number of files.
    """
    reads = requests["op"] == Op.READ
    short = reads & (moved < requests["length"])
    at_end = _are_at_end(requests, moved, short)
    whole = (reads | (requests["op"] == Op.WRITE)) & ~at_end
    length = np.where(whole, moved, requests["length"])
    requests = requests.having(length=length, may_be_short=at_end)
    del length
    unwritten = find_unwritten(_events(requests, moved, is_new), file_count)
    initial_bytes = np.maximum(unwritten.initial_bytes, _appended_to(requests, file_count))
    requests, pieces = _with_pieces(requests, moved, unwritten)
    early = int((short & ~at_end).sum())
    notes = (Note("reads that got less than asked before the end of the file", early),)
    return Content(requests, pieces, initial_bytes, notes if early else ())


def _are_at_end(requests: Requests, moved: Ints, short: Mask) -> Mask:
    """Return which short reads found the end of their file."""
    at_end = np.zeros(len(requests), np.bool_)
    asked = np.unique(requests["file"][short])
    index = np.flatnonzero(np.isin(requests["file"], asked) & (requests["file"] >= 0))
    index = index[grouped(requests["file"][index])]
    rows = requests.take(index)
    reads, resets, ends = rows["op"] == Op.READ, resets_of(rows), rows["offset"] + moved[index]
    grows = np.where(reads, ends, growth_of(rows))
    for own in np.split(np.arange(len(rows)), np.flatnonzero(np.diff(rows["file"])) + 1):
        sizes = _sizes_before(grows[own], resets[own], reads[own])
        at_end[index[own]] = short[index[own]] & (ends[own] >= sizes)
    return at_end


def _sizes_before(grows: Ints, resets: Mask, reads: Mask) -> Ints:
    """Return the size that is known of a file before each of its requests.

    Reads prove a size too: those until the first change show what was there from the start.
    """
    changes = np.flatnonzero(resets | ((grows > 0) & ~reads))
    until_change = changes[0] if len(changes) else len(grows)
    known = int(grows[:until_change].max(initial=0))
    sizes = np.empty(len(grows), np.int64)
    bounds = np.unique(np.concatenate([[0], np.flatnonzero(resets), [len(grows)]]))
    for first, last in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        reach = np.maximum.accumulate(grows[first:last])
        sizes[first] = known
        if not resets[first]:
            reach = np.maximum(reach, known)
        sizes[first + 1 : last] = reach[:-1]
        known = int(reach[-1])
    return sizes


def _events(requests: Requests, moved: Ints, is_new: Mask) -> Rows:
    """Return what happens to the bytes of the files that are read."""
    kind = np.full(len(requests), -1, np.int8)
    kind[requests["op"] == Op.READ] = READ
    kind[requests["op"] == Op.WRITE] = WRITE
    kind[(kind >= 0) & (moved == 0)] = -1
    kind[resets_of(requests) | is_new] = CUT
    kind[zeroes_of(requests)] = ZERO
    is_read = np.zeros(int(requests["file"].max(initial=-1)) + 2, np.bool_)  # the last: no file
    is_read[requests["file"][kind == READ]] = True
    is_read[-1] = False
    chosen = np.flatnonzero((kind >= 0) & is_read[requests["file"]])
    rows = requests.take(chosen)
    end = rows["offset"] + np.where(rows["op"] == Op.ALLOCATE, rows["length"], moved[chosen])
    end = np.where(rows["op"] == Op.TRUNCATE, rows["length"], end)
    end = np.where(rows["op"] == Op.OPEN, 0, end)
    return make_events(chosen, rows["file"], kind[chosen], rows["offset"], end)


def _appended_to(requests: Requests, file_count: int) -> Ints:
    """Return the size each file must have for its first request to append where it did."""
    appends = np.zeros(max(int(requests["handle"].max(initial=-1)) + 1, 1), np.bool_)
    opens = requests["op"] == Op.OPEN
    appends[requests["handle"][opens]] = requests["flags"][opens] & os.O_APPEND != 0
    sizes = np.zeros(file_count, np.int64)
    if not appends.any():
        return sizes
    matters = (requests["op"] == Op.WRITE) | resets_of(requests)
    matter = np.flatnonzero(matters & (requests["file"] >= 0))
    files, first = first_of_each(requests.at("file", matter))
    rows = requests.take(matter[first])
    appended = (rows["op"] == Op.WRITE) & appends[rows["handle"].clip(0)]
    sizes[files[appended]] = rows["offset"][appended]
    return sizes


def _with_pieces(requests: Requests, moved: Ints, unwritten: Unwritten) -> tuple[Requests, Pieces]:
    """Return the requests with pieces, and these."""
    data = np.flatnonzero(is_op(requests["op"], (Op.READ, Op.WRITE)))
    holed = np.array(sorted({index for index, _, _ in unwritten.holes}), np.int64)
    plain = data[~np.isin(data, holed)] if len(holed) else data
    rest = data[requests.at("length", data) > moved[data]]
    owner = [plain, rest]
    pieces = [
        Pieces.of(
            len(plain),
            file=narrow(requests.at("file", plain)),
            offset=narrow(requests.at("offset", plain)),
            length=moved[plain],
        ),
        Pieces.of(len(rest), file=PAST_END, length=requests.at("length", rest) - moved[rest]),
    ]
    del data
    if len(holed):
        split_owner, split_pieces = _split_at_holes(requests, moved, holed, unwritten.holes)
        owner.insert(1, split_owner)
        pieces.insert(1, split_pieces)
    if len(holed) or len(rest):
        owners, line = _in_order(owner, pieces)
    else:
        owners, line = plain, pieces[0]
    some = line["length"] > 0
    if not some.all():
        owners, line = owners[some], line.compress(some)
    counts = np.bincount(owners, minlength=len(requests))
    first = np.cumsum(counts)
    first -= counts
    first[counts == 0] = 0
    return requests.having(first_piece=first, piece_count=counts), line


def _in_order(owner: list[Ints], pieces: list[Pieces]) -> tuple[Ints, Pieces]:
    """Return all pieces by their requests: of one its bytes, then what lacked; and the requests."""
    owners = np.concatenate(owner)
    order = np.argsort(owners, kind="stable")
    return owners[order], Pieces.joined(*pieces).take(order)


def _split_at_holes(
    requests: Requests, moved: Ints, holed: Ints, holes: tuple[Hole, ...]
) -> tuple[Ints, Pieces]:
    by_request: dict[int, list[tuple[int, int]]] = {index: [] for index in holed.tolist()}
    for index, start, end in holes:
        by_request[index].append((start, end))
    owner: list[int] = []
    rows: list[tuple[int, int, int]] = []
    of_file, offsets = requests["file"], requests["offset"]
    for index, gaps in by_request.items():
        file, at = int(of_file[index]), int(offsets[index])
        end_of_read = at + int(moved[index])
        for start, end in [*gaps, (end_of_read, end_of_read)]:
            rows += [(file, at, start - at), (HOLE, 0, end - start)]
            owner += [index, index]
            at = end
    file, offset, length = np.array(rows, np.int64).T
    return np.array(owner, np.int64), Pieces.of(len(rows), file=file, offset=offset, length=length)
