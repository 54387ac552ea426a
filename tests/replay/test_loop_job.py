"""The job: one layout on both sides, and nothing malformed reaches C."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iotrace.replay._loop import ffi
from iotrace.replay.executors.executor import Executor, LoopOptions
from iotrace.replay.job import PIECE, REQUEST, TIMING, Fence, Job, Op, check_job, fence_counts
from iotrace.replay.loop import Tape
from iotrace.traces.errors import PlanError

from .job_builder import JobBuilder, run


@pytest.mark.parametrize(
    ("dtype", "struct"),
    [
        (REQUEST, "struct loop_request"),
        (PIECE, "struct loop_piece"),
        (TIMING, "struct loop_timing"),
    ],
)
def test_numpy_and_c_agree_on_every_offset(dtype: np.dtype, struct: str) -> None:
    """C reads the arrays in place: a field that slipped would be garbage, silently."""
    fields = dict(ffi.typeof(struct).fields)
    assert dtype.itemsize == ffi.sizeof(struct)
    assert set(dtype.names) == set(fields)
    for name, (kind, offset, *_) in dtype.fields.items():
        assert (offset, kind.itemsize) == (fields[name].offset, ffi.sizeof(fields[name].type))


def test_ops_are_the_ones_of_c() -> None:
    """A renumbered op would do something else to somebody's files."""
    names = ffi.typeof("enum loop_op").relements
    assert {f"LOOP_{op.name}": op.value for op in Op} == names


@given(st.lists(st.tuples(st.integers(-1, 3), st.integers(0, 2)), max_size=40))
def test_fence_counts_count_what_the_header_says(rows: list[tuple[int, int]]) -> None:
    """The loop orders requests by these counts alone."""
    requests = np.zeros(len(rows), REQUEST)
    for i, (file, fence) in enumerate(rows):
        requests["file"][i], requests["fence"][i] = file, fence
    expected = []
    for i, (file, _) in enumerate(rows):
        before = [fence for other, fence in rows[:i] if other == file and file >= 0]
        everywhere = sum(fence == Fence.ALL for _, fence in rows[:i])
        expected.append((len(before), sum(fence > 0 for fence in before), everywhere))
    assert list(zip(*map(np.ndarray.tolist, fence_counts(requests)), strict=True)) == expected


def small_job() -> Job:
    """Return open, two writes, close."""
    job = JobBuilder()
    handle = job.open("a")
    job.write(handle, 0, 100)
    job.write(handle, 100, 50, pieces=[(0, 100, 20), (-1, 0, 30)])
    job.close(handle)
    return job.build()


def changed(row: int, name: str, value: int) -> Job:
    """Return the small job with one field changed."""
    job = small_job()
    requests = job.requests.copy()
    requests[name][row] = value
    return replace(job, requests=requests)


@pytest.mark.parametrize(
    ("row", "name", "value"),
    [
        (1, "op", 0),
        (1, "op", 14),
        (1, "file", 1),
        (1, "file", -2),
        (1, "handle", 1),
        (1, "handle", -1),
        (0, "path", 1),
        (0, "path", -1),
        (0, "target", 5),
        (1, "stream", 1),
        (1, "stream", -1),
        (1, "offset", -1),
        (1, "length", 2**62),
        (1, "length", 99),
        (2, "first_piece", 2),
        (2, "first_piece", -1),
        (2, "first_piece", 2**63 - 1),
        (2, "piece_count", -1),
        (2, "piece_count", 2**31 - 1),
        (1, "due_ns", -1),
        (1, "think_ns", -5),
        (1, "fence", 3),
        (1, "fence", 1),
        (3, "file_before", 2),
        (3, "global_fences", 1),
        (1, "op", int(Op.OPEN)),
    ],
)
def test_a_malformed_request_is_refused(row: int, name: str, value: int) -> None:
    """An index out of range would read or write memory that is not ours."""
    with pytest.raises(PlanError, match="rebuild the plan"):
        check_job(changed(row, name, value))


def test_a_malformed_table_is_refused() -> None:
    """The same for what surrounds the requests."""
    job = small_job()
    broken = [
        replace(job, stream_order=np.array([0, 1, 2, 2], np.int64)),
        replace(job, stream_order=np.array([0, 1, 2], np.int64)),
        replace(job, stream_starts=np.array([0, 3], np.int64)),
        replace(job, stream_starts=np.array([], np.int64)),
        replace(job, stream_starts=np.array([0, 4], np.int32)),
        replace(job, stream_leads=np.array([1], np.int32)),
        replace(job, stream_leads=np.array([-1, -1], np.int32)),
        replace(job, requests=job.requests[::2]),
        replace(job, paths=("a\0b",)),
        replace(job, pieces=job.pieces[:1]),
        replace(job, handle_count=0),
    ]
    for each in broken:
        with pytest.raises(PlanError):
            check_job(each)
    negative = job.pieces.copy()
    negative["length"][1] = -1
    with pytest.raises(PlanError):
        check_job(replace(job, pieces=negative))
    check_job(job)


def test_sums_of_pieces_do_not_wrap_around() -> None:
    """Eight pieces of 2**61 bytes add up to 0 modulo 2**64."""
    job = JobBuilder()
    handle = job.open("a")
    job.write(handle, 0, 0, pieces=[(0, 0, 2**61)] * 8)
    with pytest.raises(PlanError, match="do not add up"):
        check_job(job.build())


def test_an_empty_job_runs(executor: Executor, tape: Tape, tmp_path: Path) -> None:
    """A rank that did no I/O is ordinary."""
    assert len(run(executor, JobBuilder().build(), tape, tmp_path).timings) == 0


def test_a_job_that_waits_for_itself_is_told_apart_from_a_hang(
    executor: Executor, tape: Tape, tmp_path: Path
) -> None:
    """Fences follow indices and streams follow their order: the two can contradict."""
    job = JobBuilder()
    handle = job.open("a")
    job.sync(handle)
    job.sync(handle)
    built = job.build()
    backwards = replace(built, stream_order=np.array([0, 2, 1], np.int64))
    with pytest.raises(PlanError, match="wait for each other"):
        run(executor, backwards, tape, tmp_path)


def test_a_queue_depth_of_none_is_refused(executor: Executor, tape: Tape, tmp_path: Path) -> None:
    """Nothing could ever start."""
    with pytest.raises(PlanError, match="queue depth"):
        run(executor, small_job(), tape, tmp_path, LoopOptions(queue_depth=0))
