"""The verdict on hand-made traces, with every figure known."""

import errno
import os
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from iotrace.traces.intervals import Intervals
from iotrace.traces.metadata import Metadata, Process
from iotrace.traces.phases import Phase
from iotrace.traces.reader import read_trace
from iotrace.traces.trace import Ints, Shapes, Strings, Trace
from iotrace.traces.verdict.extents import Extents
from iotrace.traces.verdict.verdict import Finding, Verdict, examine

_CREATE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
_MS = 1_000_000
CORPUS = Path(__file__).parents[2] / "traces" / "corpus"


@dataclass(frozen=True)
class R:
    """A row; times are in ms."""

    op: str
    start: float
    end: float
    layer: str = "request"
    path: str = "/c/a.pt"
    target: str | None = None
    file: int | None = 0
    offset: int | None = None
    length: int | None = None
    result: int | None = 0
    flags: int | None = None
    rank: int = 0
    thread: int = 0
    step: int | None = 0
    engine: str | None = "torch.save"
    name: str | None = None
    dtype: str | None = None
    shape: tuple[int, ...] | None = None


def moved(op: str, start: float, end: float, offset: int, length: int, **more: object) -> R:
    return R(op, start, end, offset=offset, length=length, result=length, **more)


def tensor(name: str, offset: int, length: int, op: str = "save", **more: object) -> R:
    return R(op, 0, 0, layer="tensor", name=name, offset=offset, length=length, file=None, **more)


def span(op: str, start: float, end: float, **more: object) -> R:
    return R(op, start, end, layer="span", file=None, result=None, **more)


def verdict_on(*rows: R) -> Verdict:
    columns: dict[str, object] = {
        "start_ns": np.array([int(r.start * _MS) for r in rows]),
        "end_ns": np.array([int(r.end * _MS) for r in rows]),
        "rank": np.array([r.rank for r in rows]),
        "process": np.array([r.rank for r in rows]),
        "thread": np.array([r.thread for r in rows]),
        "shape": Shapes.of([r.shape for r in rows]),
    }
    for field in ("op", "layer", "path", "target", "engine", "name", "dtype"):
        columns[field] = Strings.of([getattr(r, field) for r in rows])
    for field in ("file", "offset", "length", "result", "flags", "step"):
        values = [getattr(r, field) for r in rows]
        known = np.array([v is not None for v in values])
        columns[field] = Ints(np.array([v or 0 for v in values], np.int64), known)
    return examine(Trace.from_columns(columns, Metadata(processes=(Process(1), Process(2)))))


def only(verdict: Verdict, phase: Phase = Phase.SAVE) -> Finding:
    (finding,) = verdict.of(phase)
    return finding


SAVE = (
    span("save", 0, 10),
    R("open", 1, 2, flags=_CREATE),
    moved("write", 2, 4, 0, 100),
    moved("write", 5, 6, 100, 50),
    R("sync", 6, 9, flags=0),
    R("close", 9, 9.5),
)


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


@pytest.mark.parametrize(
    ("rows", "durable", "early"),
    [
        (SAVE, True, 0),
        (SAVE[:4], False, 0),
        ((*SAVE, moved("write", 9.6, 9.7, 150, 8)), False, 1),
        ((*SAVE[:4], R("sync", 6, 7, file=None, path="/", flags=5)), True, 0),
        ((SAVE[0], replace(SAVE[1], flags=_CREATE | os.O_DSYNC), *SAVE[2:4]), True, 0),
        (
            (
                replace(SAVE[1], flags=_CREATE | os.O_DSYNC, step=None, start=-9, end=-8),
                SAVE[0],
                *SAVE[2:4],
            ),
            True,
            0,
        ),
        ((*SAVE, moved("write", 12, 13, 150, 8), R("sync", 13, 14, flags=0)), False, 0),
    ],
    ids=[
        "synced",
        "never",
        "synced before the last write",
        "sync of all",
        "O_DSYNC",
        "O_DSYNC by the job",
        "late",
    ],
)
def test_durable_is_what_was_on_storage_when_the_call_returned(
    rows: tuple[R, ...], durable: bool, early: int
) -> None:
    """`When save() returns, is it on disk?`"""
    lasting = only(verdict_on(*rows)).durability
    assert lasting is not None
    assert lasting.durable is durable
    assert len(lasting.early) == early


def test_what_the_job_opened_before_the_save_counts_for_its_requests() -> None:
    """An engine gets a file that is open: past the page cache, or not."""
    for flags, share in ((_CREATE | os.O_DIRECT, 1.0), (_CREATE, 0.0)):
        opening = replace(SAVE[1], flags=flags, step=None, start=-9, end=-8)
        finding = only(verdict_on(opening, SAVE[0], *SAVE[2:4]))
        assert finding.shapes["write"].direct_share == share


