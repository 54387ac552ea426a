"""Which open each request of a file went through."""

import os
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from iotrace.replay.grouping import grouped, numbered
from iotrace.replay.job import Op, is_op
from iotrace.replay.recorded import UNKNOWN, Recorded
from iotrace.traces.sync_kind import syncs_folder

Ints = npt.NDArray[np.int64]
Indices = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]

BY_HANDLE = (Op.OPEN, Op.CLOSE, Op.READ, Op.WRITE, Op.SYNC, Op.ALLOCATE, Op.TRUNCATE)
_NEVER_OPENS = (Op.SYNC, Op.TRUNCATE, Op.CLOSE)
# Opens of one file at a time that are told apart; a job that leaks more keeps the last ones.
OPEN_AT_A_TIME = 256
_UNFIT = {Op.READ: os.O_WRONLY, Op.WRITE: os.O_RDONLY, Op.ALLOCATE: os.O_RDONLY}

Opened = tuple[int, int, int]  # instance, thread, access mode


@dataclass(frozen=True, eq=False)
class Instances:
    """The opens of a trace, those that happened before it began included.

    Attributes:
        of_row: per recorded request its open, or -1.
        first_row: per open, the recorded request it came from or comes right before.
        is_implicit: per open, whether it lies before the trace.
    """

    of_row: Indices
    first_row: Ints
    is_implicit: Mask


def find_instances(recorded: Recorded) -> Instances:
    """Attribute every request to an open of its file in its process.

    An open lasts until the file's close in that process. Where several are open at a time, a
    request belongs to the last one that its own thread opened in a fitting mode, else to the
    last fitting one.
    """
    of_row = np.full(len(recorded), -1, np.int32)
    rows, starts = _by_file(recorded)
    if not len(rows):
        return Instances(of_row, np.zeros(0, np.int64), np.zeros(0, np.bool_))
    size = np.diff(np.append(starts, len(rows)))
    opens, one_by_one = _one_by_one(recorded.at("op", rows), starts, size)
    plain = np.repeat(one_by_one, size)
    of_row[rows[plain]] = np.cumsum(opens[plain], dtype=np.int32) - np.int32(1)
    first_row = rows[plain & opens].tolist()
    implicit = [False] * len(first_row)
    if not plain.all():
        group = np.repeat(starts[~one_by_one], size[~one_by_one])
        _walk(recorded, rows[~plain], group, of_row, first_row, implicit)
    return Instances(of_row, np.array(first_row, np.int64), np.array(implicit, np.bool_))


def _by_file(recorded: Recorded) -> tuple[Ints, Ints]:
    """Return the requests that need an open, by file, and where those of each file begin."""
    of_folder = (recorded["op"] == Op.SYNC) & syncs_folder(recorded["flags"])
    rows = np.flatnonzero(is_op(recorded["op"], BY_HANDLE) & ~of_folder)
    key = numbered(recorded.at("process", rows), recorded.at("file", rows))
    order = grouped(key)
    key = key[order]
    return rows[order], np.flatnonzero(np.append(True, key[1:] != key[:-1])[: len(key)])


def _one_by_one(op: npt.NDArray[np.uint8], starts: Ints, size: Ints) -> tuple[Mask, Mask]:
    """Return which requests are opens, and which files have just one open at a time."""
    opens, closes = op == Op.OPEN, op == Op.CLOSE
    before = np.cumsum(closes, dtype=np.int32)
    before -= closes
    outstanding = np.cumsum(opens, dtype=np.int32)
    outstanding -= before
    base = outstanding[starts] - opens[starts]
    outstanding -= np.repeat(base, size)
    return opens, np.minimum.reduceat(outstanding == 1, starts)


def _walk(
    recorded: Recorded,
    rows: Ints,
    group: Ints,
    of_row: Indices,
    first_row: list[int],
    implicit: list[bool],
) -> None:
    """Attribute the rows of files with several opens at a time, or none."""
    columns = (rows, group, *(recorded.at(name, rows) for name in ("op", "thread", "flags")))
    current = -1
    opened: list[Opened] = []
    for row, place, op, thread, flags in zip(*(c.tolist() for c in columns), strict=True):
        if place != current:
            current, opened = place, []
        chosen = None if op == Op.OPEN else _likeliest(opened, op, thread)
        if chosen is None:
            if op in _NEVER_OPENS:
                continue
            chosen = (len(first_row), thread, _access(flags) if op == Op.OPEN else os.O_RDWR)
            opened = [*opened[1 - OPEN_AT_A_TIME :], chosen]
            first_row.append(row)
            implicit.append(op != Op.OPEN)
        of_row[row] = chosen[0]
        if op == Op.CLOSE:
            opened.remove(chosen)


def _access(flags: int) -> int:
    return os.O_RDWR if flags == UNKNOWN else flags & os.O_ACCMODE


def _likeliest(opened: list[Opened], op: int, thread: int) -> Opened | None:
    """Return the open that a request of `thread` went through, if any fits."""
    unfit = _UNFIT.get(Op(op))
    fitting = [one for one in opened if one[2] != unfit]
    own = [one for one in fitting if one[1] == thread]
    candidates = own or fitting
    return candidates[-1] if candidates else None
