"""Steps of traces that are joined: each counted its own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from iotrace.traces.columns import IntArray, Mask
from iotrace.traces.metadata import Metadata
from iotrace.traces.steps import Act, Place, number_steps
from iotrace.traces.trace import Trace

# What `in_steps` reads, besides what no row is without.
STEP_COLUMNS = ("engine", "path", "end_ns", "step")

_SAVE, _LOAD, _NEITHER = 0, 1, -1
_KINDS = ("save", "load")
_SAVE_OPS = ("save", "stage", "commit")
_CHANGING_OPS = ("write", "sync", "allocate", "truncate", "rename", "link", "unlink", "mkdir")

Key = tuple[int, int]  # kind, step


def in_steps(
    tables: Sequence[pa.Table], clocks: Sequence[int], are_of_one_trace: Sequence[bool]
) -> list[pa.Table]:
    """Return the tables with steps counted over all of them.

    Numbers that are not 0, 1, 2 ... in a trace were given by its job, or chosen from it: they stay.
    Those of two `clocks` are different steps: the later ones go on behind the earlier ones where
    numbers of both are the same.

    Args:
        tables: rows, whose times are moved to where they stand in the whole.
        clocks: per table, a number of its clock; tables of one have consecutive places in time.
        are_of_one_trace: per table, whether its steps were counted with the others of its clock.
    """
    if any(not {*STEP_COLUMNS} <= {*table.column_names} for table in tables):
        return list(tables)
    acts = [
        _acts(source, Trace(table, Metadata()), is_numbered)
        for source, (table, is_numbered) in enumerate(zip(tables, are_of_one_trace, strict=True))
    ]
    steps: list[dict[Key, int]] = [{} for _ in tables]
    taken: dict[int, set[int]] = {_SAVE: set(), _LOAD: set()}
    for clock in dict.fromkeys(clocks):
        places = [place for place, of in enumerate(clocks) if of == clock]
        own = [(place, key) for place in places for key in acts[place]]
        numbers = number_steps([acts[place][key] for place, key in own])
        for kind, before in taken.items():
            found = {step for (_, (of, _)), step in zip(own, numbers, strict=True) if of == kind}
            shift = max(before) + 1 - min(found) if found & before else 0
            before.update(step + shift for step in found)
            for (place, key), step in zip(own, numbers, strict=True):
                if key[0] == kind:
                    steps[place][key] = step + shift
    return [_renumbered(*columns) for columns in zip(tables, acts, steps, strict=True)]


def _kinds(trace: Trace) -> IntArray:
    """Return whether each row says that it saves or loads, as spans and tensors do."""
    kinds = np.full(len(trace), _NEITHER)
    marks = trace.row_mask(layer=("span", "tensor")) & trace.valid("step")
    kinds[marks & trace.row_mask(op=_SAVE_OPS)] = _SAVE
    kinds[marks & trace.row_mask(op="load")] = _LOAD
    return kinds


def _acts(source: int, trace: Trace, is_numbered: bool) -> dict[Key, Act]:
    """Return the saves and loads of a trace by kind and step; of `is_numbered` the steps stay."""
    rows = np.flatnonzero(_kinds(trace) != _NEITHER)
    marks = trace.where(_kinds(trace) != _NEITHER)
    if not len(rows):
        return {}
    keys = np.stack([_kinds(marks), marks.ints("step")], 1)
    found, group = np.unique(keys, axis=0, return_inverse=True)
    group = group.ravel()
    start_ns, end_ns = np.full((2, len(found)), np.iinfo(np.int64).max)
    np.minimum.at(start_ns, group, marks.ints("start_ns"))
    np.minimum.at(end_ns, group, -np.maximum(marks.ints("start_ns"), marks.ints("end_ns")))
    places = _places(marks, group)
    steps: defaultdict[int, list[int]] = defaultdict(list)
    for kind, step in found.tolist():
        steps[kind].append(step)
    is_counted = {
        kind: not is_numbered and own == list(range(len(own))) for kind, own in steps.items()
    }
    return {
        (kind, step): Act(
            source,
            _KINDS[kind],
            places.get(place, set()),
            int(start_ns[place]),
            -int(end_ns[place]),
            None if is_counted[kind] else step,
        )
        for place, (kind, step) in enumerate(found.tolist())
    }


def _places(marks: Trace, group: IntArray) -> dict[int, set[Place]]:
    """Return the destinations of each group; the files of tensors only where no span has one."""
    engines, engine_names = marks.codes("engine")
    paths, path_names = marks.codes("path")
    is_tensor = marks.row_mask(layer="tensor").astype(np.int64)
    columns = np.stack([is_tensor, group, engines, paths, marks.ints("rank")], 1)
    by_span: dict[int, set[Place]] = {}
    by_tensor: dict[int, set[Place]] = {}
    for tensor, place, engine, path, rank in np.unique(columns, axis=0).tolist():
        if path >= 0:
            name = engine_names[engine] if engine >= 0 else None
            into = by_tensor if tensor else by_span
            into.setdefault(place, set()).add(Place(name, path_names[path], rank))
    return by_tensor | by_span


def _renumbered(table: pa.Table, acts: dict[Key, Act], steps: dict[Key, int]) -> pa.Table:
    if all(key[1] == step for key, step in steps.items()):
        return table
    trace = Trace(table, Metadata())
    known, old = trace.valid("step"), trace.ints("step")
    kinds = _kinds(trace)
    unsaid = known & (kinds == _NEITHER)
    kinds[unsaid] = _kinds_by_time(trace.where(unsaid), acts)
    new = old.copy()
    for kind in (_SAVE, _LOAD):
        own = _steps_of(kind, acts)
        place, is_own = _found(own, old)
        rows = known & (kinds == kind) & is_own
        new[rows] = np.array([steps[kind, step] for step in own.tolist()], np.int64)[place[rows]]
    column = table.column_names.index("step")
    field = table.schema.field(column)
    return table.set_column(column, field, pa.array(new, field.type, mask=~known))


def _kinds_by_time(trace: Trace, acts: dict[Key, Act]) -> IntArray:
    """Return whether requests with a step are of its save or load: where both are, by time."""
    step, start_ns = trace.ints("step"), trace.ints("start_ns")
    is_of, is_within = {}, {}
    for kind in (_SAVE, _LOAD):
        own = _steps_of(kind, acts)
        place, is_of[kind] = _found(own, step)
        times = [(acts[kind, one].start_ns, acts[kind, one].end_ns) for one in own.tolist()]
        begin_ns, end_ns = np.array([*times, (0, 0)]).T[:, place]
        is_within[kind] = (begin_ns <= start_ns) & (start_ns <= end_ns)
    kinds = np.where(trace.row_mask(op=_CHANGING_OPS), _SAVE, _LOAD)
    kinds[is_within[_SAVE] & ~is_within[_LOAD]] = _SAVE
    kinds[is_within[_LOAD] & ~is_within[_SAVE]] = _LOAD
    kinds[~is_of[_LOAD]] = _SAVE
    kinds[is_of[_LOAD] & ~is_of[_SAVE]] = _LOAD
    return kinds


def _steps_of(kind: int, acts: dict[Key, Act]) -> IntArray:
    return np.array(sorted(step for own, step in acts if own == kind), np.int64)


def _found(own: IntArray, step: IntArray) -> tuple[IntArray, Mask]:
    """Return the place of each step among sorted ones, and whether it is one of them."""
    return np.searchsorted(own, step), np.isin(step, own)
