"""The rows of a trace, process by process, as numpy columns."""

from __future__ import annotations

import mmap
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from iotrace.capture.blocks import NULLS, Block, Context, joined, numbered, or_null
from iotrace.capture.clock import Clock
from iotrace.capture.faults import MAJOR, OnFiles
from iotrace.capture.files import LogFiles
from iotrace.capture.names import UNKNOWN
from iotrace.capture.notes import Note
from iotrace.capture.rawlog import RawLog
from iotrace.capture.spans import Requests, assign
from iotrace.capture.values import counter_rows, value_rows
from iotrace.traces.schema import DATA_OPS
from iotrace.traces.vocabulary import Vocabulary

# The layers that hooks write rows of.
DATA_LAYERS = ("tensor", "span")
# Records that describe others, and values at a time.
NO_REQUESTS = ("none", "file", "note", "thread", "counter", "seek", "taken")
# Their `flags` mean something also when they are 0.
FLAGGED_OPS = ("open", "sync", "allocate", "map", "advise")
# These open nothing, and change what is stored or what it is called.
CHANGING_OPS = ("write", "sync", "allocate", "truncate", "rename", "link", "unlink", "mkdir")
# These come with what an earlier request opened or mapped.
FOLLOWING_OPS = ("close", "unmap", "fault", "advise")
# Their places carry something else in the raw log: mode, inode, its names, descriptors left.
PLACELESS_OPS = ("open", "close", "rename", "link", "unlink", "mkdir", "rmdir", "counter")


def process_block(
    place: int, log: RawLog, rank: int, notes: Sequence[Note], faults: OnFiles, context: Context
) -> Block:
    """Return all rows of one process, in no order; `seq` is their order of issue."""
    threads = dense_threads(log, faults.tids)
    parts = [request_rows(place, log, threads, context), counter_rows(place, log, threads, context)]
    if len(faults):
        parts.append(fault_rows(place, log, faults, threads, context))
    about_data = [note for note in notes if note.layer in DATA_LAYERS]
    if about_data:
        parts.append(note_rows(about_data, threads, context))
    values = [note for note in notes if note.layer == "counter"]
    if values:
        parts.append(value_rows(values, threads, context))
    block = joined(parts)
    rows = len(block["start_ns"])
    block["seq"] = np.empty(rows, np.int64)
    block["seq"][np.argsort(block["start_ns"], kind="stable")] = np.arange(rows)
    block["process"] = np.full(rows, place, np.int32)
    block["rank"] = np.full(rows, rank, np.int32)
    return block


def dense_threads(log: RawLog, others: npt.NDArray[np.uint32]) -> dict[int, int]:
    """Return the trace's number of each kernel thread id; the main thread is 0."""
    changes = np.flatnonzero(np.diff(log.threads, prepend=0))
    tids = np.unique(np.append(log.threads[changes], others)).tolist()
    tids.sort(key=lambda tid: (tid != log.header.pid, tid))
    return {tid: number for number, tid in enumerate(tids)}


def request_ops(log: RawLog) -> list[str]:
    """Return the ops of a log that are requests."""
    return [op for op in log.header.op_names if op not in NO_REQUESTS]


