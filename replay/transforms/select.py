"""Keep a part of what was recorded."""

import os
from collections.abc import Collection
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

import numpy as np
import numpy.typing as npt

from iotrace.replay.coverage import CUT, READ, WRITE, Unwritten, find_unwritten, make_events
from iotrace.replay.files import resets_of
from iotrace.replay.folders import with_folders
from iotrace.replay.job import DATA_OPS, Op, is_op
from iotrace.replay.pieces import Ints, Pieces, cut, packed, pieces_in_place
from iotrace.replay.plan import Applied, Note, Plan
from iotrace.replay.requests import Requests
from iotrace.traces.errors import PlanError
from iotrace.traces.phases import Phase

Mask = npt.NDArray[np.bool_]

PHASES = tuple(phase.name.lower() for phase in Phase)
_NO_PATH = -2  # one without a number in the plan
_OPS = tuple(Op(op).name.lower() for op in DATA_OPS)


@dataclass(frozen=True)
class Select:
    """Keep the requests that match everything given; `None` matches all.

    Files are opened and closed as their kept requests need it. What kept reads find and no kept
    write made is prepared before the run.

    Attributes:
        phases: of PHASES.
        ops: of `read` and `write`; other requests are not asked for their op.
        ranks: global ranks.
        steps: ordinals of checkpoints.
        files: patterns of recorded paths, as a shell's.

    >>> from iotrace.replay.sketch import listing, sketch
    >>> plan = sketch('''
    ... open a w+create
    ... write a 0 100
    ... close a
    ... open a r
    ... read a 0 100
    ... close a''')
    >>> loads = Select(phases=("load",))(plan)
    >>> print(listing(loads))
    open a r
    read a 0 100
    close a
    >>> print(loads.files[0])
    a: read, 100 bytes before the run, 100 bytes after it
    """

    phases: Collection[str] | None = None
    ops: Collection[str] | None = None
    ranks: Collection[int] | None = None
    steps: Collection[int] | None = None
    files: Collection[str] | None = None

    def __post_init__(self) -> None:
        for name, known in (("phases", PHASES), ("ops", _OPS)):
            unknown = set(getattr(self, name) or ()) - set(known)
            if unknown:
                raise PlanError(f"no {name[:-1]} {unknown.pop()!r}; choose from {', '.join(known)}")

    def __call__(self, plan: Plan) -> Plan:
        """Return the plan of what is kept.

        Raises:
            PlanError: nothing is.
        """
        keep = with_handles(plan.requests, self._matches(plan))
        if not keep.any():
            raise PlanError("nothing is left to replay; select more ranks, steps, files or ops")
        requests = plan.requests.compress(keep)
        used = requests["handle"] >= 0
        handle = np.unique(requests["handle"][used], return_inverse=True)[1]
        data = np.flatnonzero(is_op(requests["op"], DATA_OPS))
        line = packed(requests, plan.pieces, data)
        bounds = np.concatenate([[0], np.cumsum(requests["length"][data])])
        pieces, first, count = cut(line, bounds)
        requests = requests.having_at(used, handle=handle)
        requests = requests.having_at(data, first_piece=first, piece_count=count)
        parameters = tuple(
            (name, tuple(value)) for name, value in vars(self).items() if value is not None
        )
        applied = Applied("select", parameters, (Note("requests left out", int((~keep).sum())),))
        unwritten = _find_unwritten(plan, requests, pieces)
        if unwritten.holes:  # the writes that filled them are left out
            read = np.array([index for index, _, _ in unwritten.holes], np.int64)
            requests = _keeping_bytes(requests, requests["file"][read], read)
            unwritten = _find_unwritten(plan, requests, pieces)
        initial_bytes = _initial_bytes(plan, requests, pieces, unwritten.initial_bytes)
        selected = plan.derive(applied, requests, pieces, initial_bytes=initial_bytes)
        there = np.flatnonzero(selected.files.initial_size_bytes > 0)
        until = _first_data(requests, len(plan.files))[there]
        kept = _keeping_bytes(requests, there, until)
        if not np.array_equal(kept["flags"], requests["flags"]):
            selected = plan.derive(applied, kept, pieces, initial_bytes=initial_bytes)
        return with_folders(_told_apart(plan, selected))

    def _matches(self, plan: Plan) -> Mask:
        rows = plan.requests
        keep = np.ones(len(rows), np.bool_)
        if self.phases is not None:
            keep &= np.isin(rows["phase"], [PHASES.index(name) for name in self.phases])
        if self.ops is not None:
            wanted = [Op[name.upper()] for name in self.ops]
            keep &= ~plan.is_data() | np.isin(rows["op"], wanted)
        if self.ranks is not None:
            ranks = np.array([stream.rank for stream in plan.streams])
            keep &= np.isin(ranks[rows["stream"]], list(self.ranks))
        if self.steps is not None:
            keep &= np.isin(rows["step"], list(self.steps))
        if self.files is not None:
            keep &= self._matches_file(plan)
        return keep

    def _matches_file(self, plan: Plan) -> Mask:
        """Return which requests are on a file that ever had a matching name, or on such a name."""
        rows = plan.requests
        matches = np.array(
            [any(fnmatchcase("/" + path, one) for one in self.files or ()) for path in plan.paths]
            + [False],
            np.bool_,
        )
        named = matches[rows["path"]] | matches[rows["target"]]
        chosen = np.zeros(len(plan.files) + 1, np.bool_)
        chosen[rows["file"][named]] = True
        chosen[-1] = False
        return np.asarray(chosen[rows["file"]] | named)


