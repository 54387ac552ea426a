"""Whole replays: what is written, measured, proved and reported."""

import os
import resource
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from iotrace.replay.build import plan_from_trace
from iotrace.replay.job import Op
from iotrace.replay.loop import Tape, probe_uring, resident_bytes
from iotrace.replay.options import ReplayOptions
from iotrace.replay.pieces import PAST_END
from iotrace.replay.plan import Plan
from iotrace.replay.result import Outcome, RecordedSummary
from iotrace.replay.session import replay
from iotrace.replay.sketch import sketch, sketch_trace
from iotrace.replay.target import probe_target
from iotrace.replay.transforms.align import Align
from iotrace.replay.transforms.coalesce import Coalesce
from iotrace.replay.transforms.direct import Direct
from iotrace.replay.transforms.select import Select
from iotrace.replay.transforms.split import Split
from iotrace.replay.verify import find_mismatch
from iotrace.traces.environment import describe_host
from iotrace.traces.metadata import Host, Metadata, Mount, Process, RecordedOn
from iotrace.traces.summary import summarize

from .session_run import NOTHING, SAVE_AND_LOAD, nothing_is_left, run

CORPUS = Path(__file__).parents[2] / "traces" / "corpus"


def surprises(outcome: Outcome, root: Path) -> tuple[str, ...]:
    """What was done otherwise than asked, where the file system can do all of it."""
    target = probe_target(root)
    able = target.evicts and target.direct_is_effective and probe_uring() is None
    return outcome.degraded if able else ()


@pytest.mark.parametrize("executor", ["posix", "io_uring"])
@pytest.mark.parametrize("queue_depth", [1, 16])
@pytest.mark.parametrize(
    "chain",
    [
        [],
        [Coalesce()],
        [Coalesce(gather="vectored")],
        [Split(10_000)],
        [Coalesce(65536), Direct()],
        [Align()],
        [Coalesce(), Align(), Direct()],
        [Select(phases=("load",)), Direct()],
    ],
    ids=lambda chain: "+".join(type(one).__name__ for one in chain) or "recorded",
)
def test_every_byte_is_where_it_belongs(
    tmp_path: Path, executor: str, queue_depth: int, chain: list[Callable[[Plan], Plan]]
) -> None:
    """Through either executor, at any depth, however the plan was transformed."""
    plan = sketch(SAVE_AND_LOAD)
    for transform in chain:
        plan = transform(plan)
    outcome = run(plan, tmp_path, executor=executor, queue_depth=queue_depth, verify=True)
    assert outcome.errors == ()
    assert outcome.verified is True
    assert surprises(outcome, tmp_path) == ()
    counts, moved = plan.counts(), outcome.repetitions[0].moved
    assert (moved.bytes_written, moved.bytes_read) == (counts.bytes_written, counts.bytes_read)
    assert (moved.requests, moved.files) == (counts.requests, counts.files)
    past_end = plan.pieces["length"][plan.pieces["file"] == PAST_END].sum()
    assert 0 <= moved.padding_bytes - counts.padding_bytes <= past_end  # what was padded is read
    assert nothing_is_left(tmp_path)


def test_the_last_bytes_of_a_file_survive_direct_io(tmp_path: Path) -> None:
    """Every tail from 1 to 4097 bytes: padded to a block on the way, and cut off again."""
    tails = range(1, 4098)
    lines = (
        f"open {tail} w+create\nwrite {tail} 0 4096\nwrite {tail} 4096 {tail}\nclose {tail}"
        for tail in tails
    )
    plan = Direct()(Coalesce()(sketch("\n".join(lines))))
    outcome = run(plan, tmp_path, verify=True, keep=True)
    assert outcome.verified is True
    assert (outcome.errors, surprises(outcome, tmp_path)) == ((), ())
    kept = Path(str(outcome.workspace))
    assert [(kept / str(tail)).stat().st_size for tail in tails] == [4096 + t for t in tails]
    opens = plan.requests["flags"][plan.requests["op"] == Op.OPEN]
    assert (opens & os.O_DIRECT != 0).all()


