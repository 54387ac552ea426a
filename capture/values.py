"""Rows of layer `counter`: what the preload library and the hooks counted."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import numpy as np

from iotrace.capture.blocks import NULLS, Block, Context, numbered, or_null
from iotrace.capture.notes import Note
from iotrace.capture.rawlog import RawLog


def counter_rows(place: int, log: RawLog, threads: Mapping[int, int], context: Context) -> Block:
    """Return the rows of values at a time."""
    rows = log.rows("counter")
    records = log.slots[log.positions[rows]]
    words, view = context.words, context.files.logs[place]
    numbers = np.where(records["file"] < len(view.ids), records["file"], 0)
    file, is_of_file = view.ids[numbers], numbers != 0
    return {
        "layer": np.full(len(rows), words.layer.code("counter"), np.int32),
        "op": np.full(len(rows), words.op.code("counter"), np.int32),
        "thread": numbered(threads, log.threads[rows]),
        "path": view.paths[numbers],
        "file": np.where(is_of_file & (file >= 0), file, NULLS["file"]).astype(np.int32),
        "offset": np.where(is_of_file, records["offset"], NULLS["offset"]),
        "length": np.where(is_of_file, records["length"], NULLS["length"]),
        "start_ns": context.clock.times(log, records["start_ns"]),
        "end_ns": context.clock.times(log, records["end_ns"]),
        "result": records["result"],
        "name": words.name.codes(os.fsdecode(log.text(row)) for row in rows.tolist()),
    }


def value_rows(notes: Sequence[Note], threads: Mapping[int, int], context: Context) -> Block:
    """Return the rows of what hooks counted: those of the process, and those of a file."""
    values = [
        (note, None if part == "process" else note.path, name, value)
        for note in notes
        for part in ("process", "file")
        for name, value in note.integers(part)
    ]
    words, paths = context.words, context.files.paths
    of = [note for note, _, _, _ in values]
    files = [
        None if path is None else context.files.named(path, note.end_ns)
        for note, path, _, _ in values
    ]
    return {
        "layer": np.full(len(values), words.layer.code("counter"), np.int32),
        "op": np.full(len(values), words.op.code("counter"), np.int32),
        "engine": words.engine.codes(note.text("engine") for note in of),
        "thread": np.array([threads[note.thread] for note in of], np.int32),
        "start_ns": np.array([note.start_ns for note in of], np.int64),
        "end_ns": np.array([note.end_ns for note in of], np.int64),
        "path": paths.codes(path for _, path, _, _ in values),
        "file": or_null("file", [None if f is None or f < 0 else f for f in files]),
        "result": np.array([value for _, _, _, value in values], np.int64),
        "step": or_null("step", [note.step for note in of]),
        "name": words.name.codes(name for _, _, name, _ in values),
    }
