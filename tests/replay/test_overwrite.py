"""Files written over the blocks of older ones: in place, whole, and proven to be."""

import os
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

from iotrace.replay.build import plan_from_trace
from iotrace.replay.executors.executor import Executor
from iotrace.replay.job import Op
from iotrace.replay.loop import Tape
from iotrace.replay.options import ReplayOptions
from iotrace.replay.plan import Plan
from iotrace.replay.prepare import prepare, steady_files
from iotrace.replay.schedule import schedule
from iotrace.replay.session import replay
from iotrace.replay.sketch import listing, sketch
from iotrace.replay.target import file_system_of
from iotrace.replay.transforms.aggregate import LAYOUTS, Aggregate
from iotrace.replay.transforms.align import Align
from iotrace.replay.transforms.coalesce import Coalesce
from iotrace.replay.transforms.direct import Direct
from iotrace.replay.transforms.overwrite import Overwrite
from iotrace.replay.transforms.preallocate import Preallocate
from iotrace.replay.transforms.split import Split
from iotrace.replay.verify import find_mismatch
from iotrace.traces.errors import PlanError
from iotrace.traces.reader import read_trace

from .job_builder import directory, run
from .strategies import jobs
from .test_laws import law
from .test_layouts import BLOCK, CORPUS, NOTHING, TRACES, job

SHAPES = [
    [one for one in chain if one]
    for chain in product(
        (None, *(Aggregate(layout) for layout in LAYOUTS)),
        (Coalesce(64 << 10), Split(16 << 10)),
    )
]
SAVE = """
mkdir run
open run/model w+create+excl
write run/model 0 5000
write run/model 5000 300000
sync run/model
close run/model"""


def over_old(plan: Plan) -> np.ndarray:
    """Which files are written over old blocks."""
    return plan.files.old_bytes > 0


@law
@given(jobs())
def test_files_end_as_they_did_and_need_no_block(text: str) -> None:
    """Nothing makes, empties or lengthens a file that is there, and no write goes past its end."""
    before = sketch(text)
    after = Overwrite()(before)
    assert after.files.final_bytes.tolist() == before.files.final_bytes.tolist()
    assert [spec.final_path for spec in after.files] == [spec.final_path for spec in before.files]
    rows = after.requests
    own = np.append(over_old(after), False)[rows["file"]]
    made = os.O_CREAT | os.O_EXCL | os.O_TRUNC | os.O_APPEND
    assert not (rows["flags"][own & (rows["op"] == Op.OPEN)] & made).any()
    assert not (own & (rows["op"] == Op.ALLOCATE)).any()
    size = after.files.initial_size_bytes.copy()
    for row in rows.compress(own).lowered():
        if row["op"] == Op.TRUNCATE:
            assert row["length"] < size[row["file"]]
            size[row["file"]] = row["length"]
        elif row["op"] == Op.WRITE and row["length"]:
            assert row["offset"] + row["length"] <= size[row["file"]]


@pytest.mark.parametrize("direct", [False, True])
def test_every_shape_is_proven(file_system: Path, direct: bool) -> None:
    """Saved, loaded and saved again, by two ranks, in each layout, on each file system."""
    whole = sketch(job())
    for number, chain in enumerate([*SHAPES, [Align(BLOCK)]]):
        plan = whole
        for transform in (*chain, Overwrite(), *([Direct(BLOCK)] if direct else [])):
            plan = transform(plan)
        assert over_old(plan).any()
        options = ReplayOptions(
            root=file_system,
            verify=True,
            repeat=1 + number % 2,
            queue_depth=4,
            workers=1 + number // 2 % 2,
            executor=("io_uring", "posix")[number % 2],
        )
        outcome = replay(plan, NOTHING, options)
        assert (outcome.errors, outcome.verified) == ((), True), chain
        moved = outcome.repetitions[-1].moved
        assert moved.bytes_written == whole.counts().bytes_written
        assert moved.bytes_read == whole.counts().bytes_read


def test_copy_on_write_is_told(file_system: Path) -> None:
    """Of the file systems here only btrfs writes elsewhere; a replay says so, and runs."""
    outcome = replay(Overwrite()(sketch(SAVE)), NOTHING, ReplayOptions(root=file_system))
    told = [one for one in outcome.degraded if one.startswith("not over old blocks: ")]
    assert bool(told) is (file_system_of(file_system) == "btrfs")
    assert outcome.failed is False


@pytest.mark.parametrize("name", TRACES)
def test_every_trace_keeps_its_bytes(name: str) -> None:
    """Whatever its engine did to make its files."""
    before = plan_from_trace(read_trace(CORPUS / f"{name}.parquet"))
    for chain in ([], [Aggregate("shared"), Coalesce()]):
        plan = before
        for transform in (*chain, Preallocate(), Overwrite(), Direct()):
            plan = transform(plan)
        plan.validate()
        assert plan.counts().bytes_written == before.counts().bytes_written
        assert plan.counts().bytes_read == before.counts().bytes_read


