"""Where the time of a save or load goes, through a mapped file too, with every figure known."""

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iotrace.traces.metadata import Metadata, Process
from iotrace.traces.phases import Phase
from iotrace.traces.trace import Strings, Trace
from iotrace.traces.verdict.split import RankSplit
from iotrace.traces.verdict.verdict import examine

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


@given(st.lists(st.lists(st.tuples(*[st.integers(0, 9)] * 2), max_size=4), min_size=1, max_size=4))
def test_a_process_is_in_requests_as_long_as_without_the_others(
    writes: list[list[tuple[int, int]]],
) -> None:
    """What the others do changes what it waits for, not how long its own requests took."""

    def rows_of(rank: int) -> list[R]:
        begun = [span("save", 0, 20, rank=rank)]
        own = [moved("write", a, a + b, 0, 4096, rank=rank) for a, b in writes[rank]]
        return [*begun, *own, R("sync", 15, 18, flags=0, rank=rank)]

    together = only(verdict_on(*(row for rank in range(len(writes)) for row in rows_of(rank))))
    for rank, found in enumerate(together.split):
        (single,) = only(verdict_on(*rows_of(rank))).split
        assert found.rank == single.rank == rank
        assert (found.io_seconds, found.sync_seconds) == (single.io_seconds, single.sync_seconds)
        assert (found.requests, found.bytes) == (single.requests, single.bytes)
        assert found.seconds == single.seconds
        assert found.seconds == pytest.approx(
            found.io_seconds + found.sync_seconds + found.rank_seconds + found.between_seconds
        )


def test_ranks_cost_little_each() -> None:
    """The largest jobs have 100,000: what takes a millisecond for each, or looks at all of them
    for each, takes minutes or hours."""
    ranks = 20_000
    rows = 3 * ranks
    kind, rank = np.repeat(np.arange(3, dtype=np.int32), ranks), np.tile(np.arange(ranks), 3)
    start_ns = np.array([0, 1_000, 5_000])[kind] + rank
    trace = Trace.from_columns(
        {
            "layer": Strings(np.array([1, 0, 0], np.int32)[kind], ["request", "span"]),
            "op": Strings(kind, ["save", "write", "sync"]),
            "engine": Strings.constant("torch.save", rows),
            "path": Strings(rank.astype(np.int32), [f"/c/{i}.pt" for i in range(ranks)]),
            "process": rank,
            "rank": rank,
            "step": np.zeros(rows, np.int64),
            "file": rank,
            "start_ns": start_ns,
            "end_ns": start_ns + np.array([9_000, 3_000, 2_000])[kind],
            "offset": np.zeros(rows, np.int64),
            "length": np.full(rows, 4096),
            "result": np.full(rows, 4096),
        },
        Metadata(processes=tuple(Process(i) for i in range(ranks))),
    )
    begun = time.process_time()
    (found,) = examine(trace).findings
    assert time.process_time() - begun < 10  # 1 s, where it was minutes
    assert len(found.split) == ranks
    assert found.split[-1].io_seconds == 3e-6
    assert found.background is not None
