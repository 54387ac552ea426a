"""Files under other names: renamed folders, hard links, what was read of them."""

import errno
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from iotrace.replay.bindings import Bindings
from iotrace.replay.build import plan_from_trace
from iotrace.replay.job import Op
from iotrace.replay.measure import find_eviction_errors
from iotrace.replay.schedule import schedule
from iotrace.replay.sketch import listing, sketch, sketch_trace
from iotrace.replay.transforms.select import Select
from iotrace.replay.verify import unproved_bytes
from iotrace.traces.phases import Phase
from iotrace.traces.trace import Ints, Trace

from .session_run import run

RENAMED_FOLDERS = """
mkdir c
mkdir c/t
mkdir c/t/shards
open c/t/shards/a w+create
write c/t/shards/a 0 5000
close c/t/shards/a
rename c/t c/f
open c/f/shards/a r
read c/f/shards/a 0 5000
close c/f/shards/a
step 1
rename c/f c/old
mkdir c/t
mkdir c/t/shards
open c/t/shards/a w+create
write c/t/shards/a 0 7000
close c/t/shards/a
rename c/t c/f
unlink c/old/shards/a
open c/f/shards/a r
read c/f/shards/a 0 7000
close c/f/shards/a
"""


@pytest.mark.parametrize("executor", ["posix", "io_uring"])
@pytest.mark.parametrize("workers", [1, 2])
def test_files_follow_their_folders(tmp_path: Path, executor: str, workers: int) -> None:
    """Saved in a temporary folder, renamed, and read, over two steps and two levels."""
    text = "process 1\nopen x w+create\nclose x\nprocess 2\n" + RENAMED_FOLDERS
    plan = sketch(text)
    outcome = run(plan, tmp_path, executor=executor, workers=workers, verify=True)
    assert outcome.errors == ()
    assert outcome.verified is True
    assert outcome.repetitions[0].moved.bytes_read == 12_000
    assert [spec.final_path for spec in plan.files] == ["x", None, "c/f/shards/a"]
    removal = int(np.flatnonzero(plan.requests["op"] == Op.UNLINK)[0])
    assert Bindings.of(plan.requests, plan.paths).removals(3).tolist() == [-1, removal, -1]


@pytest.mark.parametrize("flags", ["create+excl", "create+trunc", "create+excl+trunc"])
@pytest.mark.parametrize("again", ["", "close a\nopen a r\n"])
def test_reads_alone_find_what_was_written(tmp_path: Path, flags: str, again: str) -> None:
    """The file is prepared: an open that wanted none there, or none of its bytes, takes it."""
    text = f"open a rw+{flags}\nwrite a 0 5000\n{again}read a 0 5000\nclose a"
    plan = Select(ops=("read",))(sketch(text))
    assert plan.files[0].initial_size_bytes == 5000
    outcome = run(plan, tmp_path, verify=True, repeat=2)
    assert outcome.errors == ()
    assert outcome.verified is True
    assert outcome.repetitions[1].moved.bytes_read == 5000


@pytest.mark.parametrize(
    ("text", "unproved"),
    [
        ("open a rw\nread a 0 5000\nwrite a 4000 2000\nclose a", 1000),
        ("open a rw\nread a 0 5000\ntruncate a 4500\nwrite a 4000 2000\nclose a", 500),
        ("open a rw\nread a 0 5000\nwrite a 4000 2000\ntruncate a 4100\nclose a", 100),
        ("open a rw\nread a 0 5000\npunch a 4500 100\nwrite a 4000 2000\nclose a", 900),
        ("open a w+create\nwrite a 0 50\nwrite a 20 50\nclose a", 30),
        ("open a w+create\nwrite a 0 50\nclose a\nopen b r\nread b 0 50\nclose b", 0),
    ],
)
def test_writes_over_equal_bytes_are_counted_as_unproved(text: str, unproved: int) -> None:
    """A lost one would not show."""
    assert unproved_bytes(sketch(text)) == unproved


LINKED = "open d/a w+create\nwrite d/a 0 5000\nclose d/a\nlink d/a e/b\n"


READ = "open {0} r\nread {0} 0 5000\nclose {0}\n"


@pytest.mark.parametrize(
    ("names", "read", "left"),
    [
        ("unlink d/a", "e/b", "e/b"),
        ("unlink e/b", "d/a", "d/a"),
        ("rename e/b e/c\nunlink d/a", "e/c", "e/c"),
        ("rename d/a d/c\nunlink e/b", "d/c", "d/c"),
        ("rename e/b d/a\nunlink e/b", "d/a", "d/a"),
        ("link d/a e/c\nunlink d/a\nunlink e/b", "e/c", "e/c"),
        ("rename e f\nunlink d/a", "f/b", "f/b"),
        ("rename d f\nunlink e/b", "f/a", "f/a"),
        ("unlink d/a\nrename e f", "f/b", "f/b"),
        ("open d/c w+create\nclose d/c\nrename d/c d/a", "e/b", "e/b"),
    ],
)
def test_a_file_is_read_by_the_hard_link_that_is_left(
    tmp_path: Path, names: str, read: str, left: str
) -> None:
    """Whichever of its names goes."""
    plan = sketch(f"{LINKED}{names}\n{READ.format(read)}")
    outcome = run(plan, tmp_path, keep=True, verify=True)
    assert outcome.errors == ()
    assert outcome.verified is True
    assert outcome.repetitions[0].moved.bytes_read == 5000
    assert plan.files[0].final_path == left
    assert (Path(outcome.workspace or "") / left).stat().st_nlink == 1


