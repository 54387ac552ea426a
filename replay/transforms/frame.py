"""What stands around the reads and writes of new files: opens, closes, names, removals."""

import os
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from iotrace.replay.durability import is_durable
from iotrace.replay.job import Op
from iotrace.replay.lifetimes import Lifetimes
from iotrace.replay.pieces import Ints
from iotrace.replay.plan import Plan
from iotrace.replay.requests import Requests
from iotrace.replay.transforms.layout import Layout
from iotrace.replay.transforms.naming import NewNames
from iotrace.replay.transforms.sessions import Sessions
from iotrace.traces.sync_kind import SyncKind

Mask = npt.NDArray[np.bool_]

_MODE = 0o644


@dataclass(frozen=True, eq=False)
class Frame:
    """The requests on new files, and those that must be added to them.

    Attributes:
        plan: of the old files.
        layout: of the new ones.
        lifetimes: when these are empty.
        sessions: of `rows`.
        rows: reads, writes, allocations and all syncs, in order of issue.
        at: per row, the index of the request it comes from.
        flags: per row, HANDLE_FLAGS of the open it went through.
        is_there: which new files hold something before the run.
        holed: which new files are read where nothing was written.
    """

    plan: Plan
    layout: Layout
    lifetimes: Lifetimes
    sessions: Sessions
    rows: Requests
    at: Ints
    flags: Ints
    is_there: Mask
    holed: Mask

    def uses(self) -> tuple[Requests, Ints]:
        """Return what is done through the new handles: of the syncs, each session's last."""
        rows = self.rows.having(handle=self.plan.handle_count + self.sessions.of_row)
        durable = is_durable(rows)
        last = self.sessions.last_of(durable)
        full = durable & (rows["flags"] == SyncKind.FSYNC)
        becomes_full = last[self.sessions.any_of(full)[self.sessions.of_row[last]]]
        rows = rows.having_at(becomes_full, flags=SyncKind.FSYNC)
        keep = ~durable
        keep[last] = True
        if keep.all():
            return rows, self.at
        return rows.compress(keep), self.at[keep]

    def opens(self) -> tuple[Requests, Ints]:
        """Return the open of each session, and where it stands."""
        reads = self.sessions.any_of(self.rows["op"] == Op.READ)
        writes = self.sessions.any_of(self.rows["op"] != Op.READ) | self._makes
        access = np.where(writes, np.where(reads, os.O_RDWR, os.O_WRONLY), os.O_RDONLY)
        first, at = self._first
        flags = (
            access
            | np.where(writes, os.O_CREAT, 0)
            | np.where(self._renews, os.O_TRUNC, 0)
            | self.flags[self.sessions.first]
        )
        temporary, final = self._names
        is_committed = at > self._commits[self._new]
        path = np.where(is_committed, final[self._new], temporary[self._new])
        mode = np.where(writes, _MODE, 0)
        return self._framed(first, op=Op.OPEN, flags=flags, mode=mode, path=path), at

    def sizes(self) -> tuple[Requests, Ints]:
        """Return what gives files with holes their size, and where it stands."""
        first, at = self._first
        rows = self._framed(first, op=Op.TRUNCATE, length=self.layout.size_bytes[self._new])
        return rows.compress(self._is_sized), at[self._is_sized]

    def closes(self) -> tuple[Requests, Ints]:
        """Return the close of each session, and where it stands."""
        last = self.sessions.last
        return self._framed(self.rows.take(last), op=Op.CLOSE), self.at[last]

    def renames(self) -> tuple[Requests, Ints]:
        """Return what commits the new files: the last of the renames that did the old ones."""
        new = np.flatnonzero(self._commits >= 0)
        new = new[np.argsort(self._commits[new], kind="stable")]
        at = self._commits[new]
        temporary, final = self._names
        file = len(self.plan.files) + new
        return self.plan.requests.take(at, file=file, path=temporary[new], target=final[new]), at

    def unlinks(self) -> tuple[Requests, Ints]:
        """Return what removes the new files, and where it stands."""
        new = np.flatnonzero(self.lifetimes.end >= 0)
        at = self.lifetimes.end[new]
        return self.plan.requests.take(at).beside(
            op=Op.UNLINK, file=len(self.plan.files) + new, handle=-1, path=self._names[1][new]
        ), at

    @cached_property
    def paths(self) -> tuple[str, ...]:
        """Names, the new ones included."""
        return self._naming[0]

    @property
    def _names(self) -> tuple[Ints, Ints]:
        """Per new file, its name before and after it is committed."""
        return self._naming[1:]

    @cached_property
    def _naming(self) -> tuple[tuple[str, ...], Ints, Ints]:
        names = NewNames(self.plan.paths)
        final = np.array([names.add(name) for name in self.layout.names], np.int64)
        temporary = final.copy()
        for new in np.flatnonzero(self._commits >= 0).tolist():
            temporary[new] = names.add(self.layout.names[new] + ".tmp")
        return tuple(names.paths), temporary, final

    @cached_property
    def _commits(self) -> Ints:
        """Per new file, the last among the first renames of the old files in it, or -1."""
        old = self.plan.requests
        renames = np.flatnonzero((old["op"] == Op.RENAME) & (old["file"] >= 0))
        files, first = np.unique(old["file"][renames], return_index=True)
        of_file = np.full(len(self.plan.files), -1)
        of_file[files] = renames[first]
        commits = np.full(len(self.layout.names), -1)
        member, new = self.layout.of_file
        np.maximum.at(commits, new, of_file[member])
        return commits

    @cached_property
    def _first(self) -> tuple[Requests, Ints]:
        return self.rows.take(self.sessions.first), self.at[self.sessions.first]

    @cached_property
    def _new(self) -> Ints:
        """Per session, its file."""
        return self._first[0]["file"].astype(np.int64) - len(self.plan.files)

    @cached_property
    def _begins(self) -> Mask:
        """Which sessions are the first on their file, or since it was emptied."""
        era = self.lifetimes.era(self._new, self._first[1])
        order = np.lexsort((self.sessions.first, era, self._new))
        begins = np.ones(len(order), np.bool_)
        begins[order[1:]] = (self._new[order][1:] != self._new[order][:-1]) | (
            era[order][1:] != era[order][:-1]
        )
        return begins

    @cached_property
    def _renews(self) -> Mask:
        return self._begins & self.lifetimes.renewed(self._new, self._first[1])

    @cached_property
    def _is_sized(self) -> Mask:
        return np.asarray(self._begins & self.holed[self._new])

    @cached_property
    def _makes(self) -> Mask:
        """Which sessions must be able to write, whatever they do."""
        makes = self._begins & ~self.is_there[self._new]
        return np.asarray(makes | self._renews | self._is_sized)

    def _framed(self, source: Requests, **columns: npt.ArrayLike) -> Requests:
        """Return a request per session beside `source`."""
        return source.beside(handle=self.plan.handle_count + np.arange(len(source)), **columns)
