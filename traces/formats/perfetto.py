"""Chrome's JSON trace events, which Perfetto opens: ranks as processes, threads, spans, requests.

On a thread's track lie its spans and those requests that nest; requests that overlap (asynchronous
ones, mostly) and tensors have tracks of their own. Counters tell the requests in flight.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from iotrace.traces.columns import IntArray
from iotrace.traces.metadata import Metadata
from iotrace.traces.phases import ends_ns
from iotrace.traces.schema import DATA_OPS, REQUEST_LAYERS
from iotrace.traces.text import encode_path
from iotrace.traces.trace import Trace
from iotrace.traces.words import plural
from iotrace.traces.writer import replacing

NAME = "perfetto"
_TOLD = ("engine", "step", "offset", "length", "result", "api", "flags", "dtype", "target")
Event = dict[str, Any]


def write(trace: Trace, target: Path) -> list[str]:
    """Write the trace as JSON; return what it leaves out.

    Raises:
        OSError: the file cannot be written.
    """
    with replacing(target) as file:
        file.write(b'{"displayTimeUnit":"ns","traceEvents":[\n')
        between = b""
        for event in events(trace):
            file.write(between + json.dumps(event, separators=(",", ":")).encode())
            between = b",\n"
        file.write(b"\n]}\n")
    unfinished = int((~trace.valid("end_ns") & trace.row_mask(layer=REQUEST_LAYERS)).sum())
    said = ["machines, mounts, completeness, addresses and shapes"]
    if unfinished:
        said.append(f"{plural(unfinished, 'request')} without an end: drawn as instants")
    return said


def events(trace: Trace) -> Iterator[Event]:
    """Yield the trace events: names first, then slices in order of start, then counters."""
    yield from _names(trace)
    yield from _slices(trace)
    yield from _values(trace)
    for op in DATA_OPS:
        yield from _in_flight(trace, op)


def _names(trace: Trace) -> Iterator[Event]:
    """Name and sort the processes and threads that have rows."""
    ranks = dict(zip(trace.ints("process").tolist(), trace.ints("rank").tolist(), strict=True))
    for process, rank in sorted(ranks.items()):
        pid = process + 1
        name = f"rank {rank}" if rank >= 0 else f"process {process}"
        name = " ".join([name, *_described(trace.metadata, process)])
        yield {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}}
        order = rank if rank >= 0 else process
        yield {"ph": "M", "name": "process_sort_index", "pid": pid, "args": {"sort_index": order}}
    pairs = np.stack([trace.ints("process"), trace.ints("thread")])
    for process, thread in np.unique(pairs, axis=1).T.tolist():
        title = {"name": f"thread {thread}"}
        yield {"ph": "M", "name": "thread_name", **_track(process, thread), "args": title}


def _described(metadata: Metadata, process: int) -> Iterator[str]:
    if process < len(metadata.processes):
        one = metadata.processes[process]
        if one.pid:
            yield f"(pid {one.pid})"
        if 0 <= one.host < len(metadata.hosts) and metadata.hosts[one.host].name:
            yield f"on {encode_path(metadata.hosts[one.host].name)}"


def _track(process: int, thread: int) -> Event:
    return {"pid": process + 1, "tid": thread + 1}


def _us(ns: int) -> float:
    return ns / 1000


def _slices(trace: Trace) -> Iterator[Event]:
    shown = trace.row_mask(layer=("span", "tensor", *REQUEST_LAYERS))
    rows = trace.where(shown)
    start_ns, end_ns = rows.ints("start_ns"), ends_ns(rows)
    order = np.lexsort((-(end_ns - start_ns), start_ns))
    nests = _nesting(rows, start_ns, end_ns, order)
    finished = rows.valid("end_ns") | ~rows.row_mask(layer=REQUEST_LAYERS)
    layers, ops, names = rows.strings("layer"), rows.strings("op"), rows.strings("name")
    paths, told = rows.strings("path"), _told(rows)
    process, thread = rows.ints("process").tolist(), rows.ints("thread").tolist()
    for row in order.tolist():
        place = _track(process[row], thread[row])
        layer, op, path = layers[row], str(ops[row]), paths[row]
        arguments = {
            key: value for key, values in told.items() if (value := values[row]) is not None
        }
        if path is not None:
            arguments["path"] = encode_path(path)
        title = f"{op} {names[row] or _last(path)}".strip()
        event = {"name": encode_path(title), "cat": layer, **place, "args": arguments}
        at = _us(int(start_ns[row]))
        if not finished[row]:
            yield {"ph": "i", "s": "t", "ts": at, **event}
        elif nests[row]:
            duration = _us(int(end_ns[row] - start_ns[row]))
            yield {"ph": "X", "ts": at, "dur": duration, **event}
        else:
            yield {"ph": "b", "ts": at, "id": row, **event}
            end = {key: event[key] for key in ("name", "cat", "pid", "tid")}
            yield {"ph": "e", "ts": _us(int(end_ns[row])), "id": row, **end}


def _last(path: str | None) -> str:
    return "" if path is None else path.rpartition("/")[2]


def _told(rows: Trace) -> dict[str, list[Any]]:
    """Return the columns that slices tell, None for null."""
    told: dict[str, list[Any]] = {}
    for name in _TOLD:
        if name in ("engine", "api", "dtype", "target"):
            told[name] = [None if t is None else encode_path(t) for t in rows.strings(name)]
        else:
            values = zip(rows.ints(name).tolist(), rows.valid(name).tolist(), strict=True)
            told[name] = [value if valid else None for value, valid in values]
    return told


def _nesting(rows: Trace, start_ns: IntArray, end_ns: IntArray, order: IntArray) -> list[bool]:
    """Return which rows lie on their thread's track: spans and requests that nest there."""
    candidates = ~rows.row_mask(layer="tensor")
    process, thread = rows.ints("process").tolist(), rows.ints("thread").tolist()
    starts, ends = start_ns.tolist(), end_ns.tolist()
    open_ends: dict[tuple[int, int], list[int]] = {}
    nests = [False] * len(rows)
    for row in order.tolist():
        if not candidates[row]:
            continue
        stack = open_ends.setdefault((process[row], thread[row]), [])
        while stack and stack[-1] <= starts[row]:
            stack.pop()
        if not stack or ends[row] <= stack[-1]:
            stack.append(ends[row])
            nests[row] = True
    return nests


