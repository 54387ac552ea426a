"""Saving and loading are told apart by what files were opened for."""

import os

import numpy as np
import pytest

from iotrace.traces.phases import Phase, phase_seconds, phases, timed_seconds
from iotrace.traces.trace import Ints, Strings, Trace
from tests.traces.conftest import small_trace

SAVE, LOAD, OTHER = Phase.SAVE, Phase.LOAD, Phase.OTHER
WRITING, READING, BOTH = os.O_WRONLY | os.O_CREAT, os.O_RDONLY, os.O_RDWR


def trace_of(*rows: tuple[str, int | None, int | None]) -> Trace:
    """Return requests (op, file, open flags) in this order."""
    ops, files, flags = zip(*rows, strict=True)
    return small_trace(
        len(rows),
        op=Strings.of(ops),
        file=Ints(np.array([f or 0 for f in files]), np.array([f is not None for f in files])),
        flags=Ints(np.array([f or 0 for f in flags]), np.array([f is not None for f in flags])),
    )


def test_what_follows_an_open_goes_with_it() -> None:
    """torch.load seeks and reads; a save may read back its header; both close."""
    trace = trace_of(
        ("open", 1, WRITING),
        ("open", 2, READING),
        ("write", 1, None),
        ("read", 2, None),
        ("close", 1, None),
        ("map", 2, None),
        ("close", 2, None),
        ("open", 3, BOTH),
        ("read", 3, None),
        ("close", 3, None),
    )
    assert phases(trace).tolist() == [SAVE, LOAD, SAVE, LOAD, SAVE, LOAD, LOAD, SAVE, LOAD, SAVE]


def test_a_read_of_the_descriptor_that_wrote_is_of_a_load_unless_more_is_written() -> None:
    """A header read back and written anew is of the save; what comes after the last write loads."""
    trace = trace_of(
        ("open", 1, BOTH),
        ("write", 1, None),
        ("read", 1, None),
        ("write", 1, None),
        ("read", 1, None),
        ("sync", 1, None),
        ("read", 1, None),
        ("close", 1, None),
        ("open", 1, BOTH),
        ("write", 1, None),
        ("write", 2, None),
    )
    assert phases(trace).tolist() == [SAVE] * 4 + [LOAD, SAVE, LOAD] + [SAVE] * 4


@pytest.mark.parametrize(
    ("read_bytes", "phase"),
    [(10 * 4096, SAVE), (10 * 4096 + 1, LOAD), (100 * 40960, LOAD)],
)
def test_reads_before_one_late_write_are_of_a_load_unless_they_are_small(
    read_bytes: int, phase: Phase
) -> None:
    """A header is small beside a checkpoint; a footer that is written last makes no save of it."""
    moved = [0, 100 * 40960 - 1, read_bytes, 1, 0, 5000, 5000, 1]
    trace = trace_of(
        ("open", 1, BOTH),
        ("write", 1, None),
        ("read", 1, None),
        ("write", 1, None),
        ("open", 1, BOTH),  # another opening: it writes little
        ("write", 1, None),
        ("read", 1, None),
        ("write", 1, None),
    ).with_columns({"result": np.array(moved)})
    assert phases(trace).tolist() == [SAVE, SAVE, phase, SAVE, SAVE, SAVE, LOAD, SAVE]


def late_write(read_ns: int, gap_ns: int, step: int) -> Trace:
    """Return ten writes, ten slow reads with a gap before each, and one late write."""
    start_ns = [0, *range(10, 110, 10), *(110 + gap_ns + n * (read_ns + gap_ns) for n in range(10))]
    took_ns = [1, *([10] * 10), *([read_ns] * 10), 10]
    start_ns.append(start_ns[-1] + read_ns + gap_ns)
    trace = trace_of(
        ("open", 1, BOTH),
        *([("write", 1, None)] * 10),
        *([("read", 1, None)] * 10),
        ("write", 1, None),
    )
    return trace.with_columns(
        {
            "result": np.array([0, *([1 << 20] * 20), 1]),
            "start_ns": np.array(start_ns),
            "end_ns": np.array(start_ns) + np.array(took_ns),
            "step": np.full(22, step),
        }
    )


@pytest.mark.parametrize("read_ns", [10**8, 1000])
def test_time_in_which_only_reads_ran_is_none_of_writing(read_ns: int) -> None:
    """Whether the reads take longer than a pause or not."""
    trace = late_write(read_ns, 0, -1)
    assert phase_seconds(trace, SAVE) * 1e9 == pytest.approx(101 + 9 + 10)
    assert phase_seconds(trace, LOAD) * 1e9 == pytest.approx(10 * read_ns)


def test_gaps_between_reads_are_of_reading() -> None:
    """The job computes between requests: that time is part of what it is at."""
    trace = late_write(1000, 100, -1)
    assert phase_seconds(trace, SAVE) * 1e9 == pytest.approx(110 + 2 * 100 + 10)
    assert phase_seconds(trace, LOAD) * 1e9 == pytest.approx(10 * 1000 + 9 * 100)