def test_a_file_that_was_cut_by_another_open_than_that_of_its_writes_is_truncated() -> None:
    """What it held before is lost to a crash either way."""
    assert SAVE[1].flags is not None and SAVE[1].flags & os.O_TRUNC
    again = replace(SAVE[1], flags=os.O_WRONLY, start=1.8, end=2)
    for rows, truncated in ((SAVE, 1), ((*SAVE[:2], again, *SAVE[2:]), 1), ((again, SAVE[2]), 0)):
        lasting = only(verdict_on(*rows)).durability
        assert lasting is not None
        assert (lasting.in_place, lasting.truncated) == (1, truncated)


def test_a_file_renamed_into_place_is_known_by_its_last_name() -> None:
    """A temporary name is no other file; a kill leaves the old one."""
    finding = only(
        verdict_on(
            *[replace(row, path="/c/.tmp") for row in SAVE[1:]],
            R("rename", 9.6, 9.7, path="/c/.tmp", target="/c/a.pt"),
            tensor("w", 0, 150),
        )
    )
    assert finding.durability is not None
    assert (finding.durability.renamed, finding.durability.in_place) == (1, 0)
    assert finding.amplification.foreign_bytes == 0
    assert finding.slowest.tensors[0].name == "w"


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


@pytest.mark.parametrize("seed", range(3))
def test_extents_agree_with_sets_of_bytes(seed: int) -> None:
    """Against counting one byte at a time."""
    random = np.random.default_rng(seed)
    one, two = (
        Extents(
            random.integers(3, size=40), random.integers(60, size=40), random.integers(9, size=40)
        )
        for _ in range(2)
    )

    def as_set(extents: Extents) -> set[tuple[int, int]]:
        columns = (extents.file.tolist(), extents.offset.tolist(), extents.length.tolist())
        return {(f, o + i) for f, o, n in zip(*columns, strict=True) for i in range(n)}

    assert one.unique_bytes() == len(as_set(one))
    assert one.shared_bytes(two) == len(as_set(one) & as_set(two))


def test_extents_far_apart_do_not_overflow() -> None:
    """A hostile trace has offsets near 2^62."""
    far = np.array([0, (1 << 62) - 8, (1 << 62) - 8])
    extents = Extents(np.array([0, 1, 2]), far, np.array([4, 4, 4]))
    assert extents.unique_bytes() == 12


@pytest.mark.parametrize("seed", range(3))
def test_intervals_agree_with_sets_of_points(seed: int) -> None:
    """Union, intersection and difference against counting."""
    random = np.random.default_rng(seed)
    starts = random.integers(80, size=(2, 12))
    ends = starts + random.integers(9, size=(2, 12))
    one, two = (Intervals.of(s, e) for s, e in zip(starts, ends, strict=True))
    points = [
        {p for s, e in zip(a.tolist(), b.tolist(), strict=True) for p in range(s, e)}
        for a, b in zip(starts, ends, strict=True)
    ]
    assert one.total == len(points[0])
    assert one.also(two).total == len(points[0] | points[1])
    assert one.within(two).total == len(points[0] & points[1])
    assert one.without(two).total == len(points[0] - points[1])


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


def test_the_slowest_request_names_the_tensor_of_most_of_its_bytes() -> None:
    """A write joins many tensors: the 4 bytes at its begin are not what took long."""
    finding = only(
        verdict_on(
            span("save", 0, 10),
            moved("write", 2, 8, 100, 100),
            tensor("before", 0, 100),
            tensor("step", 100, 4),
            tensor("average", 104, 50),
            tensor("average", 154, 40),
            tensor("last", 194, 60),
        )
    )
    (request,) = finding.slowest.requests
    assert (request.tensor, request.other_tensors) == ("average", 2)
    assert request.tensors == "average and 2 more"


def test_extents_past_the_largest_offset_end_there() -> None:
    last = 2**63 - 1
    found = verdict_on(
        span("save", 0, 9),
        moved("write", 1, 8, offset=last - 4, length=last, file=0),
        tensor("all", 0, last),
        tensor("tail", last - 2, last),
    )
    slowest = found.findings[0].slowest.requests[0]
    assert (slowest.tensor, slowest.other_tensors) == ("all", 1)


def test_a_request_of_no_place_holds_no_tensor() -> None:
    least = -(2**63)
    found = verdict_on(
        span("save", 0, 9),
        moved("write", 1, 8, offset=least, length=least, file=0),
        moved("write", 8, 9, offset=0, length=10, file=0),
        tensor("all", 0, 10),
    )
    assert [slow.tensor for slow in found.findings[0].slowest.requests] == [None, "all"]
