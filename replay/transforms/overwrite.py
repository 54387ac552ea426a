"""Write a checkpoint over the blocks of an older one."""

import os
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from iotrace.replay.bindings import Bindings
from iotrace.replay.files import KEEP_SIZE, growth_of, resets_of
from iotrace.replay.grouping import first_of_each, grouped
from iotrace.replay.intervals import running_max
from iotrace.replay.job import Op, is_op
from iotrace.replay.paths import ancestors
from iotrace.replay.pieces import HOLE, STALE, Ints, Pieces, spread
from iotrace.replay.plan import Applied, Note, Plan
from iotrace.replay.requests import Requests
from iotrace.replay.transforms.reshape import carried_think, merge

Mask = npt.NDArray[np.bool_]

_MAKING = os.O_CREAT | os.O_EXCL | os.O_TRUNC | os.O_APPEND


@dataclass(frozen=True)
class Overwrite:
    """Let the files that are made or emptied be there before, with blocks that are written.

    This is what engines do that keep slots and write into the one before last: the file system
    has no blocks to find, to mark as written and to give back. An interrupted save leaves a file
    of new and old bytes, which is why it takes two slots, and why a slot is named the valid one
    only when it is durable.

    Each file is there with the largest size it ever has, and is never longer; opens do not make,
    empty or append to it, and what would give it blocks is left out. It is cut where all that
    follows needs less. Between what is written there are old bytes, not zeros: reads move them
    and do not look at them. Renames stay: a file that is written under another name and then
    renamed is written over old blocks there. Left as they are: files with holes punched, and those
    whose name or folder is another's at first.

    >>> from iotrace.replay.sketch import listing, sketch
    >>> plan = sketch('''
    ... mkdir d
    ... open d/a w+create+excl
    ... allocate d/a 0 14
    ... write d/a 0 9
    ... write d/a 9 5
    ... close d/a
    ... open d/a w+trunc
    ... write d/a 0 7
    ... close d/a''')
    >>> print(listing(Overwrite()(plan)))
    open d/a w
    write d/a 0 9
    write d/a 9 5
    close d/a
    open d/a w
    truncate d/a 7
    write d/a 0 7
    close d/a
    """

    def __call__(self, plan: Plan) -> Plan:
        """Return the plan with old files in the place of new ones."""
        plan.require_buffered("overwrite")
        sizes = _Sizes.of(plan)
        folders = _Folders.of(plan)
        chosen, notes = _chosen(plan, sizes.is_remade, folders)
        requests = plan.requests
        own = np.append(chosen, False)[requests["file"]]
        opens = own & (requests["op"] == Op.OPEN)
        cuts = np.flatnonzero(own & (sizes.after < sizes.before))
        truncates = own & (requests["op"] == Op.TRUNCATE)
        requests = requests.without_flags(opens, _MAKING).having_at(opens, mode=0)
        requests = requests.having_at(truncates, length=sizes.after[truncates])
        dropped = own & (requests["op"] == Op.ALLOCATE)
        if dropped.any():
            what = "allocations left out, as the blocks are there"
            notes = (*notes, Note(what, int(dropped.sum())))
        dropped |= truncates & (sizes.after == sizes.before)
        names = (plan.files.paths[one] for one in plan.files.path[chosen].tolist())
        dropped[folders.makings(names)] = True
        think_ns = requests["think_ns"] + carried_think(requests, dropped)
        requests = requests.having(think_ns=think_ns)
        kept = np.flatnonzero(~dropped)
        cuts = cuts[requests["op"][cuts] == Op.OPEN]
        merged = merge(
            (requests.take(kept), kept, 0), (_truncates(requests, cuts, sizes.after), cuts, 1)
        )
        old_bytes = np.where(chosen, sizes.first, plan.files.old_bytes)
        pieces = _without_zeros(plan, requests, own)
        return plan.derive(Applied("overwrite", (), notes), merged, pieces, old_bytes=old_bytes)


@dataclass(frozen=True, eq=False)
class _Sizes:
    """How long files have to be that are never lengthened.

    Attributes:
        before: per request, the most bytes its file needs from here on; 0: it has no file.
        after: the same from the next request on. They differ where a request empties or cuts.
        first: per file, before all of them.
        is_remade: per file, whether it is made, emptied or sized by the job.
    """

    before: Ints
    after: Ints
    first: Ints
    is_remade: Mask

    @classmethod
    def of(cls, plan: Plan) -> "_Sizes":
        rows, there = plan.requests, plan.files.initial_size_bytes
        order = grouped(rows["file"])
        order = order[rows["file"][order] >= 0]
        file = rows["file"][order]
        begins = np.ones(len(order), np.bool_)
        begins[1:] = file[1:] != file[:-1]
        resets = resets_of(rows)[order]
        reach = np.where(begins & ~resets, there[file], 0)
        reach = np.maximum(reach, growth_of(rows)[order])
        # What is needed after a reset counts before it too, as blocks are not to be found again.
        last = np.append(begins[1:], True)[: len(order)]
        most = running_max(reach[::-1], last[::-1])[::-1]
        before, after = np.zeros((2, len(rows)), np.int64)
        before[order] = after[order] = _carried(most, begins | resets)
        first = there.copy()
        np.maximum.at(first, file, most)
        previous = np.where(begins, first[file], np.append(0, after[order])[: len(order)])
        before[order] = np.where(begins | resets, previous, after[order])
        is_remade = ~plan.files.exists
        is_remade[file[resets]] = True
        return cls(before, after, first, is_remade)


