"""Round trips and request sizes of a network file system, made on a local one."""

import json
from pathlib import Path

import numpy as np
import pytest

from iotrace.replay.executors.executor import Executor, LoopOptions
from iotrace.replay.loop import Tape
from iotrace.replay.options import ReplayOptions
from iotrace.replay.plan import Plan
from iotrace.replay.result import Outcome, RecordedSummary
from iotrace.replay.session import replay
from iotrace.replay.sketch import sketch, sketch_trace
from iotrace.replay.transforms.direct import Direct
from iotrace.replay.transforms.split import MaxRequest
from iotrace.traces.errors import PlanError
from iotrace.traces.writer import write_trace
from tests.tools.command import iotrace

from .job_builder import JobBuilder, run
from .slow_mount import slow_mount

MIB = 1 << 20
ROUND_TRIP_NS = 2_000_000
SAVE_AND_LOAD = f"""
open a w+create
write a 0 {3 * MIB}
write a {3 * MIB} 5000
sync a
close a
rename a b
open b r
read b 0 {2 * MIB}
close b
"""


def outcome_of(plan: Plan, root: Path, **options: object) -> Outcome:
    """Replay a plan."""
    recorded = RecordedSummary.of(sketch_trace(SAVE_AND_LOAD))
    return replay(plan, recorded, ReplayOptions(root=root, **options))  # type: ignore[arg-type]


@pytest.mark.parametrize("root", ["memory"], indirect=True)
def test_round_trips_of_requests_in_flight_do_not_add_up(
    executor: Executor, tape: Tape, root: Path
) -> None:
    """A queue of 8 hides seven of eight round trips; a loop that sleeps through them would not."""
    round_trip_ns = 10_000_000
    job = JobBuilder()
    handle = job.open("a")
    for i in range(64):
        job.write(handle, i * 4096, 4096)
    job.close(handle)
    options = LoopOptions(queue_depth=8, round_trip_ns=round_trip_ns)
    done = run(executor, job.build(), tape, root, options)
    took = done.timings["end_ns"] - done.timings["start_ns"]
    assert done.report.first_error is None and took.min() >= round_trip_ns
    whole = done.report.end_ns - done.report.start_ns
    assert whole >= (64 // 8 + 2) * round_trip_ns
    starts, ends = done.timings["start_ns"][1:-1], done.timings["end_ns"][1:-1]
    in_flight = [int(((starts <= at) & (ends > at)).sum()) for at in starts]
    assert 4 <= max(in_flight) <= 8  # threads of a busy machine may come late
    assert whole < took.sum() / 2  # of the same run: a slow machine is slow for both


@pytest.mark.parametrize("executor", ["io_uring", "posix"])
def test_names_and_syncs_cost_a_round_trip_and_the_result_says_so(
    tmp_path: Path, executor: str
) -> None:
    """Opens are what hurts on a parallel file system; numbers made up must not look measured."""
    plan = MaxRequest(MIB)(sketch(SAVE_AND_LOAD))
    done = outcome_of(plan, tmp_path, executor=executor, round_trip_seconds=0.002, verify=True)
    assert done.verified is True
    timings = done.repetitions[0].timings
    assert (timings["end_ns"] - timings["start_ns"]).min() >= ROUND_TRIP_NS
    said = ["each request took 2 ms longer", "requests were cut to 1 MiB"]
    assert done.to_json("x")["simulated"] == said
    assert outcome_of(sketch(SAVE_AND_LOAD), tmp_path).to_json("x")["simulated"] == []


def test_only_what_a_job_left_unsynced_costs_a_round_trip_in_the_end(tmp_path: Path) -> None:
    """Its own sync was the last already: a second one would count as time until durable."""
    unsynced = SAVE_AND_LOAD.replace("sync a\n", "")
    for text in (SAVE_AND_LOAD, unsynced):
        with slow_mount(tmp_path, 0.0, cached=True) as mount:
            done = outcome_of(sketch(text), tmp_path, round_trip_seconds=0.002, warm=True)
        assert done.errors == ()
        assert mount.seen["fsync"] == 1 + 1  # what the storage is like is tried first
    assert done.repetitions[0].sync_seconds >= 0.002


def test_the_same_requests_reach_a_slow_file_system(tmp_path: Path) -> None:
    """The simulation is as good as its likeness to a real one with that delay."""
    plan = sketch(SAVE_AND_LOAD)
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    simulated = outcome_of(
        MaxRequest(MIB)(plan), here, executor="posix", round_trip_seconds=0.002
    ).repetitions[0]
    with slow_mount(there, 0.002) as mount:
        real = outcome_of(plan, there, executor="posix", warm=True)
        seen = mount.seen
    assert real.errors == ()
    # The probe of the target writes 1 MiB twice before; the rest is the plan's, cut by the kernel.
    planned = simulated.moved.data_requests
    assert seen["read"] + seen["write"] - planned in (1, 2)
    took = real.repetitions[0].timings["end_ns"] - real.repetitions[0].timings["start_ns"]
    pieces = np.array([1, 3, 1, 1, 1, 1, 1, 2, 1])  # requests that each one became
    assert np.all(took >= pieces * ROUND_TRIP_NS)


def test_direct_io_is_not_cut_within_a_block() -> None:
    """The cut requests would be refused by the file system."""
    direct = Direct(4096)(sketch(SAVE_AND_LOAD))
    with pytest.raises(PlanError, match="--max-request 5000 would part blocks of 4096 bytes"):
        MaxRequest(5000)(direct)
    cut = MaxRequest(MIB)(direct)
    assert cut.requests["length"][cut.is_data()].max() == MIB


def test_the_command_line_takes_them(tmp_path: Path) -> None:
    """`--rtt 1ms --max-request 1MiB`, and a line that says the result is simulated."""
    trace = tmp_path / "trace.parquet"
    write_trace(sketch_trace(SAVE_AND_LOAD), trace)
    given = ["replay", str(trace), "--root", str(tmp_path)]
    asked = ["--rtt", "1ms", "--max-request", "1MiB", "--json", str(tmp_path / "result.json")]
    done = iotrace(*given, *asked)
    assert done.returncode == 0, done.stderr
    assert "SIMULATED" in done.stdout and "1 ms longer" in done.stdout
    result = json.loads((tmp_path / "result.json").read_text())
    assert len(result["simulated"]) == 2 and result["planned"]["data_requests"] == 6
    with pytest.raises(PlanError, match="--rtt must lie between 0 and 1s"):
        ReplayOptions(round_trip_seconds=2).check()
