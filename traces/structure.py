"""What a trace's requests are made of, for holding two traces side by side."""

import os
from dataclasses import dataclass

import numpy as np

from iotrace.traces.columns import CodeArray, IntArray
from iotrace.traces.open_flags import has_flag, opened_with
from iotrace.traces.schema import DATA_OPS, REQUEST_LAYERS
from iotrace.traces.trace import Trace

_COMPARED = ("offset", "length")

# What an open asked for, by name; O_SYNC holds the bit of O_DSYNC.
MODES = {
    "direct": os.O_DIRECT,
    "synchronous": os.O_DSYNC,
    "append": os.O_APPEND,
    "create": os.O_CREAT,
    "truncate": os.O_TRUNC,
}


@dataclass(frozen=True)
class Structure:
    """The requests of a trace, whatever their times.

    Attributes:
        ops: requests per op.
        apis: requests per api.
        modes: opens per flag of `MODES`.
        median_bytes: of the reads' and writes' lengths, per op.
        sequential_share: per op, part of the requests that begin where the one before of their
            process and file ended; None without any after the first.
        direct_share: per op, part of the requests on files whose last open asked for O_DIRECT.
    """

    ops: dict[str, int]
    apis: dict[str, int]
    modes: dict[str, int]
    median_bytes: dict[str, float]
    sequential_share: dict[str, float | None]
    direct_share: dict[str, float]


@dataclass(frozen=True)
class Order:
    """Whether two traces do the same in the same order.

    Attributes:
        streams: per trace, threads with requests.
        equal_streams: pairs, in order, whose requests are equal in op, file, offset and length.
        first_difference: the first request of a stream that differs, as (stream, place, what the
            first trace does there, what the second does); None: there is none.
    """

    streams: tuple[int, int]
    equal_streams: int
    first_difference: tuple[int, int, str, str] | None


def structure_of(trace: Trace) -> Structure:
    """Return what the requests of `trace` are made of."""
    rows = trace.layer(*REQUEST_LAYERS)
    flags = rows.ints("flags", null=0)
    opens = rows.row_mask(op="open")
    data = {op: rows.where(rows.row_mask(op=op)) for op in DATA_OPS}
    direct = has_flag(opened_with(rows), os.O_DIRECT)
    return Structure(
        ops=_counts(rows, "op"),
        apis=_counts(rows, "api"),
        modes={name: int((opens & (flags & bit != 0)).sum()) for name, bit in MODES.items()},
        median_bytes={
            op: float(np.median(part.ints("length", null=0))) if len(part) else 0.0
            for op, part in data.items()
        },
        sequential_share={op: _sequential_share(part) for op, part in data.items()},
        direct_share={
            op: float(direct[rows.row_mask(op=op)].mean()) if len(part) else 0.0
            for op, part in data.items()
        },
    )


def compare_order(first: Trace, second: Trace) -> Order:
    """Return whether two traces do the same, stream by stream, in the order of issue.

    Streams are paired in order of process and thread. Files are told by name. What failed changed
    nothing and is left out.
    """
    sides = [_succeeded(trace.layer(*REQUEST_LAYERS)) for trace in (first, second)]
    names: dict[str, int] = {}
    ops: dict[str, int] = {}
    streams = []
    for rows in sides:
        path, op = _shared_codes(rows, "path", names), _shared_codes(rows, "op", ops)
        offset, length = (_known(rows, name) for name in _COMPARED)
        keys = np.stack([op, path, offset, length], axis=1)
        order, bounds = _streams(rows)
        streams.append(np.split(keys[order], bounds) if len(rows) else [])
    equal, difference = 0, None
    for number, (mine, theirs) in enumerate(zip(*streams, strict=False)):
        place = _first_difference(mine, theirs)
        if place is None:
            equal += 1
        elif difference is None:
            texts = (list(ops), list(names))
            told = [_in_words(keys, place, *texts) for keys in (mine, theirs)]
            difference = (number, place, told[0], told[1])
    return Order((len(streams[0]), len(streams[1])), equal, difference)


def _succeeded(rows: Trace) -> Trace:
    return rows.where(rows.ints("result", null=0) >= 0)


def _counts(rows: Trace, column: str) -> dict[str, int]:
    codes, texts = rows.codes(column)
    counts = np.bincount(codes[codes >= 0], minlength=len(texts)).tolist()
    found = [(text, count) for text, count in zip(texts, counts, strict=True) if count]
    return dict(sorted(found, key=lambda item: (-item[1], item[0])))


def _file_keys(rows: Trace) -> IntArray:
    """Return one number per file of a process; -1 where there is none."""
    keys = (rows.ints("process") << 32) | (rows.ints("file") & 0xFFFFFFFF)
    return np.where(rows.valid("file"), keys, -1)


def _sequential_share(rows: Trace) -> float | None:
    keys = _file_keys(rows)
    order = np.argsort(keys, kind="stable")
    start, length = rows.ints("offset", null=-1)[order], rows.ints("length", null=0)[order]
    same = keys[order][1:] == keys[order][:-1]
    if not same.any():
        return None
    return float((start[1:] == start[:-1] + length[:-1])[same].mean())


def _shared_codes(rows: Trace, column: str, numbers: dict[str, int]) -> IntArray:
    """Return the column as numbers that mean the same in both traces; -1 is null."""
    codes, texts = rows.codes(column)
    renumbered = np.array([numbers.setdefault(text, len(numbers)) for text in texts] + [-1])
    return np.asarray(renumbered[codes.astype(np.int64)])


def _known(rows: Trace, column: str) -> IntArray:
    """Return a column of reads and writes; -1 for other ops, which traces tell differently."""
    return np.where(rows.row_mask(op=DATA_OPS), rows.ints(column), -1)


def _streams(rows: Trace) -> tuple[IntArray, IntArray]:
    """Return the rows by process, thread and issue, and where each but the first stream begins."""
    process, thread = rows.ints("process"), rows.ints("thread")
    order = np.lexsort((rows.ints("seq"), thread, process))
    keys = np.stack([process, thread])[:, order]
    return order, np.flatnonzero(np.any(keys[:, 1:] != keys[:, :-1], axis=0)) + 1


def _first_difference(mine: CodeArray, theirs: CodeArray) -> int | None:
    common = min(len(mine), len(theirs))
    differs = np.any(mine[:common] != theirs[:common], axis=1)
    if differs.any():
        return int(differs.argmax())
    return None if len(mine) == len(theirs) else common


def _in_words(keys: CodeArray, place: int, ops: list[str], names: list[str]) -> str:
    if place >= len(keys):
        return "nothing more"
    op, path, offset, length = keys[place].tolist()
    where = f" {length} at {offset}" if offset >= 0 else ""
    return f"{ops[op]}{where}{f', {names[path]}' if path >= 0 else ''}"
