"""A recording that is given twice is found; ranks, hosts, steps and containers are none."""

from dataclasses import replace

import numpy as np

from iotrace.traces.metadata import HistoryEntry, Host, Metadata, Process
from iotrace.traces.repeats import find_repeat
from iotrace.traces.trace import Ints, Trace
from tests.traces.conftest import small_trace


def recording(boot: str, pid: int, start_ticks: int | None = 5, first_seq: int = 0) -> Trace:
    """Three requests of one process, each of 1, 2, 3 ns."""
    metadata = Metadata(
        epoch_realtime_ns=1000,
        epoch_monotonic_ns=10,
        hosts=(Host("n", boot),),
        processes=(Process(pid, start_ticks=start_ticks),),
    )
    end_ns = Ints(np.arange(3) * 11 + 1, np.ones(3, np.bool_))
    return small_trace(3, metadata, seq=np.arange(3) + first_seq, end_ns=end_ns)


def test_the_same_trace_is_found_with_both_places() -> None:
    """With the host known or not."""
    for trace in (recording("a", 1), recording("a", 1, None), recording("", 1)):
        assert find_repeat([recording("b", 2), trace, recording("c", 3), trace]) == (1, 3)


def test_a_copy_with_another_history_epoch_and_fewer_rows_is_found() -> None:
    """Such as one that was recovered from the same raw logs, or merged before."""
    trace = recording("a", 1)
    metadata = trace.metadata.with_history(HistoryEntry("recover"))
    metadata = replace(metadata, epoch_realtime_ns=900)
    other = Trace(trace.table.slice(1), metadata)
    other = other.with_columns({
        name: Ints(other.ints(name) + 100, np.ones(2, np.bool_)) if name == "end_ns"
        else other.ints(name) + 100
        for name in ("start_ns", "end_ns")
    })  # fmt: skip
    assert find_repeat([trace, other]) == (0, 1)


def test_parts_of_one_job_are_no_repeat() -> None:
    """Ranks of a host, hosts, a pid used again, steps of one process."""
    assert find_repeat([recording("a", 1), recording("a", 2), recording("b", 1)]) is None
    assert find_repeat([recording("a", 1), recording("a", 1, start_ticks=6)]) is None
    assert find_repeat([recording("a", 1), recording("a", 1, first_seq=3)]) is None
    assert find_repeat([recording("", 1), recording("", 2)]) is None
    assert find_repeat([]) is None


def test_a_copy_among_containers_of_one_host_is_found() -> None:
    """The third is like the first, with another between them that shares pid, start and seq."""
    first = recording("a", 1)
    other = first.with_columns({"start_ns": np.array([0, 12, 19])})
    assert find_repeat([first, other, first]) == (0, 2)


def test_containers_of_one_host_are_no_repeat() -> None:
    """Each has a process 1, and both may start in one tick; their requests differ in time."""
    first = recording("a", 1)
    second = first.with_columns({"start_ns": np.array([0, 12, 19])})
    assert find_repeat([first, second]) is None


def shared(trace: Trace, clock: str, **columns: object) -> Trace:
    """Return what sharing leaves of it: no boot, no pid, times from 0."""
    metadata = Metadata(clock=clock, processes=(Process(1),), extra={"card": clock})
    first_ns = trace.ints("start_ns").min()
    end_ns = Ints(trace.ints("end_ns") - first_ns, np.ones(len(trace), np.bool_))
    times = {"start_ns": trace.ints("start_ns") - first_ns, "end_ns": end_ns}
    return trace.with_metadata(metadata).with_columns(times | columns)


def long_recording(durations_ns: np.ndarray) -> Trace:
    """A process of so many requests, one every 100 ns."""
    count = len(durations_ns)
    start_ns = np.arange(count) * 100 + 5000
    trace = small_trace(count, recording("a", 1).metadata, seq=np.arange(count))
    end_ns = Ints(start_ns + durations_ns, np.ones(count, np.bool_))
    return trace.with_columns({"start_ns": start_ns, "end_ns": end_ns})


def test_a_shared_copy_is_found_under_any_key_and_in_part() -> None:
    """Nothing names its processes, but no two requests in a row take as long by chance."""
    whole = long_recording(np.arange(1, 21))
    one, other = shared(whole, "one"), shared(whole, "other")
    for copies in ([one, other], [whole, one], [one, Trace(one.table.slice(3), other.metadata)]):
        assert find_repeat(copies) == (0, 1)
    assert find_repeat([long_recording(np.arange(2, 22)), other, one]) == (1, 2)


def test_shared_traces_that_are_alike_by_their_making_are_no_repeat() -> None:
    """Even times of synthetic traces; other ranks of them; steps of one process; few requests."""
    even, whole = long_recording(np.full(20, 7)), long_recording(np.arange(1, 21))
    assert find_repeat([shared(even, "one"), shared(even, "other")]) is None
    other_rank = shared(whole, "other", rank=np.full(20, 1, np.int32))
    assert find_repeat([shared(whole, "one"), other_rank]) is None
    halves = [Trace(whole.table.slice(at, 10), whole.metadata) for at in (0, 10)]
    assert (
        find_repeat([shared(half, clock) for half, clock in zip(halves, "ab", strict=True)]) is None
    )
    few = Trace(whole.table.slice(0, 7), whole.metadata)
    assert find_repeat([shared(few, "one"), shared(few, "other")]) is None
