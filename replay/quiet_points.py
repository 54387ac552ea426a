"""Where a recording can be cut so that a plan of each part is as that of the whole is there.

What lies on both sides of a cut is only files that were opened, used and closed by one name on
either side, as they are when a job comes back to a log or to a data set. What a plan follows
through time does not cross: an open, a file that is renamed, linked, removed, made anew (O_EXCL) or
known by two names, one that was open before the recording or that a read got less from than asked,
and what a folder holds that is renamed, made again or removed.
"""

import os
from collections.abc import Hashable, Iterator
from itertools import chain

import numpy as np
import numpy.typing as npt

from iotrace.replay.grouping import grouped
from iotrace.replay.instances import BY_HANDLE, OPEN_AT_A_TIME
from iotrace.replay.job import Op, is_op
from iotrace.replay.paths import ancestors, folders_of, rebase
from iotrace.replay.recorded import (
    UNKNOWN,
    Recorded,
    check_moved,
    moved_bytes,
    recorded_requests,
)
from iotrace.replay.uses import NEVER, Uses
from iotrace.traces.errors import PlanError
from iotrace.traces.file_numbers import knowers
from iotrace.traces.intervals import Intervals
from iotrace.traces.open_flags import TMPFILE_BIT, opens_folder
from iotrace.traces.schema import REQUEST_LAYERS
from iotrace.traces.sync_kind import syncs_folder
from iotrace.traces.trace import Trace

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_OPENS_HANDLE = (Op.READ, Op.WRITE, Op.ALLOCATE)  # where it was open before
_QUIET, _DATA = 1, 2  # of a row: a part may begin here, and what it holds can be replayed
_FOR_WRITES, _FOR_READS, _READ, _WRITTEN, _FOLDER = 1, 2, 4, 8, 16  # of a handle
_RENAMING = ("rename", "link", "unlink")