def test_one_flipped_byte_is_found(tmp_path: Path) -> None:
    """A verification that cannot fail proves nothing."""
    plan = Direct()(Coalesce()(sketch(SAVE_AND_LOAD)))
    outcome = run(plan, tmp_path, keep=True)
    file = Path(str(outcome.workspace)) / "run" / "model"
    root_fd = os.open(str(outcome.workspace), os.O_RDONLY)
    with Tape(4 << 20, seed=1) as other_payload:
        assert "bytes differ" in str(find_mismatch(plan, other_payload, root_fd))
    with Tape(4 << 20) as tape:
        assert find_mismatch(plan, tape, root_fd) is None
        for offset in (0, 4100, 300_000, 304_176):
            flip(file, offset)
            assert f"run/model: 1 byte differs, first at {offset:,}" == find_mismatch(
                plan, tape, root_fd
            )
            flip(file, offset)
        os.truncate(file, 304_176)
        assert "304176 bytes instead of 304177" in str(find_mismatch(plan, tape, root_fd))
        file.unlink()
        assert "No such file" in str(find_mismatch(plan, tape, root_fd))
    os.close(root_fd)


def flip(path: Path, offset: int) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 1]))


def test_what_a_job_only_read_is_prepared_off_the_clock(tmp_path: Path) -> None:
    """A restore is replayed without its checkpoint: written before, synced and evicted."""
    plan = Select(phases=("load",))(sketch(SAVE_AND_LOAD))
    (one,) = run(plan, tmp_path, verify=True).repetitions
    assert one.prepared.files == 2
    assert one.prepared.size_bytes == 304_177 + 105_000
    if probe_target(tmp_path).evicts:
        assert one.prepared.resident_bytes == 0
    assert (one.moved.bytes_written, one.write_seconds, one.durable_seconds) == (0, 0.0, 0.0)
    assert one.read_seconds > 0


def test_repetitions_start_on_fresh_files_and_are_timed_each(tmp_path: Path) -> None:
    """O_EXCL would fail on the second one otherwise; a warm-up is run and not counted."""
    plan = sketch("open a w+create+excl\nwrite a 0 8192\nclose a\nopen b r\nread b 0 10\nclose b")
    seen: list[tuple[str, int, int]] = []
    options = ReplayOptions(root=tmp_path, repeat=3, warmup=1)
    outcome = replay(plan, NOTHING, options, lambda *stage: seen.append(stage))
    assert outcome.errors == ()
    result = outcome.to_json("t.parquet")["replayed"]
    for name in ("write_seconds", "read_seconds", "durable_seconds"):
        assert len(result[name]) == 3
        assert min(result[name]) > 0
    runs = [4 * done / total for stage, done, total in seen if stage == "run"]
    assert runs == sorted(runs)  # a run of seconds tells of itself in between
    assert {0, 1, 2, 3, 4} <= set(runs)


def test_times_of_runs_that_failed_or_were_not_begun_are_null(tmp_path: Path) -> None:
    """A list has an entry for each run that was asked for, and none is of half a plan."""
    plan, runs = sketch(f"open a w+create\nwrite a 0 {1 << 20}\nclose a"), []
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def limit(stage: str, done: int, total: int) -> None:
        runs.append(4 * done // total)
        if runs[-1] == 2:
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 19, before[1]))

    try:
        outcome = replay(plan, NOTHING, ReplayOptions(root=tmp_path, repeat=4), limit)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert set(runs) - {3} == {0, 1, 2}  # 3: of a failing run that took seconds
    assert "File too large" in outcome.errors[0]
    result = outcome.to_json("t.parquet")
    for name in ("write_seconds", "read_seconds", "durable_seconds", "allocate_seconds"):
        assert [one is None for one in result["replayed"][name]] == [False, False, True, True]
    assert result["intervals"]["write_seconds"]["kind"] == "range"