def test_a_file_is_evicted_under_a_name_that_no_request_has(tmp_path: Path) -> None:
    """Read through the open it was written by, after its folder was renamed."""
    plan = sketch(
        "open c/t/a rw+create\nwrite c/t/a 0 5000\nrename c/t c/f\nread c/t/a 0 5000\nclose c/t/a"
    )
    assert "c/f/a" not in plan.paths
    reads = plan.requests["op"] == Op.READ
    plan = replace(plan, requests=plan.requests.having_at(reads, phase=Phase.LOAD))
    job = schedule(plan).job
    evicted = job.requests["path"][job.requests["op"] == Op.EVICT]
    assert [job.paths[path] for path in evicted] == ["c/f/a"]
    outcome = run(plan, tmp_path, verify=True)
    assert outcome.errors == ()
    assert outcome.verified is True


def test_an_eviction_that_failed_is_named() -> None:
    """It is no request of the plan, but what comes after it is left undone for it."""
    job = schedule(sketch(RENAMED_FOLDERS))
    result = np.zeros(len(job.origin), np.int64)
    result[job.origin < 0] = -errno.ENOENT
    what = "cannot drop c/f/shards/a from the page cache: No such file or directory"
    assert find_eviction_errors(job, result) == (what,)
    result[job.job.requests["op"] == Op.EVICT] = 0  # its sync alone
    assert find_eviction_errors(job, result) == (what,)


@pytest.mark.parametrize("executor", ["posix", "io_uring"])
def test_a_file_without_a_name_is_evicted_through_its_open(tmp_path: Path, executor: str) -> None:
    """Removed while it is open, as jobs do with spilled data."""
    plan = sketch("open a rw+create\nwrite a 0 5000\nunlink a\nread a 0 5000\nclose a")
    reads = plan.requests["op"] == Op.READ
    plan = replace(plan, requests=plan.requests.having_at(reads, phase=Phase.LOAD))
    job = schedule(plan).job
    (eviction,) = job.requests[job.requests["op"] == Op.EVICT]
    assert (eviction["path"], eviction["handle"]) == (-1, 0)
    outcome = run(plan, tmp_path, executor=executor, verify=True)
    assert outcome.errors == ()
    assert outcome.repetitions[0].flush_seconds > 0


@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_RDONLY | os.O_DIRECTORY])
def test_a_folder_that_is_synced_is_no_file(flags: int, tmp_path: Path) -> None:
    """So do jobs that rename a checkpoint into place, and mostly do not say O_DIRECTORY."""
    save = "open d/a.tmp w+create\nwrite d/a.tmp 0 9\nsync d/a.tmp\nclose d/a.tmp\n"
    trace = sketch_trace(save + "rename d/a.tmp d/a\nopen d r\nsync d\nclose d")
    given = trace.ints("flags").copy()
    given[5] = flags
    plan = plan_from_trace(trace.with_columns({"flags": Ints(given, given >= 0)}))
    assert listing(plan) == save + "rename d/a.tmp d/a\nsync d/"
    assert [str(note) for note in plan.notes] == ["opens and closes of folders, left out: 2"]
    outcome = run(plan, tmp_path, verify=True)
    assert (outcome.errors, outcome.verified) == ((), True)


def with_files(text: str, files: dict[int, int]) -> Trace:
    """Return a sketched trace whose rows at some places tell the number of their file."""
    trace = sketch_trace(text)
    known = trace.ints("file").copy()
    for row, file in files.items():
        known[row] = file
    return trace.with_columns({"file": Ints(known, known >= 0)})


def test_a_name_through_another_folder_is_of_the_same_file(tmp_path: Path) -> None:
    """The folder is a link's target: what is removed, renamed or cut there is not another file."""
    text = (
        "open l/a w+create\nwrite l/a 0 9\nclose l/a\nunlink r/a\n"
        "open l/b w+create\nwrite l/b 0 9\nclose l/b\nrename r/b r/c\n"
        "open l/c r as l/b\nread l/c 0 9\nclose l/c\n"
    )
    last = "open l/d w+create\nwrite l/d 0 9\nclose l/d\ntruncate r/d 4"
    plan = plan_from_trace(with_files(text + last, {3: 1, 7: 2, 14: 4}))
    shown = text.replace("unlink r/a", "unlink l/a").replace("rename r/b", "rename l/b")
    shown = shown.replace("l/c r as l/b", "r/c r").replace("l/c", "l/b")
    assert listing(plan) == shown + last.replace("r/d", "l/d")
    outcome = run(plan, tmp_path, verify=True)
    assert (outcome.errors, outcome.verified) == ((), True)
    assert not plan.files.exists.any()


def test_a_link_to_a_folder_is_not_here(tmp_path: Path) -> None:
    """A job names its last run's folder so, and removes the link."""
    text = "mkdir d\nmkdir d/run\nopen d/last/a w+create\nwrite d/last/a 0 9\nclose d/last/a\n"
    plan = sketch(f"{text}unlink d/last\nopen d/last/b w+create\nclose d/last/b")
    assert "unlink" not in listing(plan)
    outcome = run(plan, tmp_path, verify=True)
    assert (outcome.errors, outcome.verified) == ((), True)
