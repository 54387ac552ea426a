"""When each name means which file, as columns."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from iotrace.replay.job import Op
from iotrace.replay.pieces import Ints
from iotrace.replay.requests import Requests

_RELEASED = -1


@dataclass(frozen=True, eq=False)
class Bindings:
    """Stretches of time in which a name means a file, by file and start.

    Attributes:
        path: index of the name in `paths`.
        file: what it means.
        start: the request that binds it.
        end: the request that takes it away; `count`: it stays.
        paths: the plan's, and after them those that only the rename of a directory gives.
        count: number of requests.
    """

    path: Ints
    file: Ints
    start: Ints
    end: Ints
    paths: Sequence[str]
    count: int

    @classmethod
    def of(cls, requests: Requests, paths: Sequence[str]) -> "Bindings":
        """Return what the names of `paths` mean as `requests` are issued in order."""
        op, count = requests["op"], len(requests)
        named = (requests["path"] >= 0) & ((requests["file"] >= 0) | (op == Op.RENAME))
        moves_many = np.any(named & (requests["file"] < 0))
        place = np.flatnonzero(named)
        columns = [place] + [
            requests[name][place].astype(np.int64) for name in ("op", "file", "path", "target")
        ]
        if moves_many:
            found, paths = _walk(columns, count, paths)
        else:
            found = _changes(columns, count)
        path, file, start, end = found[:, np.lexsort((found[2], found[1]))]
        return cls(path, file, start, end, paths, count)

    def last_paths(self, file_count: int) -> Ints:
        """Return the path that each file has after all requests; -1: none."""
        stays = self.end == self.count
        last = np.full(file_count, -1)
        last[self.file[stays]] = self.path[stays]  # of several, the one bound last
        return last

    def removals(self, file_count: int) -> Ints:
        """Return the request that takes each file's last name; -1: it keeps one, or never had."""
        end = np.full(file_count, -1)
        np.maximum.at(end, self.file, self.end)
        end[end == self.count] = -1
        return end

    def paths_at(self, file: Ints, place: Ints) -> Ints:
        """Return the path of each file right before the request at `place`; -1: none."""
        scale = self.count + 1
        at = np.searchsorted(self.file * scale + self.start, file * scale + place) - 1
        found = np.full(len(file), -1)
        asked = np.arange(len(file))
        while len(asked):
            own = at[asked] >= 0
            own &= np.append(self.file, -1)[at[asked]] == file[asked]
            asked = asked[own]
            lasts = self.end[at[asked]] >= place[asked]
            found[asked[lasts]] = self.path[at[asked[lasts]]]
            asked = asked[~lasts]
            at[asked] -= 1
        return found


def _changes(columns: list[Ints], count: int) -> Ints:
    """Return paths, files, starts and ends where every change names the file that it is about."""
    place, op, file, path, target = columns
    takes = (op == Op.RENAME) | (op == Op.UNLINK)
    gives = (op == Op.RENAME) | (op == Op.LINK)
    plain = ~takes & ~gives
    # Of a file renamed to the name it has, the name is taken first.
    when = np.concatenate([2 * place[takes], 2 * place[gives] + 1, 2 * place[plain] + 1])
    name = np.concatenate([path[takes], target[gives], path[plain]])
    meant = np.concatenate([np.full(int(takes.sum()), _RELEASED), file[gives], file[plain]])
    order = np.lexsort((when, name))
    when, name, meant = when[order], name[order], meant[order]
    news = np.ones(len(name), np.bool_)
    news[1:] = (name[1:] != name[:-1]) | (meant[1:] != meant[:-1])
    when, name, meant = when[news], name[news], meant[news]
    goes_on = np.append(name[1:] == name[:-1], False)[: len(name)]
    end = np.where(goes_on, np.append(when[1:], 0)[: len(name)] // 2, count)
    real = meant != _RELEASED
    return np.stack([name, meant, when // 2, end])[:, real]


def _walk(columns: list[Ints], count: int, paths: Sequence[str]) -> tuple[Ints, Sequence[str]]:
    """Return the same where directories are renamed, and the paths that there are then."""
    numbers = {name: number for number, name in enumerate(paths)}
    bound: dict[str, tuple[int, int]] = {}
    found: list[tuple[int, int, int, int]] = []

    def release(name: str, now: int) -> None:
        if name in bound:
            number = numbers.setdefault(name, len(numbers))
            found.append((number, *bound.pop(name), now))

    def bind(name: str, meant: int, now: int) -> None:
        if bound.get(name, (_RELEASED, 0))[0] != meant:
            release(name, now)
            bound[name] = (meant, now)

    for now, what, meant, one, other in zip(*(c.tolist() for c in columns), strict=True):
        name = paths[one]
        if meant < 0:
            below = name + "/"
            for moved in [inside for inside in bound if inside.startswith(below)]:
                holder = bound[moved][0]
                release(moved, now)
                bind(paths[other] + moved[len(name) :], holder, now)
            continue
        if what in (Op.RENAME, Op.UNLINK):
            release(name, now)
        if what in (Op.RENAME, Op.LINK):
            bind(paths[other], meant, now)
        elif what != Op.UNLINK:
            bind(name, meant, now)
    for name in list(bound):
        release(name, count)
    return np.array(found, np.int64).reshape(-1, 4).T, tuple(numbers)