def _values(trace: Trace) -> Iterator[Event]:
    """Yield the counters that were captured."""
    rows = trace.layer("counter")
    columns = (rows.ints("process"), rows.ints("start_ns"), rows.ints("result"))
    for name, *numbers in zip(rows.strings("name"), *(c.tolist() for c in columns), strict=True):
        process, start_ns, value = numbers
        if name is not None:
            title = encode_path(name)
            yield _counter(process, title, _us(start_ns), {"value": value})


def _in_flight(trace: Trace, op: str) -> Iterator[Event]:
    """Yield how many requests of one op each process has in flight, at each change."""
    rows = trace.where(trace.row_mask(layer=REQUEST_LAYERS, op=op) & trace.valid("end_ns"))
    process = rows.ints("process")
    for number in np.unique(process).tolist():
        own = rows.where(process == number)
        times = np.concatenate([own.ints("start_ns"), ends_ns(own)])
        steps = np.repeat([1, -1], len(own))
        order = np.argsort(times, kind="stable")
        at, first = np.unique(times[order], return_index=True)
        last = np.append(first[1:], len(order)) - 1
        level = np.cumsum(steps[order])[last]
        for ns, value in zip(at.tolist(), level.tolist(), strict=True):
            yield _counter(number, f"{op}s in flight", _us(ns), {"requests": value})


def _counter(process: int, name: str, ts: float, value: Event) -> Event:
    return {"ph": "C", "name": name, "pid": process + 1, "ts": ts, "args": value}
