"""Rows of a trace as a person reads them: tensors by file, requests in order of time."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from iotrace.tools.render import (
    NONE,
    Column,
    Terminal,
    format_bytes,
    format_count,
    format_seconds,
    print_table,
    printable,
    shorten,
    table,
)
from iotrace.traces.schema import INT_COLUMNS, REQUEST_LAYERS
from iotrace.traces.trace import Trace

_MOST_SECONDS = 1e6  # a longer recording has a clock gone wrong
_TENSOR_KEYS = (
    *("op", "engine", "rank", "process", "step", "path", "name", "dtype", "shape", "device"),
    *("offset", "length", "tensor_offset"),
)
_REQUEST_KEYS = (
    *("seq", "op", "api", "rank", "process", "thread", "start_ns", "end_ns", "path", "target"),
    *("file", "offset", "length", "result", "offset_source", "flags", "step"),
)


@dataclass(frozen=True)
class Rows:
    """The first rows of one layer, and how many there are in all."""

    rows: list[dict[str, Any]]
    total: int


def tensor_rows(trace: Trace, limit: int | None) -> Rows:
    """Return the first `limit` tensors of `trace`, ordered by op, step, file and offset."""
    tensors = trace.layer("tensor")
    offset, path, step = tensors.ints("offset"), tensors.codes("path")[0], tensors.ints("step")
    order = np.lexsort((offset, path, step, tensors.row_mask(op="load")))  # last key first
    return _take(tensors, order, _TENSOR_KEYS, limit)


def request_rows(trace: Trace, limit: int | None) -> Rows:
    """Return the first `limit` requests of `trace` in order of start."""
    requests = trace.layer(*REQUEST_LAYERS)
    return _take(requests, np.arange(len(requests)), _REQUEST_KEYS, limit)


def print_tensors(terminal: Terminal, listed: Rows) -> None:
    """Print a table per save or load of a file."""
    columns = (
        Column("tensor", shrink=True),
        Column("dtype"),
        Column("shape"),
        Column("offset", right=True),
        Column("bytes", right=True),
    )
    for group in _groups(listed.rows):
        head = group[0]
        step = "" if head["step"] is None else f" {head['step']}"
        title = f"{head['engine'] or 'unknown engine'}, {head['op']}{step}: "
        path = printable(head["path"] or NONE)
        terminal.print(title + shorten(path, max(terminal.width - len(title), 20)))
        print_table(
            terminal,
            columns,
            (
                (
                    row["name"] or NONE,
                    row["dtype"] or NONE,
                    NONE if row["shape"] is None else "x".join(map(str, row["shape"])) or "scalar",
                    format_count(row["offset"]),
                    format_count(row["length"]),
                )
                for row in group
            ),
        )
        terminal.print()


def print_requests(terminal: Terminal, listed: Rows) -> None:
    """Print one table of requests; times count from the first one."""
    columns = (
        Column("at", right=True),
        Column("took", right=True),
        Column("op"),
        Column("offset", right=True),
        Column("length", right=True),
        Column("result", right=True),
        Column("path", shrink=True),
    )
    first_ns = listed.rows[0]["start_ns"] if listed.rows else 0
    exact = [_request_cells(row, first_ns, format_count) for row in listed.rows]
    if max(map(len, table(columns, exact, terminal.width))) <= terminal.width:
        print_table(terminal, columns, exact)
    else:
        rounded = [_request_cells(row, first_ns, format_bytes) for row in listed.rows]
        print_table(terminal, columns, rounded)


def _request_cells(
    row: dict[str, Any], first_ns: int, count: Callable[[int | None], str]
) -> Sequence[str]:
    at, end_ns = (row["start_ns"] - first_ns) / 1e9, row["end_ns"]
    path = row["path"] or NONE
    return (
        f"{at:.6f}" if at < _MOST_SECONDS else f"{at:.3g}",
        NONE if end_ns is None else format_seconds((end_ns - row["start_ns"]) / 1e9),
        row["op"],
        count(row["offset"]),
        count(row["length"]),
        _result(row["result"], count),
        f"{path} -> {row['target']}" if row["target"] else path,
    )


def _result(result: int | None, count: Callable[[int | None], str]) -> str:
    if result is None or result >= 0:
        return count(result)
    return errno.errorcode.get(-result, f"error {-result}")


def _groups(rows: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Split `rows` where another save or load, or another file, begins."""
    group: list[dict[str, Any]] = []
    for row in rows:
        if group and any(row[key] != group[0][key] for key in ("op", "step", "path")):
            yield group
            group = []
        group.append(row)
    if group:
        yield group


def _take(trace: Trace, order: np.ndarray, keys: Sequence[str], limit: int | None) -> Rows:
    chosen = order[: len(order) if limit is None else limit]
    mask = np.zeros(len(trace), np.bool_)
    mask[chosen] = True
    part = trace.where(mask)
    columns = [_column(part, key) for key in keys]
    rows = [dict(zip(keys, values, strict=True)) for values in zip(*columns, strict=True)]
    # `where` keeps the order of time: row i of `part` is the i-th smallest of `chosen`.
    rank = np.argsort(np.argsort(chosen))
    return Rows([rows[i] for i in rank], len(order))


def _column(trace: Trace, key: str) -> Sequence[Any]:
    if key == "shape":
        return trace.shapes()
    if key in INT_COLUMNS:
        valid = trace.valid(key)
        return [
            value if known else None
            for value, known in zip(trace.ints(key).tolist(), valid.tolist(), strict=True)
        ]
    return trace.strings(key)
