"""Where the time of a load through a mapped file goes, with every figure known."""

import pytest

from iotrace.traces.phases import Phase
from iotrace.traces.verdict.split import RankSplit

from .rows import R, moved, only, span, verdict_on

_MS = 1_000_000


def counted(at: float, **values: int) -> list[R]:
    """Return rows of counters, read at `at` ms."""
    return [
        R("counter", at, at, layer="counter", name=name, file=None, result=value)
        for name, value in values.items()
    ]


def split_of(*, user_ms: int, system_ms: int, queued_ms: int, faults: int = 1) -> RankSplit:
    """Return how a load of 2 s was spent: 1 s in a read, then 1 s without requests."""
    names = ("user_cpu_ns", "system_cpu_ns", "processor_wait_ns")
    used = dict(zip(names, (one * _MS for one in (user_ms, system_ms, queued_ms)), strict=True))
    (found,) = only(
        verdict_on(
            span("load", 0, 2000),
            *counted(0, device_read_bytes=0, **dict.fromkeys(names, 0)),
            moved("read", 0, 1000, 0, 1 << 20),
            *(R("fault", 1500, 1500, offset=1 << 20, length=4096) for _ in range(faults)),
            *counted(2000, device_read_bytes=1 << 22, **used),
        ),
        Phase.LOAD,
    ).split
    parts = (found.io_seconds, found.sync_seconds, found.rank_seconds)
    assert sum((*parts, found.fault_seconds, found.between_seconds)) == found.seconds == 2
    assert found.io_seconds == 1
    return found


def test_time_on_a_processor_that_the_read_may_have_had_may_be_page_faults() -> None:
    """The kernel's 1 s was the read's copying, or went by between: the faults took up to 1 s."""
    found = split_of(user_ms=0, system_ms=1000, queued_ms=0)
    assert found.fault_seconds == 1
    assert found.computing_seconds == (0, 1)
    assert (found.between_seconds, found.waiting_seconds) == (0, 0)


@pytest.mark.parametrize(
    ("user_ms", "system_ms", "least"), [(250, 0, 0.25), (0, 1250, 0.25), (250, 1250, 0.5)]
)
def test_time_that_is_sure_to_have_been_computing_is_no_page_fault(
    user_ms: int, system_ms: int, least: float
) -> None:
    """The process's own time, and what of the kernel's is more than the read lasted."""
    found = split_of(user_ms=user_ms, system_ms=system_ms, queued_ms=100)
    assert found.fault_seconds == pytest.approx(1 - least)
    assert found.between_seconds == pytest.approx(least)
    assert found.waiting_seconds == 0


def test_without_page_faults_the_rest_is_a_wait_for_something_else() -> None:
    """Neither computing, at most, nor waiting for a processor."""
    found = split_of(user_ms=250, system_ms=0, queued_ms=100, faults=0)
    assert (found.fault_seconds, found.between_seconds) == (0, 1)
    assert found.computing_seconds == (0.25, 0.25)
    assert found.waiting_seconds == pytest.approx(0.65)
