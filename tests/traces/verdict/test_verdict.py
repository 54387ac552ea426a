"""The verdict on hand-made traces, with every figure known."""

import errno
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from iotrace.traces.phases import Phase
from iotrace.traces.reader import read_trace
from iotrace.traces.trace import Ints
from iotrace.traces.verdict.verdict import examine

from .rows import CREATE, SAVE, R, moved, only, span, tensor, verdict_on

CORPUS = Path(__file__).parents[3] / "traces" / "corpus"


def test_wall_time_is_split_into_requests_syncs_and_the_rest() -> None:
    """`Is it the disk, the CPU, or are we waiting?`; the parts add up."""
    (rank,) = only(verdict_on(*SAVE)).split
    assert rank.seconds == pytest.approx(0.010)
    assert rank.io_seconds == pytest.approx(0.0045)  # open 1, writes 3, close 0.5
    assert rank.sync_seconds == pytest.approx(0.003)
    assert rank.between_seconds == pytest.approx(0.0025)
    assert rank.rank_seconds == 0
    assert rank.gap_seconds == pytest.approx(0.001)


def test_a_rank_that_is_done_waits_for_the_last_one() -> None:
    """The coordinator's manifest comes last, and does not make it the slow rank."""
    late = [
        replace(row, rank=1, path="/c/b.pt", start=row.start + 20, end=row.end + 20)
        for row in SAVE[1:]
    ]
    finding = only(
        verdict_on(
            *SAVE[1:],
            *late,
            span("save", 0, 32),
            span("save", 0, 32, rank=1),
            moved("write", 31, 31.5, 0, 10, path="/c/.metadata", file=9),
            tensor("x", 0, 150),
            tensor("y", 0, 150, path="/c/b.pt", rank=1),
        )
    )
    first, second = finding.split
    assert finding.slowest_rank is second
    assert first.rank_seconds == pytest.approx(0.0195)  # after its close, to the sync of the other
    assert second.rank_seconds == 0
    assert second.gap_seconds == pytest.approx(0.021)
    assert second.gap_before == "open b.pt"


def test_the_job_between_an_asynchronous_save_and_its_wait_is_not_the_saves() -> None:
    """A save in the background costs what it blocks."""
    finding = only(
        verdict_on(
            span("save", 0, 2),
            moved("write", 3, 5, 0, 100, thread=1),
            span("wait", 50, 51),
        )
    )
    behind = finding.background
    assert behind is not None and behind.asynchronous
    assert behind.call_seconds == pytest.approx(0.002)
    assert behind.blocked_seconds == pytest.approx(0.003)
    assert behind.hidden_bytes == 100
    assert finding.seconds == pytest.approx(0.005)  # the calls, and the writes behind them


@pytest.mark.parametrize("begins", [0, 2.1], ids=["TorchSnapshot", "DCP"])
def test_a_copy_is_made_by_who_asks_and_the_save_is_behind_it(begins: float) -> None:
    """TorchSnapshot marks the save on the thread that ends it, from the call on; DCP in its own."""
    finding = only(
        verdict_on(
            span("save", begins, 9, thread=1),
            span("stage", 0.1, 2),
            moved("write", 3, 5, 0, 100, thread=2),
            R("sync", 5, 8, flags=0, thread=2),
        )
    )
    behind, lasting = finding.background, finding.durability
    assert behind is not None and behind.asynchronous
    assert behind.call_seconds == behind.blocked_seconds == pytest.approx(0.0019)
    assert behind.hidden_seconds == pytest.approx(0.005)
    assert lasting is not None
    assert (lasting.synced, lasting.late_bytes, lasting.durable) == (1, 100, False)


def test_a_stage_that_the_job_marks_in_a_thread_is_no_call() -> None:
    """The save is synchronous all the same."""
    mark = span("stage", 1, 2, thread=1, engine=None)
    behind = only(verdict_on(*SAVE, mark)).background
    assert behind is not None and not behind.asynchronous


