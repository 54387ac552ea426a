"""Requests moved to new files: data to its places, and fewer opens, syncs, renames, removals."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from iotrace.replay.durability import is_durable
from iotrace.replay.files import initial_extents
from iotrace.replay.intervals import unions
from iotrace.replay.job import MAX_OFFSET_BYTES, Op
from iotrace.replay.lifetimes import Lifetimes
from iotrace.replay.pieces import (
    HOLE,
    PAST_END,
    STALE,
    Ints,
    Pieces,
    append_pieces,
    pieces_in_place,
    spread,
)
from iotrace.replay.plan import Applied, Plan
from iotrace.replay.relocation import Relocation
from iotrace.replay.requests import Requests
from iotrace.replay.transforms.folder_syncs import are_folder_syncs, folder_syncs
from iotrace.replay.transforms.frame import Frame
from iotrace.replay.transforms.layout import Layout
from iotrace.replay.transforms.naming import without_empty_directories
from iotrace.replay.transforms.regions import Wanted
from iotrace.replay.transforms.reshape import carried_think, in_order, merge, recut
from iotrace.replay.transforms.sessions import HANDLE_FLAGS, Sessions
from iotrace.traces.sync_kind import SyncKind, syncs_file_system

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Move:
    """A plan, what is read and written of the files to be given up, and the files that take it."""

    plan: Plan
    wanted: Wanted
    layout: Layout

    def carry_out(self, applied: Applied) -> Plan:
        """Return the plan on the new files."""
        plan, old = self.plan, self.plan.requests
        moved = self._is_moved()
        data, data_at, pieces, holed = self._data()
        rows, at = in_order((data, data_at), self._ranges(moved), self._syncs(moved))
        del data, data_at  # most of the memory by then, and all of it is in `rows`
        relocation = plan.relocation.compose(self.layout.step).joined()
        frame = self._frame(rows, at, relocation, holed)
        around = (
            (*frame.opens(), -2),
            (*frame.sizes(), -1),
            (*frame.closes(), 1),
            (*frame.unlinks(), 2),
        )
        renames = frame.renames()
        rows, at = frame.uses()
        whole = np.flatnonzero(moved & _is_whole_sync(old))
        apart = old.take(whole, file=-1, handle=-1, path=-1)
        others = np.flatnonzero(~moved)
        lost = old.compress(moved & (old["path"] >= 0))
        folders = folder_syncs(plan, others, lost)
        others = others[~are_folder_syncs(old.take(others))]
        others = others[without_empty_directories(old.take(others), lost, plan.paths)]
        stay, pieces = append_pieces(old.take(others), plan.pieces, pieces)
        kept = ((stay, others), (apart, whole), folders, (rows, at), renames)
        paths = frame.paths
        del rows, at, stay, frame  # what is left has room for the new ones
        requests = merge(*((*part, 0) for part in _with_pauses(old, *kept)), *around)
        requests = _with_handles_numbered(requests)
        none = np.zeros(len(self.layout.names), np.int64)
        return plan.derive(
            applied,
            requests,
            pieces,
            relocation,
            np.concatenate([plan.initial_bytes(), none]),
            paths,
        )

    def _is_moved(self) -> Mask:
        """Return which requests are on files whose bytes go elsewhere."""
        given_up = np.zeros(len(self.plan.files) + 1, np.bool_)
        given_up[self.wanted.file] = True
        return np.asarray(given_up[self.plan.requests["file"]])

    def _frame(self, rows: Requests, at: Ints, relocation: Relocation, holed: Ints) -> Frame:
        plan = self.plan
        lifetimes = Lifetimes.of(plan, *self.layout.of_file)
        old = plan.requests
        opens = old["op"] == Op.OPEN
        flags = np.zeros(plan.handle_count + 1, np.int64)
        flags[old["handle"][opens]] = old["flags"][opens] & HANDLE_FLAGS
        flags = flags[old["handle"][at]]
        process = np.array([stream.process for stream in plan.streams], np.int64)
        target = rows["file"].astype(np.int64) - len(plan.files)
        sessions = Sessions.of(
            rows,
            process[rows["stream"]],
            flags,
            lifetimes.era(target, at),
        )
        before = initial_extents(plan.initial_bytes(), relocation)["file"]
        count = len(self.layout.names)
        there, sized = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
        there[before[before >= len(plan.files)] - len(plan.files)] = True
        sized[holed - len(plan.files)] = True
        return Frame(plan, self.layout, lifetimes, sessions, rows, at, flags, there, sized)

    def _data(self) -> tuple[Requests, Ints, Pieces, Ints]:
        """Return the reads and writes at their new places.

        Returns:
            Requests, the index each had, all pieces of the plan, and the new files of which
            zeros are read.
        """
        plan, wanted = self.plan, self.wanted
        old = plan.requests
        line, owner, place = pieces_in_place(old, plan.pieces, wanted.index)
        inside = (place < wanted.end[owner]) & (place >= wanted.start[owner])
        kept = inside & (line["length"] > 0)
        if not kept.all():
            line, owner, place = line.compress(kept), owner[kept], place[kept]
        stale = self._are_stale(line, wanted.file[owner], place)
        if stale.any():
            line = line.having_at(stale, file=STALE)
        del owner, place, inside, kept
        parts = self.layout.step.joined().split(
            wanted.file, wanted.start, wanted.end - wanted.start
        )
        bounds = np.concatenate([[0], np.cumsum(parts.length)])
        parent = wanted.index[parts.extent]
        rows, pieces = recut(old, line, bounds, parent, parts.to_offset)
        again = np.concatenate([[False], parent[1:] == parent[:-1]])[: len(parent)]
        think_ns = np.where(again, 0, rows["think_ns"])
        rows = rows.having(file=parts.to_file, may_be_short=0, think_ns=think_ns)
        empty = np.isin(pieces["file"], (HOLE, STALE, PAST_END))
        if not empty.any():
            return rows, parent, pieces, np.zeros(0, np.int64)
        first, count = rows["first_piece"], rows["piece_count"].astype(np.int64)
        seen = np.concatenate([[0], np.cumsum(empty)])
        reads = (rows["op"] == Op.READ) & (seen[first + count] > seen[first])
        return rows, parent, pieces, np.unique(rows["file"][reads])

    def _are_stale(self, line: Pieces, file: Ints, place: Ints) -> Mask:
        """Return which pieces read zeros where their file holds bytes at another time."""
        plan = self.plan
        stale = np.zeros(len(line), np.bool_)
        holes = np.flatnonzero(line["file"] == HOLE)
        if not len(holes):
            return stale
        writes = plan.requests.compress(plan.requests["op"] == Op.WRITE)
        columns = []
        for part in (writes, plan.initial_extents()):
            chosen = np.isin(part["file"], file[holes])
            columns.append([part[name][chosen] for name in ("file", "offset", "length")])
        files, offset, length = (
            np.concatenate(column).astype(np.int64) for column in zip(*columns, strict=True)
        )
        files, start, end = unions(files, offset, offset + length)
        filled = Relocation.of(files, start, end - start, files, start)
        known = holes[np.isin(file[holes], files)]
        met = filled.split(file[known], place[known], line["length"][known])
        stale[known[met.extent]] = True
        return stale

    def _ranges(self, moved: Mask) -> tuple[Requests, Ints]:
        """Return the allocations and range syncs, as far as their bytes are used."""
        old = self.plan.requests
        ranged = (old["op"] == Op.ALLOCATE) | (
            (old["op"] == Op.SYNC) & (old["flags"] == SyncKind.RANGE)
        )
        at = np.flatnonzero(moved & ranged)
        rows = old.take(at)
        to_end = (rows["op"] == Op.SYNC) & (rows["length"] == 0)
        length = np.where(to_end, MAX_OFFSET_BYTES, rows["length"])
        parts = self.layout.step.joined().split(rows["file"], rows["offset"], length)
        rows = rows.take(
            parts.extent,
            file=parts.to_file,
            offset=parts.to_offset,
            length=parts.length,
            path=-1,
        )
        return rows, at[parts.extent]

    def _syncs(self, moved: Mask) -> tuple[Requests, Ints]:
        """Return each sync of an old file as one of every new file that has bytes of it."""
        at = np.flatnonzero(moved & is_durable(self.plan.requests))
        file = self.plan.requests["file"][at]
        old, new = self.layout.of_file
        first = np.searchsorted(old, file)
        count = np.searchsorted(old, file, side="right") - first
        at = np.repeat(at, count)
        file = new[spread(first, count)] + len(self.plan.files)
        return self.plan.requests.take(at, file=file, path=-1), at


def _with_pauses(old: Requests, *parts: tuple[Requests, Ints]) -> Iterator[tuple[Requests, Ints]]:
    """Give the first of the requests kept of each old one the pauses of those dropped before it."""
    dropped = np.ones(len(old), np.bool_)
    for _, places in parts:
        dropped[places] = False
    pauses = carried_think(old, dropped)
    for part, places in parts:
        begins = np.concatenate([[True], places[1:] != places[:-1]])[: len(places)]
        at = np.flatnonzero(begins & (pauses[places] > 0))
        yield part.having_at(at, think_ns=part.at("think_ns", at) + pauses[places[at]]), places


def _with_handles_numbered(requests: Requests) -> Requests:
    """Return the requests with their handles numbered anew, without gaps."""
    handle = requests["handle"]
    number = np.zeros(int(handle.max(initial=-1)) + 2, np.int64)
    number[handle] = 1
    number = np.cumsum(number) - 1
    number[-1] = -1  # of no handle
    return requests.having(handle=number[handle])


def _is_whole_sync(rows: Requests) -> Mask:
    return np.asarray((rows["op"] == Op.SYNC) & syncs_file_system(rows["flags"]))
