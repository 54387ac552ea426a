"""Which saves and loads of several processes are one step of the job.

Each process can only count its own. That two of them are parts of one checkpoint shows in what they
are: the same engine, and the same destination, at about the same time.
"""

from __future__ import annotations

import heapq
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple

# Ranks take turns, and start a few seconds apart; further apart they are not one step.
ADJACENT_NS = 60 * 10**9
# Of the groups with one destination only the last can be adjacent, bar some that overlap.
_LOOK_BACK = 64
_NUMBER = re.compile(r"\d+")


class Place(NamedTuple):
    """Where a rank saves to, or loads from; the rank is -1 where it is not known."""

    engine: str | None
    path: str
    rank: int

    def shape(self) -> tuple[str | None, str]:
        """Return what is left without the numbers of the path.

        >>> Place("torch.save", "/out/7/rank0.pt", 0).shape()
        ('torch.save', '/out/#/rank#.pt')
        """
        return self.engine, _NUMBER.sub("#", self.path)


@dataclass(frozen=True)
class Act:
    """One save or load of one source: a process, or a trace that is merged.

    Attributes:
        source: which process or trace.
        kind: `save` or `load`: they are counted apart.
        places: destinations, one unless several ranks are in the source.
        given: its number, if the job itself or its engine gave it one.
    """

    source: int
    kind: str
    places: Set[Place]
    start_ns: int
    end_ns: int
    given: int | None = None


def number_steps(acts: Sequence[Act]) -> list[int]:
    """Return the step of each act.

    Acts of one kind and of different sources are one step if they overlap or are adjacent in time
    and have the same engine and destination: the same path, or names that differ in the number of
    the rank only. The order within each source is kept: the acts of one are different steps, and
    their numbers ascend. Numbers count from 0 in order of first start, and leave out those given.

    >>> first, second = (Place("dcp", f"/out/{n}", -1) for n in range(2))
    >>> alone = Place("torch.save", "/out/rank0.pt", 0)
    >>> number_steps([Act(0, "save", {first}, 0, 2), Act(0, "save", {alone}, 3, 4),
    ...     Act(0, "save", {second}, 5, 7), Act(1, "save", {first}, 1, 2),
    ...     Act(1, "save", {second}, 5, 7)])
    [0, 1, 2, 0, 2]
    """
    numbers = [0] * len(acts)
    for kind in {act.kind for act in acts}:
        rows = [row for row, act in enumerate(acts) if act.kind == kind]
        rows.sort(key=lambda row: (acts[row].start_ns, acts[row].source))
        matching = _Matching(_shared_paths(acts[row] for row in rows))
        groups = [matching.add(acts[row]) for row in rows]
        of_group = _numbers(matching.groups)
        for row, group in zip(rows, groups, strict=True):
            numbers[row] = of_group[group.place]
    return numbers


def _shared_paths(acts: Iterable[Act]) -> set[str]:
    """Return the paths that several sources use: these are matched as they are."""
    users: defaultdict[str, set[int]] = defaultdict(set)
    for act in acts:
        for place in act.places:
            users[place.path].add(act.source)
    return {path for path, sources in users.items() if len(sources) > 1}


@dataclass(eq=False)
class _Group:
    """Acts that are one step; `later` are the groups that follow in some source."""

    place: int
    start_ns: int
    end_ns: int
    given: int | None
    sources: set[int] = field(default_factory=set)
    shapes: dict[tuple[str | None, str], Place] = field(default_factory=dict)
    later: set[_Group] = field(default_factory=set)

    def leads_to(self, other: _Group) -> bool:
        """Return whether another group must come after this one."""
        seen, waiting = {self.place}, [self]
        while waiting:
            group = waiting.pop()
            if group is other:
                return True
            waiting.extend(after for after in group.later if after.place not in seen)
            seen.update(after.place for after in group.later)
        return False


