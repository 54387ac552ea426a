"""Syncs of folders in plans and replays."""

from pathlib import Path

import numpy as np
import pytest

from iotrace.replay.build import plan_from_trace
from iotrace.replay.job import Fence, Op
from iotrace.replay.plan import Plan
from iotrace.replay.schedule import schedule
from iotrace.replay.sketch import listing, sketch, sketch_trace
from iotrace.replay.transforms.aggregate import Aggregate
from iotrace.replay.transforms.coalesce import Coalesce
from iotrace.replay.transforms.overwrite import Overwrite
from iotrace.replay.transforms.select import Select
from iotrace.traces.errors import PlanError
from iotrace.traces.sync_kind import SyncKind, syncs_folder
from iotrace.traces.trace import Ints

from .session_run import run


def save(name: str, size: int = 5000) -> str:
    """Return the lines of an atomic save but for its end."""
    tmp = f"{name}.tmp"
    return (
        f"open {tmp} w+create+trunc\nwrite {tmp} 0 {size}\nsync {tmp}\nclose {tmp}\n"
        f"rename {tmp} {name}\n"
    )


SAVES = f"mkdir d\n{save('d/a')}sync d/\nsync /\n{save('d/b')}sync d/"


def notes(plan: Plan) -> list[str]:
    return [str(note) for note in plan.notes]


def folders_synced(plan: Plan) -> list[str]:
    """Return the synced folders in order."""
    plan.validate()
    lines = [line.partition(" ") for line in listing(plan).splitlines()]
    return [name for op, _, name in lines if op == "sync" and name.endswith("/")]


@pytest.mark.parametrize("executor", ["posix", "io_uring"])
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("depth", [1, 8])
def test_they_are_issued(tmp_path: Path, executor: str, workers: int, depth: int) -> None:
    """Also where nothing is known of the folder but that it was synced."""
    plan = sketch(f"process 1\nsync alone/\nprocess 2\n{SAVES}")
    options = {"executor": executor, "workers": workers, "queue_depth": depth, "repeat": 2}
    outcome = run(plan, tmp_path, verify=True, **options)
    assert (outcome.errors, outcome.verified) == ((), True)
    assert listing(plan) == f"sync alone/\n{SAVES}"
    of_folder = (plan.requests["op"] == Op.SYNC) & syncs_folder(plan.requests["flags"])
    for one in outcome.repetitions:
        assert np.all(one.timings["end_ns"][of_folder] > one.timings["start_ns"][of_folder])
    assert outcome.repetitions[0].moved.requests == len(plan.requests)
    assert outcome.repetitions[0].moved.files == 2


def test_they_wait_for_all_that_was_begun_before() -> None:
    """Another thread may have renamed what they make durable."""
    plan = sketch(f"thread 0\n{SAVES}\nthread 1\nsync d/")
    rows = schedule(plan).job.requests
    of_folder = (rows["op"] == Op.SYNC) & syncs_folder(rows["flags"])
    assert of_folder.sum() == 4
    assert set(rows["fence"][of_folder].tolist()) == {Fence.ALL}


def test_a_folder_is_synced_under_the_name_it_has() -> None:
    """A job holds it open while it renames it, and a log may tell the name it was opened by."""
    text = f"mkdir t\n{save('t/a')}rename t f\nsync t/"
    assert folders_synced(sketch(text)) == ["f/"]
    assert folders_synced(sketch(f"{text}\nmkdir t\nsync t/")) == ["f/", "t/"]
    back = f"{text}\nrename f t\nsync t/\nsync f/\nrename t f\nrename f t\nsync f/"
    assert folders_synced(sketch(back)) == ["f/", "t/", "t/", "t/"]


def test_a_folder_that_is_gone_is_not_synced() -> None:
    """There is nothing left to open."""
    plan = sketch("mkdir d\nsync d/\nrmdir d\nsync d/\nmkdir d\nsync d/")
    assert folders_synced(plan) == ["d/", "d/"]
    assert notes(plan) == ["syncs of directories that were removed, left out: 1"]


def test_a_sync_of_the_file_system_through_a_folder_is_one() -> None:
    """And fdatasync stays what it is."""
    trace = sketch_trace(f"{save('d/a')}open d r\nsync d\nsync d\nclose d")
    flags = trace.ints("flags").copy()
    flags[-3:-1] = SyncKind.FILE_SYSTEM, SyncKind.FDATASYNC
    plan = plan_from_trace(trace.with_columns({"flags": Ints(flags, flags >= 0)}))
    rows = plan.requests
    assert rows["op"][-2:].tolist() == [Op.SYNC, Op.SYNC]
    assert rows["flags"][-2:].tolist() == [SyncKind.FILE_SYSTEM, SyncKind.FOLDER_DATA]
    assert rows["path"][-2] == -1
    assert plan.paths[rows["path"][-1]] == "d"


def test_a_file_is_not_synced_as_a_folder() -> None:
    """It would take another time, and make no name durable."""
    with pytest.raises(PlanError, match="'/x' is a file and a folder"):
        sketch("open x w+create\nwrite x 0 9\nclose x\nsync x/")


@pytest.mark.parametrize("layout", ["rank", "shared"])
def test_aggregation_syncs_the_folder_of_the_new_file(layout: str, tmp_path: Path) -> None:
    """Once for each rank and step, and behind the rename that gives it its name."""
    text = f"step 0\nprocess 0\n{SAVES}\nprocess 1\n{save('d/c')}sync d/\nsync d/"
    plan = Aggregate(layout)(sketch(text))
    assert folders_synced(plan) == ["/"] * 3  # and one that the job made itself
    ops = plan.requests["op"]
    last = np.flatnonzero(syncs_folder(plan.requests["flags"]) & (ops == Op.SYNC))[-1]
    assert last > np.flatnonzero(ops == Op.RENAME)[-1]
    outcome = run(plan, tmp_path, verify=True)
    assert (outcome.errors, outcome.verified) == ((), True)


def test_a_folder_that_keeps_files_keeps_its_syncs() -> None:
    """A log beside the checkpoint belongs to no step."""
    log = "open d/log w+create\nwrite d/log 0 9\nclose d/log\n"
    text = f"mkdir d\n{log}step 0\nprocess 0\n{save('d/a')}sync d/\nsync other/"
    assert folders_synced(Aggregate("rank")(sketch(text))) == ["d/", "/", "other/"]


def test_other_transforms_leave_them_where_they_are() -> None:
    """Nothing is joined across a durability point, and what is selected is synced."""
    parts = "write d/a 0 5\nsync d/\nwrite d/a 5 5"
    plan = sketch(f"open d/a w+create\n{parts}\nclose d/a")
    assert listing(Coalesce()(plan)) == listing(plan)
    steps = sketch(f"step 0\n{SAVES}\nstep 1\n{save('d/c')}sync d/")
    assert folders_synced(Select(steps=(1,))(steps)) == ["d/"]
    assert folders_synced(Overwrite()(steps)) == ["d/", "/", "d/", "d/"]
