"""When files hold bytes that somebody may still want, and which request takes their last name."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from iotrace.replay.files import empties_of
from iotrace.replay.intervals import running_max
from iotrace.replay.job import DATA_OPS, Op
from iotrace.replay.pieces import Ints, spread
from iotrace.replay.plan import Plan


@dataclass(frozen=True, eq=False)
class Lifetimes:
    """When each group of files is empty, as places in the order of issue.

    Attributes:
        renewals: keys of `key_of`: the first use after everything in the group was dead.
        end: per group, the request after which all of it is removed; -1: some of it stays.
        count: number of requests of the plan.
    """

    renewals: Ints
    end: Ints
    count: int

    @classmethod
    def of(cls, plan: Plan, file: Ints, group: Ints) -> "Lifetimes":
        """Return the lifetimes of groups of files.

        Args:
            plan: whose files they are.
            file: files of the groups, ascending.
            group: the group of each; a file may be in several.
        """
        count = len(plan.requests) + 1
        removed = np.full(len(plan.files), -1)
        gone = last_names(plan)
        removed[list(gone)] = list(gone.values())
        owner, start, end = _live(plan, removed, count)
        first = np.searchsorted(file, owner)
        each = np.searchsorted(file, owner, side="right") - first
        live = np.repeat(np.arange(len(owner)), each)
        owner, start, end = group[spread(first, each)], start[live], end[live]
        order = np.lexsort((start, owner))
        owner, start, end = owner[order], start[order], end[order]
        fresh = np.concatenate([[True], owner[1:] != owner[:-1]])[: len(owner)]
        reach = running_max(end, fresh) if len(end) else end
        apart = np.concatenate([[False], start[1:] > reach[:-1]])[: len(owner)] & ~fresh
        renewals = owner[apart] * (count + 1) + start[apart]
        last = np.full(int(group.max(initial=-1)) + 1, -1)
        np.maximum.at(last, owner, end)
        last[group[removed[file] < 0]] = -1
        return cls(renewals, last, count - 1)

    def era(self, group: Ints, place: Ints) -> Ints:
        """Return a number that is another one after each renewal of a group."""
        return np.searchsorted(self.renewals, group * (self.count + 2) + place, side="right")

    def renewed(self, group: Ints, place: Ints) -> npt.NDArray[np.bool_]:
        """Return whether a group has been renewed at or before a place."""
        first = np.searchsorted(self.renewals, group * (self.count + 2))
        return np.asarray(self.era(group, place) > first)


def _live(plan: Plan, removed: Ints, count: int) -> tuple[Ints, Ints, Ints]:
    """Return file, start and end of the times at which a file holds wanted bytes.

    They last from the first read or write to the last one before the file is emptied; without
    that to its removal, or for good. What was there before the run is wanted from the start.
    """
    rows = plan.requests
    data = np.flatnonzero(np.isin(rows["op"], DATA_OPS) & (rows["length"] > 0))
    data = data[np.argsort(rows["file"][data], kind="stable")]
    file = rows["file"][data].astype(np.int64)
    if not len(data):
        return file, file, file
    empties = np.flatnonzero(empties_of(rows) & (rows["file"] >= 0))
    keys = np.sort(rows["file"][empties].astype(np.int64) * count + empties)
    era = np.searchsorted(keys, file * count + data)
    is_last = era == np.searchsorted(keys, (file + 1) * count)
    begins = np.concatenate([[True], (file[1:] != file[:-1]) | (era[1:] != era[:-1])])
    first = np.flatnonzero(begins)
    last = np.append(first[1:], len(data)) - 1
    start, end = data[first], data[last]
    file, is_last = file[first], is_last[first]
    opens = np.concatenate([[True], file[1:] != file[:-1]])
    start = np.where(opens & (plan.initial_bytes()[file] > 0), -1, start)
    stays = np.where(removed[file] < 0, count, np.maximum(end, removed[file]))
    return file, start, np.where(is_last, stays, end)


def last_names(plan: Plan) -> dict[int, int]:
    """Return, per file that loses its last name, the request that takes it."""
    names: dict[str, int] = {}
    count: dict[int, int] = {}
    gone: dict[int, int] = {}

    def bind(name: str, file: int, place: int) -> None:
        release(name, place)
        names[name] = file
        count[file] = count.get(file, 0) + 1
        gone.pop(file, None)

    def release(name: str, place: int) -> None:
        file = names.pop(name, None)
        if file is not None:
            count[file] -= 1
            if not count[file]:
                gone[file] = place

    rows = plan.requests
    named = np.flatnonzero((rows["path"] >= 0) & (rows["file"] >= 0))
    columns = (named, *(rows[name][named] for name in ("op", "file", "path", "target")))
    for place, op, file, path, target in zip(*(c.tolist() for c in columns), strict=True):
        name = plan.paths[path]
        if op == Op.UNLINK:
            release(name, place)
        elif op in (Op.RENAME, Op.LINK):
            bind(plan.paths[target], file, place)
            if op == Op.RENAME:
                release(name, place)
        elif names.get(name) != file:
            bind(name, file, place)
    return gone