class _Matching:
    """Groups of acts that are added in order of their start."""

    def __init__(self, shared: Set[str]) -> None:
        self.groups: list[_Group] = []
        self._shared = shared
        self._given: dict[int, _Group] = {}
        self._last: dict[int, _Group] = {}
        self._by_path: defaultdict[tuple[str | None, str], list[_Group]] = defaultdict(list)
        self._by_shape: defaultdict[tuple[str | None, str], list[_Group]] = defaultdict(list)

    def add(self, act: Act) -> _Group:
        """Return the group of an act, which is one of it from now on."""
        group = None if act.given is None else self._given.get(act.given)
        group = group or self._best(act)
        if group is None:
            group = _Group(len(self.groups), act.start_ns, act.end_ns, act.given)
            self.groups.append(group)
        if act.given is not None:
            group.given = act.given
            self._given[act.given] = group
        before = self._last.get(act.source)
        if before is not None and before is not group:
            before.later.add(group)
        self._last[act.source] = group
        group.sources.add(act.source)
        group.end_ns = max(group.end_ns, act.end_ns)
        for place in act.places:
            _append(self._by_path[place.engine, place.path], group)
            if place.path not in self._shared:
                shape = place.shape()
                group.shapes.setdefault(shape, place)
                _append(self._by_shape[shape], group)
        return group

    def _best(self, act: Act) -> _Group | None:
        """Return the group an act fits best: the same path first, then the nearest in time."""
        found: list[tuple[tuple[bool, int, int], _Group]] = []
        for place in act.places:
            exact = self._open(self._by_path.get((place.engine, place.path), ()), act)
            found += [(self._rank_of(act, group, True), group) for group in exact]
            if place.path in self._shared:
                continue
            shape = place.shape()
            for group in self._open(self._by_shape.get(shape, ()), act):
                overlaps = act.start_ns <= group.end_ns
                if overlaps or is_named_by_rank(group.shapes[shape], place):
                    found.append((self._rank_of(act, group, False), group))
        for _, group in sorted(found, key=lambda one: one[0]):
            if self._may_join(act, group):
                return group
        return None

    def _open(self, groups: Sequence[_Group], act: Act) -> list[_Group]:
        """Return the groups that are near in time, and have nothing of the act's source yet."""
        return [
            group
            for group in groups[-_LOOK_BACK:]
            if act.source not in group.sources and act.start_ns - group.end_ns <= ADJACENT_NS
        ]

    def _rank_of(self, act: Act, group: _Group, is_exact: bool) -> tuple[bool, int, int]:
        return not is_exact, max(0, act.start_ns - group.end_ns), -group.place

    def _may_join(self, act: Act, group: _Group) -> bool:
        if act.given is not None and group.given is not None:
            return False
        last = self._last.get(act.source)
        return last is None or not group.leads_to(last)


def _append(groups: list[_Group], group: _Group) -> None:
    if not groups or groups[-1] is not group:
        groups.append(group)


def is_named_by_rank(one: Place, other: Place) -> bool:
    """Return whether two paths of one shape differ in numbers that can be those of the ranks.

    Ranks are named by their number, that within their group or node, or from 1 on.

    >>> is_named_by_rank(Place(None, "/7/rank0.pt", 0), Place(None, "/7/rank3.pt", 3))
    True
    >>> is_named_by_rank(Place(None, "/7/rank0.pt", 0), Place(None, "/8/rank3.pt", 3))
    False
    """
    numbers = (map(int, _NUMBER.findall(place.path)) for place in (one, other))
    return all(
        a == b or (a <= one.rank + 1 and b <= other.rank + 1) for a, b in zip(*numbers, strict=True)
    )


def _numbers(groups: Sequence[_Group]) -> Mapping[int, int]:
    """Return the number of each group, by its place: in order of start, as the sources allow."""
    given = {group.given for group in groups}
    free = (number for number in count() if number not in given)
    before = [0] * len(groups)
    for group in groups:
        for after in group.later:
            before[after.place] += 1
    ready = [group.place for group in groups if not before[group.place]]
    numbers: dict[int, int] = {}
    rest = iter(range(len(groups)))
    while len(numbers) < len(groups):
        if not ready:  # numbers that were given can go against the order of a source
            ready.append(next(place for place in rest if place not in numbers))
        group = groups[heapq.heappop(ready)]
        if group.place in numbers:
            continue
        numbers[group.place] = next(free) if group.given is None else group.given
        for after in group.later:
            before[after.place] -= 1
            if not before[after.place]:
                heapq.heappush(ready, after.place)
    return numbers
