"""A long call into C that an exception in Python, such as Ctrl-C's, ends early."""

import _thread
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from iotrace.traces.errors import ReplayError

_STOP_POLL_SECONDS = 0.05


def call_stoppably(stop: Any, function: Callable[..., int], *arguments: Any) -> int:
    """Call `function` in a thread; an exception here ends it before it goes on.

    What is in flight is waited for: the kernel still works on the buffers. An exception may come
    between any two steps here, so nothing more than plain locks is used: Event and Thread can be
    left locked by it, and then wait for ever.

    Args:
        stop: where `function` looks for a byte that is not 0.
        function: returns 0 or -errno.

    Raises:
        ReplayError: no thread can be started.
    """
    result: list[int] = []
    begun: list[bool] = []
    abandoned: list[bool] = []
    ended: list[bool] = []
    gate, finished = _thread.allocate_lock(), _thread.allocate_lock()
    gate.acquire()
    finished.acquire()

    def work() -> None:
        gate.acquire()
        try:
            if not abandoned:
                result.append(function(*arguments))
        finally:
            ended.append(True)
            finished.release()

    try:
        try:
            _thread.start_new_thread(work, ())
        except RuntimeError as error:
            raise ReplayError("no thread can be started; raise `ulimit -u`") from error
        begun.append(True)
        gate.release()
        # No signal ends a plain wait where a library made it restart calls, as polars does.
        while not finished.acquire(timeout=_STOP_POLL_SECONDS):
            pass
    except BaseException:
        while not ended and not abandoned:
            with suppress(BaseException):
                stop[0] = 1
                if not begun:  # whether there is a thread is not known: it must not go on
                    abandoned.append(True)
                if gate.locked():
                    gate.release()
                finished.acquire(timeout=_STOP_POLL_SECONDS)
        raise
    return result[0]