def test_the_object_of_a_replay_has_the_documented_keys(tmp_path: Path) -> None:
    """Others' programs read it."""
    trace = sketch_trace(SAVE_AND_LOAD)
    plan = Coalesce(1 << 20)(plan_from_trace(trace))
    options = ReplayOptions(root=tmp_path, verify=True)
    result = replay(plan, RecordedSummary.of(trace), options).to_json("t.parquet")
    totals = {"requests", "data_requests", "files", "bytes_written", "bytes_read"}
    assert list(result) == [
        "trace", "executor", "submission_thread", "uncached", "transforms", "layout", "recorded",
        "planned", "replayed",
        "verified", "unproved_bytes", "simulated", "degraded", "errors", "workers", "intervals",
        "ranks", "fidelity",
    ]  # fmt: skip
    assert result["transforms"] == ["coalesce(size_bytes=1048576, gather=copy)"]
    assert set(result["recorded"]) == totals | {"write_seconds", "read_seconds", "lent_memory"}
    assert set(result["planned"]) == totals | {"padding_bytes"}
    assert set(result["replayed"]) == totals | {
        "padding_bytes", "write_seconds", "read_seconds", "drain_seconds", "durable_seconds",
        "latency_us", "source_seconds", "allocate_seconds", "lateness_us", "copied_bytes",
    }  # fmt: skip
    assert set(result["replayed"]["latency_us"]) == {"p50", "p99", "max"}
    assert result["recorded"]["data_requests"] == 8
    assert result["planned"]["data_requests"] == 4


@pytest.mark.parametrize(
    "again", ["open t w+create\nwrite t 0 9\nclose t\nrename t f", "unlink f\nopen f w+create"]
)
def test_a_file_made_anew_is_counted_once(tmp_path: Path, again: str) -> None:
    """As in the recording and in the result: a checkpoint that replaces the last is one file."""
    trace = sketch_trace(f"open f w+create\nwrite f 0 10\nclose f\n{again}")
    outcome = run(plan_from_trace(trace), tmp_path)
    found = (
        RecordedSummary.of(trace).files,
        outcome.plan.counts().files,
        outcome.repetitions[0].moved.files,
        len(summarize(outcome.to_trace("t.parquet", Metadata())).files),
    )
    assert found == (1, 1, 1, 1)


def test_a_result_is_a_trace_and_can_be_replayed(tmp_path: Path) -> None:
    """Every command that reads traces reads results: same requests, same bytes."""
    trace = sketch_trace(SAVE_AND_LOAD)
    outcome = run(plan_from_trace(trace), tmp_path)
    result = outcome.to_trace("t.parquet", Metadata(command=("python", "train.py")))
    before, after = summarize(trace), summarize(result)
    assert (after.requests, after.data_requests) == (before.requests, before.data_requests)
    assert (after.bytes_written, after.bytes_read) == (before.bytes_written, before.bytes_read)
    assert [file.path for file in after.files] == [file.path for file in before.files]
    (one,) = outcome.repetitions
    assert after.write_seconds == pytest.approx(one.write_seconds)
    assert after.read_seconds == pytest.approx(one.read_seconds)
    assert result.metadata.history[-1].action == "replay"
    again = run(plan_from_trace(result), tmp_path, verify=True)
    assert again.verified is True
    assert again.repetitions[0].moved == one.moved