def request_rows(place: int, log: RawLog, threads: Mapping[int, int], context: Context) -> Block:
    """Return the rows of what reached the operating system."""
    rows = log.rows(*request_ops(log))
    slots = log.positions[rows]
    is_last = ~is_close_of_duplicate(log, slots)
    rows, slots = rows[is_last], slots[is_last]
    ops = log.slots["op"][slots]
    numbers = log.slots["file"][slots]
    view = context.files.logs[place]
    file, path, target = named_files(view, rows, numbers)
    flags = log.slots["flags"][slots].view(np.int32)
    is_placeless = is_one_of(log, ops, PLACELESS_OPS)
    block: Block = {
        "layer": np.full(len(rows), context.words.layer.code("request"), np.int32),
        "op": recoded(ops, log.header.op_names, context.words.op),
        "api": recoded(log.slots["api"][slots], log.header.api_names, context.words.api),
        "offset_source": recoded(
            log.slots["offset_source"][slots],
            log.header.offset_source_names,
            context.words.offset_source,
        ),
        "thread": numbered(threads, log.threads[rows]),
        "start_ns": context.clock.times(log, log.slots["start_ns"][slots]),
        "end_ns": end_times(context.clock, log, slots),
        "path": path,
        "target": target,
        "file": np.where(file < 0, NULLS["file"], file),
        **extents(log, slots, is_placeless, is_data=is_one_of(log, ops, DATA_OPS)),
        "flags": np.where((flags != 0) | is_one_of(log, ops, FLAGGED_OPS), flags, NULLS["flags"]),
        "address": np.where(is_placeless, np.uint64(0), log.slots["address"][slots]),
    }
    block["on_writable"] = opened_for_writing(log, numbers)
    block["open"] = numbers.astype(np.int32)
    requests = Requests(
        threads=log.threads[rows],
        starts_ns=block["start_ns"],
        files=file,
        for_writing=block["on_writable"] | is_one_of(log, ops, CHANGING_OPS),
        follows=is_one_of(log, ops, FOLLOWING_OPS),
    )
    return block | label_columns(requests, place, context)