def test_reads_of_a_save_count_with_the_reads() -> None:
    """An engine that verifies what it has saved reads as fast as it reads."""
    trace, phase = late_write(1000, 0, 0), np.full(22, SAVE, np.uint8)
    assert timed_seconds(trace, phase, LOAD) * 1e9 == pytest.approx(10 * 1000)
    window_ns = 101 + 9 + 10 * 1000 + 10
    assert timed_seconds(trace, phase, SAVE) * 1e9 == pytest.approx(window_ns)


def test_a_read_of_the_descriptor_that_wrote_is_of_the_span_it_is_in() -> None:
    """Saves and loads take turns on one descriptor; spans of another process say nothing."""
    trace = small_trace(
        9,
        op=Strings.of(["open", "save", "write", "read", "load", "read", "read", "write", "read"]),
        layer=Strings.of(["span" if row in (1, 4) else "request" for row in range(9)]),
        file=np.ones(9, np.int32),
        flags=Ints(np.full(9, BOTH), np.arange(9) == 0),
        start_ns=np.array([0, 10, 11, 12, 30, 30, 40, 60, 70]),
        end_ns=np.array([1, 20, 12, 13, 40, 31, 41, 61, 71]),
    )
    expected = [SAVE, SAVE, SAVE, SAVE, LOAD, LOAD, LOAD, SAVE, LOAD]
    assert phases(trace).tolist() == expected
    elsewhere = trace.with_columns({"process": np.array([0, 1, 0, 0, 1, 0, 0, 0, 0])})
    assert phases(elsewhere)[5:7].tolist() == [SAVE, SAVE]


def test_the_last_open_of_the_same_file_decides() -> None:
    """A checkpoint is written, closed, and read back under one identity."""
    trace = trace_of(
        ("open", 1, WRITING), ("close", 1, None), ("open", 1, READING), ("close", 1, None)
    )
    assert phases(trace).tolist() == [SAVE, SAVE, LOAD, LOAD]


def test_files_of_other_processes_are_other_files() -> None:
    trace = trace_of(("open", 1, WRITING), ("open", 1, READING), ("close", 1, None)).with_columns(
        {"process": np.array([0, 1, 0])}
    )
    assert phases(trace).tolist() == [SAVE, LOAD, SAVE]


def test_an_open_that_was_not_seen_leaves_the_op_to_decide() -> None:
    trace = trace_of(
        ("read", 1, None),
        ("advise", 2, None),
        ("close", 3, None),
        ("sync", 4, None),
        ("stat", None, None),
        ("open", 5, None),
        ("open", 6, READING),
        ("read", None, None),
    )
    assert phases(trace).tolist() == [LOAD, LOAD, OTHER, SAVE, OTHER, OTHER, LOAD, LOAD]


@pytest.mark.parametrize(
    "op", ["write", "sync", "truncate", "allocate", "rename", "link", "unlink", "mkdir", "rmdir"]
)
def test_what_changes_storage_is_of_the_save(op: str) -> None:
    trace = trace_of(("open", 1, READING), (op, 1, None))
    assert phases(trace).tolist() == [LOAD, SAVE]


def test_tensors_and_spans_are_what_their_op_says() -> None:
    trace = small_trace(
        5,
        layer=Strings.of(["tensor", "tensor", "span", "span", "counter"]),
        op=Strings.of(["save", "load", "load", "wait", "counter"]),
    )
    assert phases(trace).tolist() == [SAVE, LOAD, LOAD, OTHER, OTHER]


def test_seconds_are_summed_over_steps_and_not_over_the_pauses_between() -> None:
    """An hour of training between two checkpoints is not an hour of saving."""
    second = 10**9
    start_ns = np.array([0, 1, 3600, 3601, 3700, 9000]) * second
    trace = small_trace(
        6,
        op=Strings.of(["open", "write", "write", "write", "write", "read"]),
        flags=Ints(np.full(6, WRITING), np.arange(6) == 0),
        file=np.array([1, 1, 1, 1, 1, 2]),
        start_ns=start_ns,
        end_ns=Ints(start_ns + second, np.arange(6) != 4),
        step=Ints(np.array([0, 0, 1, 1, 0, 0]), np.array([True] * 4 + [False] * 2)),
        process=np.array([0, 1, 0, 1, 0, 0]),
    )
    assert phase_seconds(trace, SAVE) == pytest.approx(2 + 2 + 0)  # the last write has no end
    assert phase_seconds(trace, LOAD) == pytest.approx(1)
    assert phase_seconds(small_trace(0), SAVE) == 0.0


def test_spans_do_not_lengthen_the_time_of_requests() -> None:
    trace = small_trace(
        2,
        layer=Strings.of(["span", "request"]),
        op=Strings.of(["save", "write"]),
        end_ns=np.array([10**12, 20]),
    )
    assert phase_seconds(trace, SAVE) == pytest.approx(10e-9)
