"""The first request that failed, in words."""

from __future__ import annotations

import errno
import os

from iotrace.tools.render import file_name, format_count
from iotrace.traces.verdict.failures import Failure, Failures
from iotrace.traces.words import plural


def first_failure(failures: Failures) -> str:
    """Return the first request that failed, or else that fell short, and how many failed after it.

    One of either must be known.
    """
    first, short = failures.first_error, failures.first_short
    if first is None:
        assert short is not None
        return (
            f"{plural(failures.short, 'write')} fell short, first {_place(short)}: "
            f"{format_count(short.moved)} of {format_count(short.length)} bytes"
        )
    text = f"{_errno_name(first)}: {_place(first)}"
    if short is not None:
        text += (
            f"; before it a write moved {format_count(short.moved)} of "
            f"{format_count(short.length)} bytes{_at(short)}"
        )
    more = failures.errors - 1
    return f"{text}; {plural(more, 'error')} more" if more else text


def _errno_name(failure: Failure) -> str:
    """Return `No space left on device (ENOSPC)`."""
    number = failure.errno or 0
    name = errno.errorcode.get(number)
    return f"{os.strerror(number)} ({name})" if name else f"error {number}"


def _place(failure: Failure) -> str:
    where = f"{failure.op} of {file_name(failure.path)}"
    if failure.length:
        where = (
            f"{failure.op} of {format_count(failure.length)} bytes{_at(failure)} "
            f"of {file_name(failure.path)}"
        )
    if failure.tensor:
        where += f", tensor {failure.tensor}"
    elif failure.after_tensor:
        where += f", after tensor {failure.after_tensor}"
    return where + (f", rank {failure.rank}" if failure.rank >= 0 else "")


def _at(failure: Failure) -> str:
    return "" if failure.offset is None else f" at {format_count(failure.offset)}"