def _carried(values: Ints, begins: Mask) -> Ints:
    """Return, per row, the value at the last row at or before it that begins something."""
    at = np.maximum.accumulate(np.where(begins, np.arange(len(values)), 0))
    return values[at]


@dataclass(frozen=True, eq=False)
class _Folders:
    """The folders of a plan.

    Attributes:
        names: of all that there ever are.
        made: the request that first makes each that is made.
        changed: the first request that removes or renames each that is, or gives it its name.
    """

    names: Set[str]
    made: Mapping[str, int]
    changed: Mapping[str, int]

    @classmethod
    def of(cls, plan: Plan) -> "_Folders":
        rows, paths = plan.requests, plan.paths
        on_folders = is_op(rows["op"], (Op.MKDIR, Op.RMDIR))
        on_folders |= (rows["op"] == Op.RENAME) & (rows["file"] < 0)
        made: dict[str, int] = {}
        changed: dict[str, int] = {}
        where = np.flatnonzero(on_folders)
        columns = (rows.at(name, where).tolist() for name in ("op", "path", "target"))
        for at, op, path, target in zip(where.tolist(), *columns, strict=True):
            first = made if op == Op.MKDIR else changed
            for index in (path, target):
                if index >= 0:
                    first.setdefault(paths[index], at)
        parents = {path.rpartition("/")[0] for path in paths} - {""}
        above = {one for path in parents for one in (path, *ancestors(path))}
        return cls(above | made.keys() | changed.keys(), made, changed)

    def are_quiet(self, folders: Iterable[str], until: int) -> bool:
        """Return whether none of the folders changes before a request."""
        return all(self.changed.get(folder, until) >= until for folder in folders)

    def makings(self, names: Iterable[str]) -> Ints:
        """Return the requests that make what files of these names are in from the beginning."""
        above = {one for name in names for one in ancestors(name)}
        found = (
            at
            for folder, at in self.made.items()
            if folder in above and self.are_quiet((folder, *ancestors(folder)), at)
        )
        return np.array(list(found), np.int64)


def _chosen(plan: Plan, is_remade: Mask, folders: _Folders) -> tuple[Mask, tuple[Note, ...]]:
    """Return which files are written over old blocks, and what is left."""
    rows = plan.requests
    wanted = plan.files.written & is_remade
    holed = np.zeros(len(wanted), np.bool_)
    allocates = rows["op"] == Op.ALLOCATE
    holed[rows["file"][allocates & ~np.isin(rows["flags"], (0, KEEP_SIZE))]] = True
    is_free = _are_free(plan, wanted & ~holed, folders)
    counted = (
        ("files with holes punched, made anew", wanted & holed),
        ("files whose name or folder is another's at first, made anew", wanted & ~holed & ~is_free),
    )
    notes = tuple(Note(what, int(mask.sum())) for what, mask in counted if mask.any())
    return is_free, notes


def _are_free(plan: Plan, wanted: Mask, folders: _Folders) -> Mask:
    """Return which of the wanted files can be there before the run under their first name."""
    files = plan.files
    bound = Bindings.of(plan.requests, plan.paths)
    order = np.lexsort((bound.start, bound.path))
    path, first = first_of_each(bound.path[order])
    owner, begin = np.full((2, len(files.paths)), -1)
    owner[path], begin[path] = bound.file[order[first]], bound.start[order[first]]
    is_free: Mask = wanted & (owner[files.path] == np.arange(len(files)))
    is_free &= files.exists | ~np.isin(files.path, files.path[files.exists])
    names = {files.paths[one] for one in path.tolist()}
    for file in np.flatnonzero(is_free).tolist():
        name = files.paths[files.path[file]]
        above = ancestors(name)
        is_free[file] = (
            name not in folders.names
            and names.isdisjoint(above)
            and folders.are_quiet(above, int(begin[files.path[file]]))
        )
    return is_free


def _truncates(requests: Requests, at: Ints, size_bytes: Ints) -> Requests:
    """Return what cuts files right after the opens at `at`, which emptied them."""
    opens = requests.take(at)
    writable = opens["flags"] & os.O_ACCMODE != os.O_RDONLY
    return opens.beside(
        op=Op.TRUNCATE,
        length=size_bytes[at],
        handle=np.where(writable, opens["handle"], -1),
        path=np.where(writable, -1, opens["path"]),
    )


def _without_zeros(plan: Plan, requests: Requests, own: Mask) -> Pieces:
    """Return the pieces, those that read nothing where old bytes lie now included."""
    reads = requests.compress(own & (requests["op"] == Op.READ))
    places = spread(reads["first_piece"], reads["piece_count"].astype(np.int64))
    holes = places[plan.pieces["file"][places] == HOLE]
    return plan.pieces.having_at(holes, file=STALE) if len(holes) else plan.pieces