class QuietPoints:
    """Takes in the rows of a recording in order, then tells where it can be cut.

    It keeps a byte per row, and some hundred per file.

    Attributes:
        rows: taken in so far.
        folders: names below the root that names of requests lie below, or that are synced as such.
    """

    def __init__(self) -> None:
        self.rows = 0
        self._last_ns = np.iinfo(np.int64).min
        self._marks: list[npt.NDArray[np.uint8]] = []
        self._spans: list[tuple[int, int]] = []  # first and last row of what must not be cut
        self._names = Uses(replayed=0, moved=0, synced=0)
        self._files = Uses(name=-1)
        self._handles = Uses(opens=0, since=-1, ways=0)
        self._directories: list[tuple[int, int, bool]] = []  # name, row, whether it is removed
        self._renames: list[tuple[int, int]] = []  # both names
        self._layers: set[str] = set()
        self._ranks: set[int] = set()
        self._has_barriers = self._is_disordered = False
        self._moved_bytes = 0.0

    def add(self, rows: Trace) -> None:
        """Take in the rows that follow.

        Raises:
            PlanError: there are numbers no file could have.
        """
        recorded = recorded_requests(rows, self.rows)
        self._moved_bytes += moved_bytes(recorded.requests)
        check_moved(self._moved_bytes)
        chosen = np.flatnonzero(rows.row_mask(layer=REQUEST_LAYERS))
        at = self.rows + np.arange(len(rows))
        name, target = (self._numbered_names(rows, column) for column in ("path", "target"))
        file = self._numbered_files(rows)
        for uses, number in ((self._names, name), (self._names, target), (self._files, file)):
            used = chosen[number[chosen] >= 0]
            uses.use(number[used], at[used])
        self._pair(name[chosen], file[chosen])
        self._tie_renamed(rows, name, target)
        self._mark(rows, recorded)
        self._tie_requests(recorded, name, target, file)
        self._follow_handles(recorded, name)
        self._learn_layers(rows, recorded)
        self.rows += len(rows)

    def cuts(self, least_rows: int) -> list[int]:
        """Return the rows that parts begin with, the first row left out.

        Args:
            least_rows: of a part, but the last.
        """
        if self._is_of_a_piece() or not self.rows:
            return []
        marks = np.concatenate(self._marks)
        self._marks = [marks]
        is_quiet, has_data = marks & _QUIET > 0, marks & _DATA > 0
        first, last = np.array([*self._spans, *self._ties()], np.int64).reshape(-1, 2).T
        whole = Intervals.of(first, last)  # a part may begin with `first`, and behind `last`
        for begin, end in zip(whole.starts.tolist(), whole.ends.tolist(), strict=True):
            is_quiet[begin + 1 : end + 1] = False
        ends = np.flatnonzero(has_data)[-1] if has_data.any() else 0
        found: list[int] = []
        begin = 0
        while begin < ends:
            begin = max(begin + least_rows, begin + int(np.argmax(has_data[begin:])) + 1)
            ahead = is_quiet[begin : ends + 1]
            if not ahead.any():
                break
            begin += int(np.argmax(ahead))
            found.append(begin)
        return found

    @property
    def size_bytes(self) -> int:
        """Memory that this takes, about."""
        uses = (self._names, self._files, self._handles)
        return 3 * self.rows + sum(one.size_bytes for one in uses)

    def _is_of_a_piece(self) -> bool:
        """Return whether something is in the recording that only all of it tells."""
        ways = self._handles["ways"]
        moves_folder = np.any((ways & _FOLDER > 0) & (ways & (_READ | _WRITTEN) > 0))
        several = len(self._ranks) > 1 and self._has_barriers
        keys = zip(self._names.keys(), self._names["moved"].tolist(), strict=True)
        moved = (_below_root(key) for key, is_moved in keys if is_moved)
        moves_folder |= not self.folders.isdisjoint(moved)
        return several or self._is_disordered or len(self._layers) > 1 or bool(moves_folder)

    @property
    def folders(self) -> frozenset[str]:
        """Names below the root that names of requests lie below, or that are synced as such."""
        replayed = self._names["replayed"] > 0
        own = zip(self._names.keys(), replayed.tolist(), strict=True)
        above = folders_of(_below_root(name) for name, is_own in own if is_own)
        return frozenset(above | self._synced)

    @property
    def _synced(self) -> set[str]:
        synced = zip(self._names.keys(), self._names["synced"].tolist(), strict=True)
        return {_below_root(name) for name, is_folder in synced if is_folder}

    def _numbered_names(self, rows: Trace, column: str) -> Ints:
        codes, texts = rows.codes(column)
        used = np.unique(codes[codes >= 0])
        numbers = np.full(len(texts) + 1, -1, np.int64)  # the last: null
        numbers[used] = self._names.numbered([texts[code] for code in used.tolist()])
        return numbers[codes]

    def _numbered_files(self, rows: Trace) -> Ints:
        numbers = np.full(len(rows), -1, np.int64)
        known = np.flatnonzero(rows.valid("file") & (rows.ints("file") >= 0))
        knower = knowers(rows.metadata, rows.ints("process"))[known]
        found, place = np.unique(knower << 32 | rows.ints("file")[known], return_inverse=True)
        numbers[known] = self._files.numbered(found.tolist())[place.ravel()]
        return numbers

    def _pair(self, name: Ints, file: Ints) -> None:
        """Tie files of several names, and these; a name alone leads to one file, as it did."""
        both = np.unique((name << 32 | file)[(name >= 0) & (file >= 0)])
        name, file = both >> 32, both & 0xFFFFFFFF
        before = self._files["name"][file]
        unlike = self._files.differs("name", file, name)
        self._files.tie(file[unlike])
        tied = np.concatenate([name[unlike], before[unlike], self._files["name"][file[unlike]]])
        self._names.tie(tied[tied >= 0])

    def _tie_renamed(self, rows: Trace, name: Ints, target: Ints) -> None:
        renaming = rows.row_mask(layer=REQUEST_LAYERS, op=_RENAMING)
        renaming &= rows.ints("result", null=0) >= 0
        for number in (name, target):
            own = number[renaming]
            self._names.tie(own[own >= 0])
        two = renaming & (name >= 0) & (target >= 0)
        self._renames += zip(name[two].tolist(), target[two].tolist(), strict=True)

    def _mark(self, rows: Trace, recorded: Recorded) -> None:
        """Mark where time goes on, and what surely becomes a request."""
        start_ns = rows.ints("start_ns")
        before = np.concatenate([[self._last_ns], start_ns[:-1]])
        self._is_disordered |= bool((start_ns < before).any())
        marks = np.where(start_ns > before, np.uint8(_QUIET), np.uint8(0))
        moves = is_op(recorded["op"], (Op.READ, Op.WRITE))
        marks[recorded["row"][moves]] |= _DATA
        self._marks.append(marks)
        self._last_ns = int(start_ns[-1]) if len(rows) else self._last_ns

    def _tie_requests(self, recorded: Recorded, name: Ints, target: Ints, file: Ints) -> None:
        """Tie what a plan follows through time by name or number, whatever is open."""
        row, op, flags = (recorded[column] for column in ("row", "op", "flags"))
        name, target, file = name[row], target[row], file[row]
        for number in (name, target):
            self._names["replayed"][number[number >= 0]] = 1
        makes = flags & (os.O_CREAT | os.O_EXCL) == os.O_CREAT | os.O_EXCL
        makes = (op == Op.OPEN) & (flags != UNKNOWN) & (makes | (flags & TMPFILE_BIT != 0))
        tied = makes | ((op == Op.READ) & (recorded["moved"] < recorded["length"]))
        self._names.tie(name[tied & (name >= 0)])
        tied |= is_op(op, BY_HANDLE) & (name < 0)
        self._files.tie(file[tied & (file >= 0)])
        self._names["moved"][name[is_op(op, (Op.READ, Op.WRITE)) & (name >= 0)]] = 1
        of_folder = (op == Op.SYNC) & syncs_folder(flags) & (name >= 0)
        self._names["synced"][name[of_folder]] = 1
        directories = np.flatnonzero(is_op(op, (Op.MKDIR, Op.RMDIR)))
        columns = (name, self.rows + row, op == Op.RMDIR)
        self._directories += zip(*(c[directories].tolist() for c in columns), strict=True)

    def _follow_handles(self, recorded: Recorded, name: Ints) -> None:
        """Find from where to where files are open, in each process."""
        chosen = np.flatnonzero(is_op(recorded["op"], BY_HANDLE))
        row, file = recorded.at("row", chosen), recorded.at("file", chosen)
        unnumbered = recorded.identities(chosen) < 0
        key = np.where(unnumbered, name[row] << 1 | 1, file << 1)
        key = recorded.at("process", chosen) << 33 | key & 0x1FFFFFFFF
        found, place = np.unique(key, return_inverse=True)
        handle = self._handles.numbered(found.tolist())[place.ravel()]
        order = grouped(handle)
        chosen, handle, local = chosen[order], handle[order], row[order]
        self._handles.use(handle, self.rows + local)
        op, flags = recorded.at("op", chosen), recorded.at("flags", chosen)
        opens, closes = op == Op.OPEN, op == Op.CLOSE
        fresh = np.append(True, handle[1:] != handle[:-1])[: len(handle)]
        starts = np.flatnonzero(fresh)
        change = opens.astype(np.int64) - closes
        after = np.cumsum(change)
        size = np.diff(np.append(starts, len(handle)))
        base = after[starts] - change[starts] - self._handles["opens"][handle[starts]]
        after -= np.repeat(base, size)
        before = after - change
        odd = (after < 0) | (after > OPEN_AT_A_TIME) | (is_op(op, _OPENS_HANDLE) & (before <= 0))
        self._handles.tie(handle[odd])
        mode = np.where(opens & (flags != UNKNOWN), flags & os.O_ACCMODE, os.O_RDWR)
        for ways, which in (
            (_FOR_WRITES, opens & (mode == os.O_WRONLY)),
            (_FOR_READS, opens & (mode == os.O_RDONLY)),
            (_FOLDER, opens & (flags != UNKNOWN) & opens_folder(flags)),
            (_READ, op == Op.READ),
            (_WRITTEN, is_op(op, (Op.WRITE, Op.ALLOCATE))),
        ):
            np.bitwise_or.at(self._handles["ways"], handle[which], ways)
        self._handles["opens"][handle[starts]] = after[starts + size - 1].clip(0)
        self._keep_open(handle, local, opens & (before == 0), closes & (after == 0))

    def _keep_open(self, handle: Ints, row: Ints, begins: Mask, ends: Mask) -> None:
        """Mark the rows at which files are open.

        Args:
            handle: of each request, equal ones beside each other.
            row: among the rows that are being taken in.
            begins, ends: which requests open a file that was closed, and close one.
        """
        event = np.flatnonzero(begins | ends)
        handle, row, begins = handle[event], row[event], begins[event]
        since = self._handles["since"]
        follows = np.append(False, handle[1:] == handle[:-1])[: len(handle)]
        opened = np.append(False, begins[:-1])[: len(handle)] & follows & ~begins
        last = np.flatnonzero(opened)
        change = np.zeros(len(self._marks[-1]) + 2, np.int64)
        np.add.at(change, row[last - 1] + 1, 1)
        np.add.at(change, row[last] + 1, -1)
        self._marks[-1][np.cumsum(change)[: len(self._marks[-1])] > 0] &= ~np.uint8(_QUIET)
        carried = np.flatnonzero(~begins & ~follows)
        known = carried[since[handle[carried]] >= 0]
        closed = (self.rows + row[known]).tolist()
        self._spans += zip(since[handle[known]].tolist(), closed, strict=True)
        ends_open = np.append(~follows[1:], True)[: len(handle)]
        since[handle[ends_open]] = np.where(begins, self.rows + row, -1)[ends_open]

    def _learn_layers(self, rows: Trace, recorded: Recorded) -> None:
        self._layers |= {name for name in REQUEST_LAYERS if rows.row_mask(layer=name).any()}
        self._ranks |= {*np.unique(recorded["rank"][recorded["rank"] >= 0]).tolist()}
        self._has_barriers |= bool(rows.row_mask(layer="span", op="barrier").any())

    def _ties(self) -> Iterator[tuple[int, int]]:
        """Yield first and last row of all that must lie in one part."""
        ways = self._handles["ways"]
        unfit = (ways & _FOR_WRITES > 0) & (ways & _READ > 0)
        unfit |= (ways & _FOR_READS > 0) & (ways & _WRITTEN > 0)
        self._handles.tie(np.flatnonzero(unfit))
        left_open = self._handles["since"] >= 0
        yield from zip(
            self._handles["since"][left_open].tolist(),
            self._handles["last"][left_open].tolist(),
            strict=True,
        )
        names = [*map(_below_root, self._names.keys())]
        self._names.tie(np.array(_alike(names), np.int64))
        yield from chain.from_iterable(u.tied() for u in (self._names, self._files, self._handles))
        yield from self._folder_ties(names)

    def _folder_ties(self, names: list[str]) -> Iterator[tuple[int, int]]:
        """Yield what ties folders to what lies in them: renames, and making and removing them.

        A folder in one that is made may have no making of its own: what first uses it has one then.
        """
        wanted = {names[number] for number in chain(*self._renames)}
        listed = {names[number] for number, *_ in self._directories}
        wanted |= listed
        first, last = self._names["first"].tolist(), self._names["last"].tolist()
        within: dict[str, tuple[int, int]] = {}
        for number, name in enumerate(names):
            for above in (*ancestors(name), name) if wanted else ():
                if above in wanted or not wanted.isdisjoint(ancestors(above)):
                    low, high = within.get(above, (NEVER, -1))
                    within[above] = (min(low, first[number]), max(high, last[number]))
        for pair in self._renames:
            bounds = [within[names[number]] for number in pair]
            yield min(low for low, _ in bounds), max(high for _, high in bounds)
        until: dict[str, int] = {}
        for name in (folders_of(names) | self._synced if listed else set()) - listed:
            for above in ancestors(name):
                if above in listed:
                    until[above] = max(until.get(above, -1), within[name][0])
        for number, row, is_removed in self._directories:
            low, high = within[names[number]]
            yield low, max(row, high if is_removed else until.get(names[number], -1))


def _below_root(name: Hashable) -> str:
    """Return a name as a replay has it; one that it has no use for as it is."""
    try:
        return rebase(str(name))
    except PlanError:
        return str(name)


def _alike(names: list[str]) -> list[int]:
    """Return the places of names that occur twice."""
    met: dict[str, int] = {}
    found: list[int] = []
    for place, name in enumerate(names):
        before = met.setdefault(name, place)
        if before != place:
            found += [before, place]
    return found
