"""When files hold bytes that somebody may still want."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from iotrace.replay.bindings import Bindings
from iotrace.replay.files import empties_of
from iotrace.replay.grouping import grouped
from iotrace.replay.intervals import running_max
from iotrace.replay.job import DATA_OPS, is_op
from iotrace.replay.pieces import Ints, Rows, spread
from iotrace.replay.plan import Plan


@dataclass(frozen=True, eq=False)
class Lifetimes:
    """When each group of files is empty, as places in the order of issue.

    Attributes:
        renewals: the first uses after all bytes of a group were dead, as `group * (count + 2)`
            plus place, ascending.
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
        count = len(plan.requests)
        removed = Bindings.of(plan.requests, plan.paths).removals(len(plan.files))
        lives = _lives(plan, removed)
        first = np.searchsorted(file, lives["file"])
        each = np.searchsorted(file, lives["file"], side="right") - first
        owner = group[spread(first, each)]
        lives = np.repeat(lives, each)
        end = np.full(int(group.max(initial=-1)) + 1, -1)
        np.maximum.at(end, owner, lives["last"])
        end[group[removed[file] < 0]] = -1
        return cls(_renewals(owner, lives, count + 2), end, count)

    def era(self, group: Ints, place: Ints) -> Ints:
        """Return a number that is another one after each renewal of a group."""
        return np.searchsorted(self.renewals, group * (self.count + 2) + place, side="right")

    def renewed(self, group: Ints, place: Ints) -> npt.NDArray[np.bool_]:
        """Return whether a group has been renewed at or before a place."""
        first = np.searchsorted(self.renewals, group * (self.count + 2))
        return np.asarray(self.era(group, place) > first)


_LIFE = np.dtype([("file", "<i8"), ("start", "<i8"), ("last", "<i8"), ("end", "<i8")])


def _lives(plan: Plan, removed: Ints) -> Rows:
    """Return the times at which the files hold bytes.

    They begin with the first read or write after the file was empty; what was there before the
    run, at -1. The last use is the last read or write before the file is emptied; else its
    removal or, of a file that stays, behind all requests. They end where it is emptied or removed.
    """
    rows, count = plan.requests, len(plan.requests)
    data = np.flatnonzero(is_op(rows["op"], DATA_OPS) & (rows["length"] > 0))
    data = data[grouped(rows["file"][data])]
    file = rows["file"][data].astype(np.int64)
    empties = np.flatnonzero(empties_of(rows) & (rows["file"] >= 0))
    keys = np.sort(rows["file"][empties].astype(np.int64) * (count + 1) + empties)
    era = np.searchsorted(keys, file * (count + 1) + data)
    begins = np.ones(len(data), np.bool_)
    begins[1:] = (file[1:] != file[:-1]) | (era[1:] != era[:-1])
    ends = np.append(begins[1:], True)[: len(data)]
    lives = np.zeros(int(begins.sum()), _LIFE)
    lives["file"], lives["start"], lives["last"] = file[begins], data[begins], data[ends]
    following = np.append(keys, np.iinfo(np.int64).max)[era[begins]]
    is_emptied = following < (lives["file"] + 1) * (count + 1)
    kept_until = np.where(
        removed[lives["file"]] < 0, count, np.maximum(lives["last"], removed[lives["file"]])
    )
    lives["end"] = np.where(is_emptied, following % (count + 1), kept_until)
    lives["last"] = np.where(is_emptied, lives["last"], kept_until)
    is_first = np.ones(len(lives), np.bool_)
    is_first[1:] = lives["file"][1:] != lives["file"][:-1]
    lives["start"][is_first & (plan.initial_bytes()[lives["file"]] > 0)] = -1
    return lives


def _renewals(owner: Ints, lives: Rows, scale: int) -> Ints:
    """Return when each group begins anew.

    That is where one of its files is emptied that has been written since the group last began,
    at a time when nobody wants the bytes of the others any more.
    """
    order = np.lexsort((lives["start"], owner))
    owner, lives = owner[order], lives[order]
    fresh = np.ones(len(owner), np.bool_)
    fresh[1:] = owner[1:] != owner[:-1]
    reach = running_max(lives["last"], fresh)
    gaps = np.flatnonzero(~fresh[1:] & (lives["start"][1:] > reach[:-1])) + 1
    if not len(gaps):
        return np.zeros(0, np.int64)
    until = owner[gaps] * scale + lives["start"][gaps]
    since = owner[gaps] * scale + reach[gaps - 1]
    found: list[int] = []
    in_time = np.argsort(owner * scale + lives["end"], kind="stable")
    ends = owner[in_time] * scale + lives["end"][in_time]
    begins = owner[in_time] * scale + lives["start"][in_time]
    gap = np.searchsorted(until, ends)
    inside = (gap < len(until)) & (np.append(since, 0)[gap] <= ends)
    inside &= np.append(owner[gaps], -1)[gap] == owner[in_time]
    last = -1
    columns = (until[gap[inside]], begins[inside], owner[in_time][inside] * scale)
    for place, begin, base in zip(*(column.tolist() for column in columns), strict=True):
        if last < base or begin >= last:
            found.append(place)
            last = place
    return np.array(found, np.int64)