def test_old_blocks_are_there_and_are_used(tmp_path: Path, tape: Tape, executor: Executor) -> None:
    """The kernel's own account: the same file, no hole before, and no block more after."""
    plan = Direct()(Overwrite()(sketch(SAVE)))
    path = tmp_path / "run/model"
    path.parent.mkdir()
    with directory(tmp_path) as root_fd:
        prepare(plan, tape, root_fd)
        before, content = path.stat(), path.read_bytes()
        assert before.st_size == 305000
        assert before.st_blocks * 512 >= 305000
        done = run(executor, schedule(plan, 4).job, tape, tmp_path)
        assert (done.timings["result"] >= 0).all()
        assert find_mismatch(plan, tape, root_fd) is None
    after = path.stat()
    assert (after.st_ino, after.st_size) == (before.st_ino, before.st_size)
    assert after.st_blocks == before.st_blocks
    alike = np.frombuffer(content, np.uint8) == np.frombuffer(path.read_bytes(), np.uint8)
    assert alike.mean() < 0.01  # one of 256 by chance


def test_a_lost_write_is_found(tmp_path: Path, tape: Tape, executor: Executor) -> None:
    """What was there before is not what should have been written."""
    plan = Overwrite()(sketch(SAVE))
    lacking = replace(plan, requests=plan.requests.compress(plan.requests["offset"] != 5000))
    (tmp_path / "run").mkdir()
    with directory(tmp_path) as root_fd:
        prepare(plan, tape, root_fd)
        run(executor, schedule(lacking).job, tape, tmp_path)
        assert "bytes differ, first at 5,00" in str(find_mismatch(plan, tape, root_fd))


def test_a_file_without_proof_is_kept_for_the_next_run() -> None:
    """Its blocks are written whatever they hold; a proof needs bytes unlike the payload."""
    plan = Direct()(Overwrite()(sketch(SAVE)))
    assert steady_files(plan, payload_stays=True) == {"run/model"}
    assert steady_files(plan, payload_stays=False) == frozenset()
    renamed = Overwrite()(sketch(f"{SAVE}\nrename run/model run/last"))
    assert steady_files(renamed, payload_stays=True) == frozenset()


@pytest.mark.parametrize("executor", ["posix", "io_uring"])
def test_a_staged_checkpoint_is_drained_over_its_copy(executor: str, tmp_path: Path) -> None:
    """Both places have old files, and the copy is proven too."""
    tier, root = tmp_path / "tier", tmp_path / "root"
    tier.mkdir()
    root.mkdir()
    plan = Overwrite()(sketch(f"{SAVE}\nrename run/model run/last"))
    options = ReplayOptions(
        root=root, stage=tier, verify=True, repeat=2, keep=True, executor=executor
    )
    outcome = replay(plan, NOTHING, options)
    assert (outcome.errors, outcome.verified) == ((), True)
    assert (Path(str(outcome.workspace)) / "run/last").stat().st_size == 305000


@pytest.mark.parametrize(
    ("text", "expected", "note"),
    [
        (  # a commit by rename, twice: only one can be there under the temporary name
            "open t w+create\nwrite t 0 9\nclose t\nrename t a\n"
            "open t w+create+excl\nwrite t 0 9\nclose t\nrename t a",
            [9, 0],
            "files whose name or folder is another's at first, made anew: 1",
        ),
        (  # the folder is renamed into its name
            "mkdir t\nrename t d\nopen d/a w+create\nwrite d/a 0 9\nclose d/a",
            [0],
            "files whose name or folder is another's at first, made anew: 1",
        ),
        (  # the job gives blocks back
            "open a rw+create\nwrite a 0 9000\npunch a 0 4096\nclose a",
            [0],
            "files with holes punched, made anew: 1",
        ),
        ("open a rw\nread a 0 9\nwrite a 0 9\nclose a", [0], None),  # in place as recorded
        ("open a r\nread a 0 9\nclose a\nopen a w+trunc\nwrite a 0 5\nclose a", [9], None),
        (
            "open a w+create\nallocate a 0 100\nwrite a 0 100\nclose a",
            [100],
            "allocations left out, as the blocks are there: 1",
        ),
        ("open a w+create\ntruncate a 12\nwrite a 0 9\nclose a", [12], None),
    ],
)
def test_what_cannot_be_there_is_made_anew(
    text: str, expected: list[int], note: str | None
) -> None:
    """And counted."""
    plan = Overwrite()(sketch(text))
    assert plan.files.old_bytes.tolist() == expected
    assert [str(one) for one in plan.notes] == ([note] if note else [])


def test_twice_is_once_and_new_places_are_refused() -> None:
    """What is moved later would lie where no old block is."""
    plan = Overwrite()(sketch(SAVE))
    assert listing(Overwrite()(plan)) == listing(plan)
    assert Overwrite()(plan).files == plan.files
    for transform in (Aggregate("rank"), Align(4096)):
        with pytest.raises(PlanError, match="overwrite"):
            transform(plan)
    with pytest.raises(PlanError, match="direct"):
        Overwrite()(Direct()(sketch(SAVE)))