def named_files(
    view: LogFiles, rows: npt.NDArray[np.int64], numbers: npt.NDArray[np.uint32]
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Return file, path and target of requests on open files, and of those that name paths."""
    known = np.where(numbers < len(view.ids), numbers, 0)
    file, path = view.ids[known], view.paths[known]
    target = np.full(len(rows), UNKNOWN, np.int32)
    places = np.searchsorted(rows, view.named_rows)
    file[places], path[places] = view.named_ids, view.named_paths
    target[places] = view.named_targets
    return file, path, target


def recoded(
    codes: npt.NDArray[Any], names: Sequence[str], words: Vocabulary[str]
) -> npt.NDArray[np.int32]:
    """Translate a log's codes to those of a vocabulary; the empty name is null."""
    translation = words.codes(name or None for name in names)
    translated: npt.NDArray[np.int32] = translation[codes]
    return translated


def is_close_of_duplicate(log: RawLog, slots: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Return which records close one of several descriptors of an open file, which stays open."""
    is_close = is_one_of(log, log.slots["op"][slots], ("close",))
    return np.asarray(is_close & (log.slots["length"][slots] > 0))


def is_one_of(log: RawLog, ops: npt.NDArray[Any], names: Sequence[str]) -> npt.NDArray[np.bool_]:
    """Return which ops of a log are one of some by name."""
    chosen: npt.NDArray[np.bool_] = np.array([name in names for name in log.header.op_names])[ops]
    return chosen


def end_times(clock: Clock, log: RawLog, slots: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return when requests ended; null for those whose completion was not seen."""
    ends_ns = log.slots["end_ns"][slots]
    return np.where(ends_ns == 0, NULLS["end_ns"], clock.times(log, ends_ns))


def extents(
    log: RawLog,
    slots: npt.NDArray[np.int64],
    is_placeless: npt.NDArray[np.bool_],
    is_data: npt.NDArray[np.bool_],
) -> Block:
    """Return offset, length and result, null where they do not apply.

    What a failed read or write asked for is not always known, as of a bad list of buffers: 0 then.
    """
    offset, length, result = (log.slots[name][slots] for name in ("offset", "length", "result"))
    unfinished = log.slots["end_ns"][slots] == 0
    length = np.where(is_data & (result < 0) & ~unfinished, length.clip(min=0), length)
    return {
        "offset": np.where((offset < 0) | is_placeless, NULLS["offset"], offset),
        "length": np.where((length < 0) | is_placeless, NULLS["length"], length),
        "result": np.where(unfinished, NULLS["result"], result),
    }


def opened_for_writing(log: RawLog, numbers: npt.NDArray[np.uint32]) -> npt.NDArray[np.bool_]:
    """Return whether the open file of each request was opened for writing, as far as is known."""
    rows = log.rows("open")
    records = log.slots[log.positions[rows]]
    writable = np.zeros(int(max(numbers.max(initial=0), records["file"].max(initial=0))) + 1, bool)
    writable[records["file"]] = (records["flags"] & os.O_ACCMODE) != os.O_RDONLY
    writable[0] = False  # an open that failed
    on_writable: npt.NDArray[np.bool_] = writable[numbers]
    return on_writable


def label_columns(requests: Requests, place: int, context: Context) -> Block:
    """Return engine and step of requests."""
    labels = context.labelling.labels
    chosen = assign(requests, context.labelling.logs[place])
    engines = context.words.engine.codes([*(label.engine for label in labels), None])
    steps = [NULLS["step"] if label.step is None else label.step for label in labels]
    return {
        "engine": engines[chosen],
        "step": np.array([*steps, NULLS["step"]], np.int32)[chosen],
    }


def fault_rows(
    place: int, log: RawLog, faults: OnFiles, threads: Mapping[int, int], context: Context
) -> Block:
    """Return the rows of page faults: where a load through memory waited for storage."""
    words, count = context.words, len(faults)
    times_ns = context.clock.times(log, faults.times_ns)
    page_bytes = np.full(count, mmap.PAGESIZE, np.int64)
    requests = Requests(
        threads=faults.tids,
        starts_ns=times_ns,
        files=faults.files,
        for_writing=np.zeros(count, np.bool_),
        follows=np.ones(count, np.bool_),
    )
    block: Block = {
        "layer": np.full(count, words.layer.code("request"), np.int32),
        "op": np.full(count, words.op.code("fault"), np.int32),
        "api": np.full(count, words.api.code("mmap"), np.int32),
        "offset_source": np.full(count, words.offset_source.code("tracked"), np.int32),
        "thread": numbered(threads, faults.tids),
        "start_ns": times_ns,  # the kernel tells when it was served, not how long that took
        "end_ns": times_ns,
        "path": faults.paths,
        "file": np.where(faults.files < 0, NULLS["file"], faults.files).astype(np.int32),
        "offset": faults.offsets,
        "length": page_bytes,
        "result": page_bytes,
        "flags": np.full(count, MAJOR, np.int32),
        "address": faults.addresses,
    }
    return block | label_columns(requests, place, context)


def note_rows(notes: Sequence[Note], threads: Mapping[int, int], context: Context) -> Block:
    """Return the rows of tensors and spans."""
    words, paths = context.words, context.files.paths
    files = [context.files.named(note.path or "", note.end_ns) for note in notes]
    integers = {
        name: [note.integer(name) for note in notes]
        for name in ("offset", "length", "tensor_offset")
    }
    return {
        "layer": words.layer.codes(note.layer for note in notes),
        "op": words.op.codes(note.text("op") for note in notes),
        "engine": words.engine.codes(note.text("engine") for note in notes),
        "thread": np.array([threads[note.thread] for note in notes], np.int32),
        "start_ns": np.array([note.start_ns for note in notes], np.int64),
        "end_ns": np.array([note.end_ns for note in notes], np.int64),
        "path": paths.codes(note.path for note in notes),
        "file": or_null("file", [None if file < 0 else file for file in files]),
        **{name: or_null(name, values) for name, values in integers.items()},
        "step": or_null("step", [note.step for note in notes]),
        "name": words.name.codes(note.text("name") for note in notes),
        "dtype": words.dtype.codes(note.text("dtype") for note in notes),
        "shape": words.shape.codes(note.shape for note in notes),
        "device": words.device.codes(note.text("device") for note in notes),
    }
