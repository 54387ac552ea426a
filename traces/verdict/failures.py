"""Requests that failed or fell short, the first ones first, and the tensors they hit."""

from __future__ import annotations

import errno
from dataclasses import dataclass

import numpy as np

from iotrace.traces.columns import Mask
from iotrace.traces.requests import Requests
from iotrace.traces.trace import Trace
from iotrace.traces.verdict.tensors import TensorsOf

# Answers to a question, not failures: is it there, may it be made, does it have this attribute.
_ANSWERS = {
    "open": (errno.ENOENT, errno.EEXIST, errno.ENOTDIR, errno.ENXIO),
    "stat": (errno.ENOENT, errno.ENOTDIR),
    "unlink": (errno.ENOENT,),
    "mkdir": (errno.EEXIST, errno.ENOENT),  # the parents come first
    "rmdir": (errno.ENOTEMPTY, errno.ENOENT),
    "getxattr": (errno.ENODATA, errno.EOPNOTSUPP, errno.ENOENT),
}
_TRY_AGAIN = (errno.EAGAIN, errno.EINTR, errno.ECANCELED)


@dataclass(frozen=True)
class Failure:
    """A request that failed (`errno` is set) or moved less than asked.

    Attributes:
        row: index among the requests.
        offset: `None` where it is not known.
        tensor: the tensor whose bytes it was to move, where one is known.
        after_tensor: else the last tensor before it in the file.
    """

    row: int
    op: str
    path: str | None
    target: str | None
    rank: int
    offset: int | None
    length: int
    moved: int
    errno: int | None
    start_ns: int
    tensor: str | None
    after_tensor: str | None


@dataclass(frozen=True)
class Failures:
    """The first error, the last short transfer before it, and how many there are in all."""

    first_error: Failure | None
    first_short: Failure | None
    errors: int
    short: int


def find_failures(requests: Requests, trace: Trace) -> Failures:
    """Return what went wrong in the requests of a trace."""
    errors = _errors(requests)
    short = requests.is_op("write") & requests.has_result & (requests.result >= 0)
    short &= requests.result < requests.length
    first = int(errors.argmax()) if errors.any() else None
    cut = None
    if short.any():
        cut = int(short.argmax())
        if first is not None:  # the one that the error follows
            before = np.flatnonzero(short[:first] & (requests.file[:first] == requests.file[first]))
            cut = int(before[-1]) if len(before) else None
    return Failures(
        first_error=None if first is None else _describe(requests, trace, first),
        first_short=None if cut is None else _describe(requests, trace, cut),
        errors=int(errors.sum()),
        short=int(short.sum()),
    )


def _errors(requests: Requests) -> Mask:
    bad = requests.has_result & (requests.result < 0)
    bad &= ~np.isin(requests.result, [-code for code in _TRY_AGAIN])
    for op, codes in _ANSWERS.items():
        bad &= ~(requests.is_op(op) & np.isin(requests.result, [-code for code in codes]))
    return bad


def _describe(requests: Requests, trace: Trace, row: int) -> Failure:
    result = int(requests.result[row])
    code = int(requests.target[row])
    path = requests.path_of(row)
    offset = int(requests.offset[row]) if requests.has_offset[row] else None
    tensor = after = None
    if path and offset is not None and requests.is_data[row]:
        place = offset + max(result, 0)
        tensors = TensorsOf.request(requests, trace, row)
        tensor = tensors.at(place)
        after = None if tensor else tensors.last_before(place)
    return Failure(
        row=row,
        op=requests.ops[int(requests.op[row])],
        path=path,
        target=requests.targets[code] if code >= 0 else None,
        rank=int(requests.rank[row]),
        offset=offset,
        length=int(requests.length[row]),
        moved=max(result, 0),
        errno=-result if result < 0 else None,
        start_ns=int(requests.start_ns[row]),
        tensor=tensor,
        after_tensor=after,
    )
