"""How long saving or loading took."""

from __future__ import annotations

import numpy as np
import pytest

from iotrace.traces.elapsed import PAUSE_NS, busy_ns, steps_seconds

SECOND = 10**9
OUTSIDE = -1


def seconds(*rows: tuple[int, float, float, bool]) -> float:
    """Return what requests took, each given as step, start, end, and whether it closes."""
    step, start, end, lingers = zip(*rows, strict=True)
    return steps_seconds(
        np.array(step),
        (np.array(start) * SECOND).astype(np.int64),
        (np.array(end) * SECOND).astype(np.int64),
        np.array(lingers),
    )


def test_a_step_takes_as_long_as_its_engine_is_at_it() -> None:
    assert seconds((3, 10, 11, False), (3, 14, 15, False)) == pytest.approx(5)
    assert seconds((3, 10, 11, False), (4, 14, 15, False)) == pytest.approx(2)


def test_lines_of_a_log_do_not_make_a_save_of_the_time_between_them() -> None:
    """A job that writes start.log, sleeps, saves, sleeps, and writes done.log."""
    log = [(OUTSIDE, 0, 0.001, False), (OUTSIDE, 9, 9.001, False)]
    assert seconds(*log, (0, 4, 4.15, False)) == pytest.approx(0.152)


def test_without_an_engine_short_gaps_count_and_pauses_do_not() -> None:
    """What an unknown engine does between its writes is of the save; seconds of sleep are not."""
    first = [(OUTSIDE, 0.05 * n, 0.05 * n + 0.01, False) for n in range(20)]
    second = [(OUTSIDE, 5 + 0.05 * n, 5 + 0.05 * n + 0.01, False) for n in range(20)]
    assert seconds(*first, *second) == pytest.approx(2 * (0.95 + 0.01))
    assert PAUSE_NS == SECOND // 10


def test_a_close_long_after_counts_by_itself() -> None:
    """The mapping of a loaded file goes when the job drops the model, hours later."""
    load = [(0, 0, 1, False), (0, 0.5, 0.6, True)]
    assert seconds(*load) == pytest.approx(1)
    assert seconds(*load, (0, 3600, 3600.25, True)) == pytest.approx(1.25)
    assert seconds(*load, (0, 1.01, 1.51, True)) == pytest.approx(1.5)  # it waits for storage
    assert seconds((0, 0, 1, False), (0, 0.9, 1.5, True)) == pytest.approx(1.5)
    assert seconds((0, 3600, 3600.25, True)) == pytest.approx(0.25)


def test_requests_of_several_processes_are_not_counted_twice() -> None:
    assert seconds((OUTSIDE, 0, 2, False), (OUTSIDE, 1, 3, False)) == pytest.approx(3)
    assert busy_ns(np.array([5, 0, 20]), np.array([9, 10, 30])) == 20
    assert busy_ns(np.array([], np.int64), np.array([], np.int64)) == 0


def test_numbers_of_a_damaged_trace_do_not_overflow() -> None:
    far = 2**63 - 1
    times = np.array([-far, far - 1]), np.array([-far, far])
    found = steps_seconds(np.array([0, 0]), *times, np.zeros(2, bool))
    assert found == pytest.approx(2 * far / 1e9)
    assert steps_seconds(np.array([-1, -1]), *times, np.zeros(2, bool)) == pytest.approx(
        2 / 1e9, abs=5
    )