def with_handles(rows: Requests, keep: Mask) -> Mask:
    """Keep opens and closes as the other kept requests need them.

    Of an open whose reads and writes are all left out, everything is.
    """
    count = int(rows["handle"].max(initial=-1)) + 1
    by_handle = rows["handle"] >= 0
    data = is_op(rows["op"], DATA_OPS)
    had, kept = (
        np.bincount(rows["handle"][by_handle & chosen], minlength=count + 1) > 0
        for chosen in (data, data & keep)
    )
    idle = (had & ~kept)[rows["handle"]] & by_handle
    keep = keep & ~idle
    needed = np.bincount(rows["handle"][by_handle & keep], minlength=count + 1) > 0
    frame = is_op(rows["op"], (Op.OPEN, Op.CLOSE))
    return np.asarray(np.where(frame & by_handle, needed[rows["handle"]], keep))


def _keeping_bytes(requests: Requests, file: Ints, until: Ints) -> Requests:
    """Let opens of each file before each place find what was prepared: neither O_EXCL nor O_TRUNC.

    A file may be asked for several times; the last place counts.
    """
    last = np.full(int(requests["file"].max(initial=-1)) + 2, -1)
    known = file < len(last) - 1
    np.maximum.at(last, file[known], until[known])
    index = np.arange(len(requests))
    opens = (requests["op"] == Op.OPEN) & (index < last[requests["file"]])
    return requests.without_flags(opens, os.O_EXCL | os.O_TRUNC)


def _first_data(requests: Requests, count: int) -> Ints:
    """Return the first read or write of each file; the number of requests where there is none."""
    first = np.full(count, len(requests))
    data = np.flatnonzero(is_op(requests["op"], DATA_OPS))
    np.minimum.at(first, requests["file"][data], data)
    return first


def _find_unwritten(plan: Plan, requests: Requests, pieces: Pieces) -> Unwritten:
    """Return, per recorded file, the bytes that kept reads find and no kept write made."""
    line, owner, _ = pieces_in_place(requests, pieces)
    payload = line["file"] >= 0
    line, owner = line.compress(payload), owner[payload]
    kind = np.where(requests["op"][owner] == Op.WRITE, WRITE, READ)
    cuts = np.flatnonzero(resets_of(requests) & (requests["file"] >= 0))
    # Where extents were moved, a size says nothing about recorded bytes, unless it is 0.
    moved = np.isin(requests["file"][cuts], plan.relocation.files())
    cuts = cuts[~moved | (requests["length"][cuts] == 0)]
    size = np.where(requests["op"][cuts] == Op.TRUNCATE, requests["length"][cuts], 0)
    events = np.concatenate(
        [
            make_events(owner, line["file"], kind, line["offset"], line["offset"] + line["length"]),
            make_events(cuts, requests["file"][cuts], CUT, 0, size),
        ]
    )
    events = events.take(np.argsort(events["index"], kind="stable"))
    return find_unwritten(events, len(plan.files))


def _initial_bytes(plan: Plan, requests: Requests, pieces: Pieces, found: Ints) -> Ints:
    """Return, per recorded file, the bytes to prepare: those found, and as before the selection."""
    line, _, _ = pieces_in_place(requests, pieces)
    line = line.compress(line["file"] >= 0)
    before = plan.initial_bytes()
    touched = np.zeros(len(plan.files), np.bool_)
    touched[line["file"]] = True
    touched[requests["file"][requests["file"] >= 0]] = True
    return np.where(touched, np.maximum(found, before), 0)


def _told_apart(plan: Plan, selected: Plan) -> Plan:
    """Give files that are prepared under one name names of their own.

    They had it one after the other, and what took the name from one to the next is left out.
    """
    rows = selected.requests
    names = {name: rows[name].copy() for name in ("path", "target")}
    paths = list(plan.paths)
    numbers = {path: number for number, path in enumerate(paths)}
    seen: set[str] = set()
    for file, spec in enumerate(selected.files):
        if not spec.exists or spec.path not in seen:
            seen.update([spec.path] if spec.exists else [])
            continue
        own = rows["file"] == file
        for column in names.values():
            column[own & (column == numbers.get(spec.path, _NO_PATH))] = len(paths)
        paths.append(f"{spec.path}.iotrace-{file}")
    if len(paths) == len(plan.paths):
        return selected
    before = replace(selected, history=plan.history)
    return before.derive(
        selected.history[-1], rows.having(**names), selected.pieces, paths=tuple(paths)
    )