def test_a_few_bytes_beside_an_engine_are_no_load() -> None:
    """A file by which processes meet, where the engine only saves."""
    aside = replace(moved("read", 20, 21, 0, 1, path="/tmp/meet", file=7), step=None, engine=None)
    assert verdict_on(*SAVE, aside).of(Phase.LOAD) == ()
    (load,) = verdict_on(*SAVE, replace(aside, length=9, result=9)).of(Phase.LOAD)
    assert load.episode.moved_bytes == 9


def test_what_the_asking_thread_writes_after_its_call_is_not_in_the_background() -> None:
    """A save that failed: the file is closed, and what was left over written, by the job."""
    failed = replace(moved("write", 1, 2, 0, 100), result=-errno.ENOSPC)
    finding = only(verdict_on(span("save", 0, 2), failed, moved("write", 3, 5, 0, 100)))
    behind = finding.background
    assert behind is not None and not behind.asynchronous
    assert behind.hidden_seconds == 0
    assert finding.durability is not None and finding.durability.late_bytes == 100


def test_a_rank_that_writes_nothing_takes_part_all_the_same() -> None:
    """Its call is there, and it waits."""
    finding = only(verdict_on(*SAVE, span("save", 0, 10, rank=1)))
    assert [one.bytes for one in finding.split] == [150, 0]
    assert finding.background is not None and not finding.background.asynchronous


def test_bytes_are_counted_by_extent_over_ranks_and_within() -> None:
    """`How many times is every byte read?`"""
    reads = [
        moved("read", 1 + r, 2 + r, offset, 100, rank=rank)
        for r, (rank, offset) in enumerate([(0, 0), (0, 50), (1, 0), (1, 50)])
    ]
    amount = only(verdict_on(*reads), Phase.LOAD).amplification
    assert amount.moved_bytes == 400
    assert amount.unique_bytes == 150
    assert amount.rank_unique_bytes == 300
    assert amount.over_ranks == pytest.approx(400 / 150)
    assert amount.by_rank == pytest.approx(400 / 300)


def test_requests_at_unknown_places_are_in_no_place() -> None:
    """Not all at the first byte, which would be read again and again."""
    nowhere = [R("read", i, i + 0.5, length=4096, result=4096) for i in range(9)]
    finding = only(verdict_on(*nowhere, tensor("w", 0, 4096, op="load")), Phase.LOAD)
    amount, shape = finding.amplification, finding.data
    assert (amount.moved_bytes, amount.placed_bytes, amount.over_ranks) == (9 * 4096, 0, None)
    assert shape is not None and shape.aligned_share is None
    assert finding.slowest.requests[0].offset is None
    assert (finding.slowest.requests[0].tensor, finding.slowest.tensors) == (None, ())
    failed = replace(nowhere[0], result=-errno.EIO)
    first = verdict_on(failed, tensor("w", 0, 4096, op="load")).failures.first_error
    assert first is not None and (first.offset, first.tensor) == (None, None)


def test_what_a_killed_process_read_is_not_said_to_be_cached() -> None:
    """There is no count of it; of the other, half came from storage."""
    counter = R("counter", 9, 9, layer="counter", name="read_bytes", file=None, result=50)
    reads = [moved("read", 1, 2, 0, 100, rank=rank) for rank in (0, 1)]
    assert verdict_on(*reads, counter).cached_read_share == pytest.approx(50 / 200)
    assert verdict_on(*reads).cached_read_share is None


def test_a_view_is_seen_to_drag_its_storage_along() -> None:
    """`Is the file bigger than my model?`: 10 floats of a storage of 100 bytes."""
    amount = only(
        verdict_on(*SAVE, tensor("w", 0, 100, dtype="float32", shape=(10,)))
    ).amplification
    assert amount.spare_bytes == 60
    assert amount.spare_name == "w"
    assert amount.tensor_bytes == 100
    assert amount.foreign_bytes == 50


def test_two_tensors_of_one_storage_leave_nothing_over() -> None:
    """Tied weights share an extent: their needs add up."""
    rows = [tensor(name, 0, 100, dtype="uint8", shape=(60,)) for name in ("a", "b")]
    assert only(verdict_on(*SAVE, *rows)).amplification.spare_bytes == 0