def test_a_result_names_where_it_ran_and_where_it_was_recorded(tmp_path: Path) -> None:
    """Two sites that replay one trace are told apart; the rows' machine is this one."""
    plan = plan_from_trace(sketch_trace(SAVE_AND_LOAD))
    there = Metadata(
        epoch_realtime_ns=5,
        hosts=(Host("login"), Host("n1", boot_id="b", kernel="5.14")),
        mounts=(Mount("/scratch", host=1, file_system="lustre"),),
        processes=(Process(7, host=1),),
    )
    began_ns = time.time_ns()
    result = run(plan, tmp_path).to_trace("t.parquet", there).metadata
    assert result.hosts == (describe_host(),)
    (mount,) = result.mounts
    assert (mount.file_system, mount.host) == (probe_target(tmp_path).file_system, 0)
    assert tmp_path.is_relative_to(mount.path) and "rw" in mount.options.split(",")
    assert [process.host for process in result.processes] == [0]
    assert result.recorded_on == RecordedOn(there.hosts, there.mounts)
    assert began_ns < result.epoch_realtime_ns < time.time_ns()
    assert list(tmp_path.iterdir()) == []
    dry = run(plan, tmp_path, executor="null").to_trace("t.parquet", there).metadata
    assert (dry.hosts, dry.mounts) == ((), ())  # nothing was measured anywhere


def test_saving_is_timed_per_step_from_first_start_to_last_end(tmp_path: Path) -> None:
    """Training between two checkpoints is not saving; recorded and replayed agree on that."""
    text = "step {0}\nopen {0} w+create\nwrite {0} 0 100\nclose {0}\n"
    trace = sketch_trace(text.format(0) + text.format(1))
    recorded = RecordedSummary.of(trace)
    assert recorded.write_seconds == pytest.approx(2 * (1.5e-6 + 0.5e-6))  # and the close
    plan = plan_from_trace(trace)
    plan = replace(plan, requests=plan.requests.having_at(3, think_ns=200_000_000))
    (one,) = run(plan, tmp_path, timing="think").repetitions
    whole_ns = one.timings["end_ns"].max() - one.timings["start_ns"].min()
    assert 0 < one.write_seconds * 1e9 <= whole_ns - 200_000_000
    assert one.timings["start_ns"][3] - one.timings["end_ns"][2] >= 200_000_000


def test_loads_are_cold_unless_asked_to_be_warm(tmp_path: Path) -> None:
    """A load of what was just saved is served from memory, and says nothing about the disk."""
    text = "open a w+create\nwrite a 0 8388608\nclose a\nopen a r\nread a 0 8388608\nclose a"
    cold = run(sketch(text), tmp_path, executor="posix").repetitions[0]
    warm = run(sketch(text), tmp_path, executor="posix", warm=True).repetitions[0]
    assert cold.flush_seconds > 0 == warm.flush_seconds
    assert cold.durable_seconds >= cold.write_seconds + cold.flush_seconds


def test_direct_io_stays_out_of_the_page_cache(tmp_path: Path) -> None:
    """Said to be direct and not being it is the classic mistake; here it is measured."""
    if not probe_target(tmp_path).direct_is_effective:
        pytest.skip("this file system has no direct I/O")
    plan = sketch("open a w+create\nwrite a 0 4194304\nclose a")
    for asked, expected in ((Direct()(plan), 0), (plan, 4194304)):
        outcome = run(asked, tmp_path, keep=True)
        assert outcome.degraded == ()
        fd = os.open(Path(str(outcome.workspace)) / "a", os.O_RDONLY)
        assert resident_bytes(fd) == expected
        os.close(fd)


def test_a_dry_run_touches_nothing(tmp_path: Path) -> None:
    """`null` checks the plan and counts; even the root need not be there."""
    outcome = run(sketch(SAVE_AND_LOAD), tmp_path / "nowhere", executor="null")
    assert not outcome.failed
    assert outcome.repetitions[0].moved.bytes_written == 304_177


def test_latencies_are_of_reads_and_writes_in_all_repetitions(tmp_path: Path) -> None:
    """Opens and closes are requests of another kind."""
    outcome = run(sketch(SAVE_AND_LOAD), tmp_path, repeat=2)
    assert len(outcome.latencies_ns()) == 2 * 8
    assert len(outcome.latencies_ns(Op.OPEN)) == 2 * 3
    assert np.all(outcome.latencies_ns() > 0)
