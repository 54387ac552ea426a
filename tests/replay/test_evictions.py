"""What a load must not find in the page cache, and what making it so is counted as."""

import time
from pathlib import Path

import numpy as np
import pytest

from iotrace.replay.job import TIMING, Op
from iotrace.replay.lasting import sync_files
from iotrace.replay.measure import flush_seconds
from iotrace.replay.schedule import Schedule, schedule
from iotrace.replay.sketch import sketch
from iotrace.replay.transforms.drop_behind import DropBehind

from .job_builder import directory
from .session_run import run
from .slow_mount import slow_mount

SAVE = "open a w+create+trunc\nwrite a 0 8192\nclose a\n"
LOAD = "open a r\nread a 0 4096\nread a 4096 4096\nclose a\n"


def ops(scheduled: Schedule) -> list[str]:
    """The ops of a job's requests."""
    return [Op(int(op)).name.lower() for op in scheduled.job.requests["op"]]


def test_outside_of_steps_what_is_saved_again_is_loaded_cold_again() -> None:
    """A log has no steps: a benchmark that saves and loads in turns read from memory but once."""
    told = ops(schedule(sketch(3 * (SAVE + LOAD))))
    load = ["sync", "evict", "read", "read", "close"]
    first = ["open", "write", "close", "sync", "evict", "open", "read", "read", "close"]
    assert told == first + 2 * ["open", "write", "close", "open", *load]


def test_what_an_open_file_writes_and_reads_in_turns_is_dropped_once() -> None:
    """A scratch file is no checkpoint: each of its reads would wait for the disk."""
    text = "open a rw+create\n" + "write a 0 9\nread a 0 9\n" * 3 + "open a r as a\nread a 0 9\n"
    told = ops(schedule(sketch(text + "close a")))
    assert told.count("evict") == 1


def test_in_a_step_a_load_is_one_however_often_it_opens_its_file() -> None:
    """What it reads twice it finds in memory the second time, as the job did."""
    told = ops(schedule(sketch("step 0\n" + SAVE + LOAD + LOAD)))
    assert told.count("evict") == 1


def test_each_cache_that_may_hold_a_file_lets_go_of_it() -> None:
    """On several machines, a file that one wrote is cached there, whoever loads it first."""
    plan = sketch(
        "step 0\nprocess 0\nopen a w+create\nwrite a 0 9\nclose a\n"
        "process 1\nopen b w+create\nwrite b 0 9\nclose b\n"
        "step 1\nprocess 0\nopen b r\nread b 0 9\nclose b\n"
        "process 1\nopen a r\nread a 0 9\nclose a\n"
        "step 2\nprocess 0\nopen b r\nread b 0 9\nclose b"
    )
    alone = schedule(plan).job.requests
    assert (alone["op"] == Op.EVICT).sum() == 3
    rows = schedule(plan, cache=np.array([0, 1])).job
    evicted = rows.requests[rows.requests["op"] == Op.EVICT]
    told = [(rows.paths[row["path"]], int(row["stream"])) for row in evicted]
    assert sorted(told[:2]) == [("a", 0), ("b", 1)]  # by those who wrote them
    assert sorted(told[2:]) == [("b", 0), ("b", 1)]


def test_the_time_until_durable_is_of_syncs_that_ran_side_by_side() -> None:
    """Dropping pages makes nothing durable, and two syncs at a time last as long as the longer."""
    text = "step 0\n" + "".join(f"open {n} w+create\nwrite {n} 0 9\nclose {n}\n" for n in "ab")
    text += "step 1\n" + "".join(f"open {n} r\nread {n} 0 9\nclose {n}\n" for n in "ab")
    scheduled = schedule(sketch(text))
    timings = np.zeros(len(scheduled.job.requests), TIMING)
    timings["start_ns"] = 1
    own = scheduled.origin < 0
    syncs = own & (scheduled.job.requests["op"] == Op.SYNC)
    assert syncs.sum() == 2 and own.sum() == 4
    timings["end_ns"][own] = 5_000_000_001
    timings["end_ns"][syncs] = (2_000_000_001, 3_000_000_001)
    assert flush_seconds(scheduled, timings, np.zeros(1, np.int64)) == 3.0


def test_files_of_several_workers_are_synced_side_by_side(tmp_path: Path) -> None:
    """As ranks do that sync what they wrote; one after the other they would take longer."""
    names = "abcdefgh"
    plan = sketch("\n".join(f"open {n} w+create\nwrite {n} 0 9\nclose {n}" for n in names))
    with slow_mount(tmp_path, 0.1, threads=16):
        for name in names:
            (tmp_path / name).touch()
        with directory(tmp_path) as root_fd:
            begin = time.monotonic()
            side_by_side = sync_files(plan, plan.files.written, root_fd, 0.0, 8)
            alone = sync_files(plan, plan.files.written, root_fd, 0.0, 1)
            assert side_by_side + alone <= time.monotonic() - begin
    assert alone >= 0.8  # an open, a sync and a flush each
    assert side_by_side < alone / 2


@pytest.mark.parametrize("queue_depth", [1, 4])
def test_an_eviction_follows_its_sync(queue_depth: int) -> None:
    """Both wait for what came before on the file."""
    rows = schedule(sketch("step 0\n" + SAVE + LOAD), queue_depth).job.requests
    at = int(np.flatnonzero(rows["op"] == Op.EVICT)[0])
    assert rows["op"][at - 1] == Op.SYNC
    assert rows["stream"][at - 1] == rows["stream"][at]
    assert rows["fence"][at - 1] > 0 and rows["fence"][at] == 2


def test_what_is_synced_already_is_not_synced_again(tmp_path: Path) -> None:
    """A sync of a clean file flushes the device, and would count as time until durable."""
    synced = "open a w+create\nwrite a 0 9\nsync a\nclose a\n"
    late = "open b w+create\nwrite b 0 9\nsync b\nwrite b 9 9\nclose b\n"
    loads = "".join(f"open {name} r\nread {name} 0 9\nclose {name}\n" for name in "ab")
    job = schedule(sketch("step 0\n" + synced + late + "step 1\n" + loads)).job
    own = job.requests[job.requests["path"] >= 0]
    flushed = own[own["op"] == Op.SYNC]
    assert [job.paths[path] for path in flushed["path"]] == ["b"]
    assert (own["op"] == Op.EVICT).sum() == 2
    for text, count in (
        (synced, 1),  # its own
        (late, 2),  # and the one in the end
        (synced + late, 3),
        ("step 0\n" + late + "step 1\nopen b r\nread b 0 9\nclose b", 3),  # and an eviction's
    ):
        with slow_mount(tmp_path, 0.0, cached=True) as mount:
            assert run(sketch(text), tmp_path).errors == ()
        assert mount.seen["fsync"] == count + 1  # what the storage is like is tried first


def test_what_was_dropped_behind_is_durable(tmp_path: Path) -> None:
    """Pages are written out before they are dropped, and that is in the time of the save."""
    plan = DropBehind()(sketch("open a w+create\nwrite a 0 9\nclose a"))
    with slow_mount(tmp_path, 0.0, cached=True) as mount:
        assert run(plan, tmp_path).errors == ()
    assert mount.seen["fsync"] == 1 + 1
