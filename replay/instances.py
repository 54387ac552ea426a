"""Which open each request of a file went through."""

import os
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from iotrace.replay.job import Op, is_op
from iotrace.replay.recorded import NULL, Recorded

Ints = npt.NDArray[np.int64]

BY_HANDLE = (Op.OPEN, Op.CLOSE, Op.READ, Op.WRITE, Op.SYNC, Op.ALLOCATE, Op.TRUNCATE)
_NEVER_OPENS = (Op.SYNC, Op.TRUNCATE, Op.CLOSE)
# Opens of one file at a time that are told apart; a job that leaks more keeps the last ones.
_OPEN_AT_A_TIME = 256
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

    of_row: Ints
    first_row: Ints
    is_implicit: npt.NDArray[np.bool_]


def find_instances(recorded: Recorded) -> Instances:
    """Attribute every request to an open of its file in its process.

    An open lasts until the file's close in that process. Where several are open at a time, a
    request belongs to the last one that its own thread opened in a fitting mode, else to the
    last fitting one.
    """
    rows = np.flatnonzero(is_op(recorded.op, BY_HANDLE))
    rows = rows[np.argsort(recorded.key[rows], kind="stable")]
    of_row = np.full(len(recorded), -1, np.int64)
    if not len(rows):
        return Instances(of_row, np.zeros(0, np.int64), np.zeros(0, np.bool_))
    group, plain = _group(recorded, rows)
    opens = recorded.op[rows] == Op.OPEN
    easy = rows[plain]
    of_row[easy] = np.cumsum(opens[plain]) - 1
    first_row = rows[plain & opens].tolist()
    implicit = [False] * len(first_row)
    hard = rows[~plain]
    if len(hard):
        _walk(recorded, hard, group[~plain], of_row, first_row, implicit)
    return Instances(of_row, np.array(first_row, np.int64), np.array(implicit, np.bool_))


def _group(recorded: Recorded, rows: Ints) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """Return the first place of each row's file, and whether its opens follow one another."""
    key = recorded.key[rows]
    starts = np.flatnonzero(np.concatenate([[True], key[1:] != key[:-1]]))
    size = np.diff(np.concatenate([starts, [len(rows)]]))
    opens = (recorded.op[rows] == Op.OPEN).astype(np.int64)
    closes = (recorded.op[rows] == Op.CLOSE).astype(np.int64)
    outstanding = np.cumsum(opens) - (np.cumsum(closes) - closes)
    base = (np.cumsum(opens) - opens - np.cumsum(closes) + closes)[starts]
    single = outstanding - np.repeat(base, size) == 1
    plain = np.minimum.reduceat(single, starts)
    return np.repeat(starts, size), np.repeat(plain, size).astype(np.bool_)


def _walk(
    recorded: Recorded,
    rows: Ints,
    group: Ints,
    of_row: Ints,
    first_row: list[int],
    implicit: list[bool],
) -> None:
    """Attribute the rows of files with several opens at a time, or none."""
    columns = (rows, group, recorded.op[rows], recorded.thread[rows], recorded.flags[rows])
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
            opened = [*opened[1 - _OPEN_AT_A_TIME :], chosen]
            first_row.append(row)
            implicit.append(op != Op.OPEN)
        of_row[row] = chosen[0]
        if op == Op.CLOSE:
            opened.remove(chosen)


def _access(flags: int) -> int:
    return os.O_RDWR if flags == NULL else flags & os.O_ACCMODE


def _likeliest(opened: list[Opened], op: int, thread: int) -> Opened | None:
    """Return the open that a request of `thread` went through, if any fits."""
    unfit = _UNFIT.get(Op(op))
    fitting = [one for one in opened if one[2] != unfit]
    own = [one for one in fitting if one[1] == thread]
    candidates = own or fitting
    return candidates[-1] if candidates else None