def test_a_tensor_written_by_two_ranks_counts_twice() -> None:
    """Replicas that were not deduplicated."""
    rows = [tensor("w", 0, 100), tensor("w", 0, 100, path="/c/b.pt", rank=1)]
    amount = only(verdict_on(*SAVE, *rows)).amplification
    assert amount.repeated_bytes == 100
    assert [(one.name, one.times) for one in amount.repeated] == [("w", 2)]


def test_what_the_job_opened_before_the_save_counts_for_its_requests() -> None:
    """An engine gets a file that is open: past the page cache, or not."""
    for flags, share in ((CREATE | os.O_DIRECT, 1.0), (CREATE, 0.0)):
        opening = replace(SAVE[1], flags=flags, step=None, start=-9, end=-8)
        finding = only(verdict_on(opening, SAVE[0], *SAVE[2:4]))
        assert finding.shapes["write"].direct_share == share


def test_the_first_error_is_told_with_the_short_write_before_it() -> None:
    """`unexpected pos 704 vs 598`: what really happened."""
    failures = verdict_on(
        *SAVE[:2],
        R("open", 0.5, 0.6, path="/c/none", file=None, flags=0, result=-errno.ENOENT),
        R("write", 2, 4, offset=0, length=100, result=60),
        R("write", 5, 6, offset=60, length=40, result=-errno.ENOSPC),
        R("write", 7, 8, offset=60, length=40, result=-errno.EIO),
        tensor("w", 50, 50),
    ).failures
    assert failures.first_error is not None and failures.first_short is not None
    assert failures.first_error.errno == errno.ENOSPC
    assert failures.first_error.tensor == "w"
    assert (failures.errors, failures.short) == (2, 1)
    assert failures.first_short.moved == 60


def test_requests_are_measured_by_size_depth_and_what_joining_would_leave() -> None:
    """Two threads at a time; the first thread's are adjacent."""
    shape = only(
        verdict_on(
            moved("write", 0, 2, 0, 10),
            moved("write", 2, 4, 10, 10),
            moved("write", 0, 4, 100, 20, thread=1),
        )
    ).data
    assert shape is not None
    assert (shape.count, shape.bytes, shape.typical_bytes) == (3, 40, 10)
    assert shape.depth == pytest.approx(2.0)
    assert shape.joined_count == 2
    assert shape.rate == pytest.approx(40 / 0.004)


@pytest.mark.parametrize(
    ("took_ms", "size", "expected"), [(1, 4096, True), (0.01, 4096, False), (1, 1 << 20, False)]
)
def test_round_trips_are_told_from_slow_bytes(took_ms: float, size: int, expected: bool) -> None:
    """Small, one at a time, and far slower than any local device: the number is the cause."""
    rows = [moved("write", i * 2, i * 2 + took_ms, i * size, size) for i in range(12)]
    shape = only(verdict_on(*rows)).data
    assert shape is not None and shape.is_round_trips is expected


def test_a_trace_without_checkpoints_has_nothing_to_say() -> None:
    """No row, no finding, no error."""
    verdict = verdict_on(R("mkdir", 0, 1, path="/c", file=None, step=None, engine=None))
    assert all(finding.data is None for finding in verdict.findings)


@pytest.mark.parametrize("seed", range(4))
def test_numbers_that_no_job_ever_had_are_no_reason_to_fail(seed: int) -> None:
    """A trace comes from a stranger."""
    random = np.random.default_rng(seed)
    trace = read_trace(CORPUS / "dcp.parquet")
    rows = len(trace)
    ids = ("file", "step", "flags", "thread", "process", "rank")
    changed: dict[str, object] = {}
    for name in ("offset", "length", "result", "end_ns", "tensor_offset", *ids):
        if random.random() < 0.5:
            limit = 100 if name in ids else 1 << 62
            low = 0 if name in ids[3:] else -limit
            changed[name] = Ints(random.integers(low, limit, rows), np.ones(rows, np.bool_))
    if random.random() < 0.5:
        changed["start_ns"] = random.integers(0, 1 << 62, rows)
    verdict = examine(trace.with_columns(changed))
    assert len(verdict.requests)
