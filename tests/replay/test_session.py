"""Whole replays: what is written, measured, proved, given up and reported."""

import errno
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from iotrace.replay.build import plan_from_trace
from iotrace.replay.job import Op
from iotrace.replay.lifetimes import last_names
from iotrace.replay.loop import Tape, probe_uring, resident_bytes
from iotrace.replay.measure import find_eviction_errors
from iotrace.replay.options import ReplayOptions
from iotrace.replay.plan import Plan
from iotrace.replay.result import Outcome, RecordedSummary
from iotrace.replay.schedule import schedule
from iotrace.replay.session import replay
from iotrace.replay.sketch import sketch, sketch_trace
from iotrace.replay.suitability import surprises as found_otherwise
from iotrace.replay.target import probe_target
from iotrace.replay.transforms.align import Align
from iotrace.replay.transforms.coalesce import Coalesce
from iotrace.replay.transforms.direct import Direct
from iotrace.replay.transforms.select import Select
from iotrace.replay.transforms.split import Split
from iotrace.replay.verify import find_mismatch, unproved_bytes
from iotrace.traces.errors import IotraceError, PlanError, ReplayError
from iotrace.traces.metadata import Metadata
from iotrace.traces.phases import Phase
from iotrace.traces.reader import read_trace
from iotrace.traces.summary import summarize

from .seccomp import IO_URING_SETUP, forbid

CORPUS = Path(__file__).parents[2] / "traces" / "corpus"

NOTHING = RecordedSummary(0, 0, 0, 0, 0, 0.0, 0.0)
SAVE_AND_LOAD = """
step 0
mkdir run
open run/model.tmp w+create+trunc
write run/model.tmp 0 4100
write run/model.tmp 4100 300000
write run/model.tmp 304100 77
sync run/model.tmp
close run/model.tmp
rename run/model.tmp run/model
open run/model r
read run/model 0 4100
read run/model 4100 300000
read run/model 304100 4096 -> 77
read run/model 304177 4096 -> 0
close run/model
open data/tokens r
read data/tokens 5000 100000
close data/tokens
"""


def run(plan: Plan, root: Path, **options: object) -> Outcome:
    return replay(plan, NOTHING, ReplayOptions(root=root, **options))


def surprises(outcome: Outcome, root: Path) -> tuple[str, ...]:
    """What was done otherwise than asked, where the file system can do all of it."""
    target = probe_target(root)
    able = target.evicts and target.direct_is_effective and probe_uring() is None
    return outcome.degraded if able else ()


def nothing_is_left(root: Path) -> bool:
    return not list(root.iterdir())


@pytest.fixture
def memory() -> Iterator[Path]:
    """Return an empty directory on tmpfs."""
    folder = Path(tempfile.mkdtemp(dir="/dev/shm"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """Return a file system of 4 MiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "none", str(folder)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("no file system can be mounted here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


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
    assert [done for stage, done, _ in seen if stage == "run"] == [0, 1, 2, 3, 4]


def test_the_object_of_a_replay_has_the_documented_keys(tmp_path: Path) -> None:
    """Others' programs read it."""
    trace = sketch_trace(SAVE_AND_LOAD)
    plan = Coalesce(1 << 20)(plan_from_trace(trace))
    options = ReplayOptions(root=tmp_path, verify=True)
    result = replay(plan, RecordedSummary.of(trace), options).to_json("t.parquet")
    totals = {"requests", "data_requests", "files", "bytes_written", "bytes_read"}
    assert list(result) == [
        "trace", "executor", "transforms", "layout", "recorded", "planned", "replayed",
        "verified", "unproved_bytes", "simulated", "degraded", "errors", "workers", "intervals",
        "ranks", "fidelity",
    ]  # fmt: skip
    assert result["transforms"] == ["coalesce(size_bytes=1048576, gather=copy)"]
    assert set(result["recorded"]) == totals | {"write_seconds", "read_seconds", "lent_memory"}
    assert set(result["planned"]) == totals | {"padding_bytes"}
    assert set(result["replayed"]) == totals | {
        "padding_bytes", "write_seconds", "read_seconds", "durable_seconds", "latency_us",
        "allocate_seconds", "lateness_us", "copied_bytes",
    }  # fmt: skip
    assert set(result["replayed"]["latency_us"]) == {"p50", "p99", "max"}
    assert result["recorded"]["data_requests"] == 8
    assert result["planned"]["data_requests"] == 4


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


def test_saving_is_timed_per_step_from_first_start_to_last_end(tmp_path: Path) -> None:
    """Training between two checkpoints is not saving; recorded and replayed agree on that."""
    text = "step {0}\nopen {0} w+create\nwrite {0} 0 100\nclose {0}\n"
    trace = sketch_trace(text.format(0) + text.format(1))
    recorded = RecordedSummary.of(trace)
    assert recorded.write_seconds == pytest.approx(2 * 2.5e-6)
    plan = plan_from_trace(trace)
    plan.requests.flags.writeable = True
    plan.requests["think_ns"][3] = 200_000_000
    (one,) = run(plan, tmp_path, timing="think").repetitions
    assert one.write_seconds < 0.1
    assert one.timings["start_ns"][3] - one.timings["end_ns"][2] >= 200_000_000


def test_loads_are_cold_unless_asked_to_be_warm(tmp_path: Path) -> None:
    """A load of what was just saved is served from memory, and says nothing about the disk."""
    text = "open a w+create\nwrite a 0 8388608\nclose a\nopen a r\nread a 0 8388608\nclose a"
    cold = run(sketch(text), tmp_path, executor="posix").repetitions[0]
    warm = run(sketch(text), tmp_path, executor="posix", warm=True).repetitions[0]
    assert cold.evict_seconds > 0 == warm.evict_seconds
    assert cold.durable_seconds >= cold.write_seconds + cold.evict_seconds


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


def test_what_kept_requests_from_being_as_recorded_is_said(tmp_path: Path) -> None:
    """Numbers of reads that were cut, or came one by one, are not those of the recording."""
    one = run(sketch(SAVE_AND_LOAD), tmp_path).repetitions[0]
    assert found_otherwise(one) == ()
    less = replace(one.report, in_flight_wanted=8, in_flight_limit=2, cut_reads=3)
    depth, reads = found_otherwise(replace(one, report=less))
    assert "at most 2 of 8 requests" in depth
    assert reads.startswith("3 reads cut:") and "--queue-depth" in reads


def test_a_folder_where_a_file_should_be_is_the_error_that_is_told(tmp_path: Path) -> None:
    """What is measured after a failed run must not hide why it failed."""
    plan = sketch("mkdir a\nopen a w+create\nwrite a 0 8192\nclose a")
    outcome = run(Direct()(plan), tmp_path)
    assert outcome.failed
    assert any("open" in error and "directory" in error.lower() for error in outcome.errors)


def test_direct_io_that_has_no_effect_is_said(memory: Path) -> None:
    """tmpfs takes O_DIRECT and uses memory all the same."""
    outcome = run(Direct()(sketch(SAVE_AND_LOAD)), memory, verify=True)
    assert outcome.verified is True
    assert any("not effective: tmpfs" in line for line in outcome.degraded)
    assert any("reads are warm: tmpfs" in line for line in outcome.degraded)
    with pytest.raises(ReplayError, match="--strict"):
        run(Direct()(sketch(SAVE_AND_LOAD)), memory, strict=True)


def test_recorded_direct_io_that_does_not_fit_the_disk_is_run_buffered(tmp_path: Path) -> None:
    """Another site's blocks may be smaller than this one's; the run goes on and says so."""
    plan = sketch("open a w+create+direct\nwrite a 0 100\nclose a")
    outcome = run(plan, tmp_path, verify=True)
    assert outcome.verified is True
    assert any(line.startswith("buffered instead of direct: 1 ") for line in outcome.degraded)
    assert str(outcome.plan.history[-1]) == "buffered()"


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
    assert last_names(plan) == {1: removal}


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
    requests = plan.requests.copy()
    requests["phase"][requests["op"] == Op.READ] = Phase.LOAD
    plan = replace(plan, requests=requests)
    job = schedule(plan).job
    evicted = job.requests["path"][job.requests["op"] == Op.EVICT]
    assert [job.paths[path] for path in evicted] == ["c/f/a"]
    outcome = run(plan, tmp_path, verify=True)
    assert outcome.errors == ()
    assert outcome.verified is True


def test_an_eviction_that_failed_is_named() -> None:
    """It is no request of the plan, but what comes after it is left undone for it."""
    job = schedule(sketch(RENAMED_FOLDERS)).job
    result = np.zeros(len(job.requests), np.int64)
    result[job.requests["op"] == Op.EVICT] = -errno.ENOENT
    assert find_eviction_errors(job, result) == (
        "cannot drop c/f/shards/a from the page cache: No such file or directory",
        "cannot drop c/f/shards/a from the page cache: No such file or directory",
    )


def test_a_full_disk_is_an_error_and_leaves_nothing(small: Path) -> None:
    """Someone else fills the disk while the replay runs."""
    plan = sketch("open a w+create\nwrite a 0 1000000\nwrite a 1000000 1000000\nclose a")

    def fill(stage: str, done: int, total: int) -> None:
        if stage == "run" and done == 0:
            (small / "other").write_bytes(bytes(3 << 20))

    outcome = replay(plan, NOTHING, ReplayOptions(root=small, verify=True), fill)
    assert outcome.failed
    assert "write of 1,000,000 bytes at 1,000,000, a" in outcome.errors[0]
    assert "1 request left undone" in outcome.errors
    assert outcome.verified is False
    assert [entry.name for entry in small.iterdir()] == ["other"]


def test_a_plan_larger_than_the_disk_is_refused_before_the_first_write(small: Path) -> None:
    """Sizes are known: nobody waits an hour for ENOSPC."""
    text = "open a w+create\nwrite a 0 {}\nclose a"
    with pytest.raises(PlanError, match="are free; choose"):
        run(sketch(text.format(4_190_000)), small)
    assert nothing_is_left(small)
    assert not run(sketch(text.format(3_000_000)), small).failed


def test_space_is_counted_as_files_come_and_go(small: Path) -> None:
    """A rotation of checkpoints needs room for those that are there at a time."""
    save = "open {0} w+create\nwrite {0} 0 3000000\nclose {0}\n"
    rotation = "".join(save.format(name) + f"unlink {name}\n" for name in "abcdef")
    assert not run(sketch(rotation), small).failed
    replaced = "".join(save.format(f"{n}.tmp") + f"rename {n}.tmp m\nunlink m\n" for n in "abcdef")
    assert not run(sketch(replaced), small).failed


def in_child(work: Callable[[], object]) -> object:
    """Return what `work` returns or raises, in a forked process that may limit itself."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            answer = work()
        except BaseException as error:
            answer = error
        with open(writer, "wb") as answers:
            pickle.dump(answer, answers)
        os._exit(0)
    os.close(writer)
    with open(reader, "rb") as answers:
        answer = pickle.load(answers)
    os.waitpid(child, 0)
    return answer


@pytest.mark.parametrize("error", [errno.EPERM, errno.ENOSYS])
def test_a_container_without_io_uring_falls_back_and_says_so(tmp_path: Path, error: int) -> None:
    """Most containers forbid it; the figures are then of another executor."""

    def work() -> object:
        forbid(IO_URING_SETUP, error)
        outcome = run(sketch(SAVE_AND_LOAD), tmp_path, verify=True)
        return outcome.executor, outcome.verified, outcome.degraded

    executor, verified, degraded = in_child(work)
    assert (executor, verified) == ("posix", True)
    assert degraded[0].startswith("posix executor instead of io_uring: ")

    def strictly() -> object:
        forbid(IO_URING_SETUP, error)
        return run(sketch(SAVE_AND_LOAD), tmp_path, strict=True)

    refusal = in_child(strictly)
    assert isinstance(refusal, ReplayError)
    assert "--executor posix" in str(refusal)


def test_a_root_that_cannot_be_written_is_one_line() -> None:
    """The message names the directory and the option."""
    with tempfile.TemporaryDirectory() as folder:
        closed = Path(folder)
        closed.chmod(0o555)

        def work() -> object:
            if os.geteuid() == 0:
                os.setgid(65534)
                os.setuid(65534)
            return run(sketch(SAVE_AND_LOAD), closed)

        refusal = in_child(work)
    assert isinstance(refusal, PlanError)
    assert "--root" in str(refusal)
    assert str(closed) in str(refusal)


@pytest.mark.parametrize("root", ["nowhere", "file"])
def test_a_root_that_is_no_directory_is_one_line(tmp_path: Path, root: str) -> None:
    """A typing error is not a traceback."""
    (tmp_path / "file").write_text("")
    with pytest.raises(PlanError, match="--root"):
        run(sketch(SAVE_AND_LOAD), tmp_path / root)


def test_nothing_leaves_the_workspace(tmp_path: Path) -> None:
    """Absolute paths are rebased: the job's own files are never touched."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    root = tmp_path / "root"
    root.mkdir()
    name = str(victim)[1:]
    outcome = run(sketch(f"open {name} w+create+trunc\nwrite {name} 0 5\nclose {name}"), root,
                  keep=True)  # fmt: skip
    assert victim.read_text() == "precious"
    assert (Path(str(outcome.workspace)) / name).stat().st_size == 5


INTERRUPTED = """
import sys
from pathlib import Path
from iotrace.replay.measure import find_eviction_errors
from iotrace.replay.options import ReplayOptions
from iotrace.replay.result import RecordedSummary
from iotrace.replay.schedule import schedule
from iotrace.replay.session import replay
from iotrace.replay.sketch import sketch

plan = sketch("open a w+create\\nwrite a 0 100\\nclose a")
plan.requests.flags.writeable = True
plan.requests["think_ns"][1] = 60_000_000_000
recorded = RecordedSummary(0, 0, 0, 0, 0, 0.0, 0.0)
options = ReplayOptions(root=Path(sys.argv[1]), timing="think")
replay(plan, recorded, options, lambda *stage: print(*stage, flush=True))
"""


def test_ctrl_c_ends_a_run_at_once_and_removes_its_files(tmp_path: Path) -> None:
    """The run is in C and may last for hours."""
    command = [sys.executable, "-c", INTERRUPTED, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"run 0 1\n"
        while not list(tmp_path.glob("*/a")):
            time.sleep(0.01)
        begin = time.monotonic()
        process.send_signal(signal.SIGINT)
        process.wait()
    assert time.monotonic() - begin < 30
    assert nothing_is_left(tmp_path)


def test_a_dry_run_touches_nothing(tmp_path: Path) -> None:
    """`null` checks the plan and counts; even the root need not be there."""
    outcome = run(sketch(SAVE_AND_LOAD), tmp_path / "nowhere", executor="null")
    assert not outcome.failed
    assert outcome.repetitions[0].moved.bytes_written == 304_177


@pytest.mark.parametrize(
    "wrong",
    [
        {"executor": "aio"},
        {"timing": "later"},
        {"queue_depth": 0},
        {"repeat": 0},
        {"warmup": -1},
        {"time_scale": -1.0},
    ],
)
def test_options_that_make_no_sense_are_refused(tmp_path: Path, wrong: dict[str, object]) -> None:
    """Before anything is written, naming the option."""
    with pytest.raises(IotraceError, match="--"):
        run(sketch(SAVE_AND_LOAD), tmp_path, **wrong)


def test_a_request_that_fails_is_told_in_words(tmp_path: Path) -> None:
    """Which request, on which file, and what the system said."""
    plan = sketch("open a w+create\nwrite a 0 5\nclose a\nrename a b\nopen b r\nclose b")
    plan.requests.flags.writeable = True
    plan.requests["op"][3] = Op.UNLINK
    broken = replace(plan, requests=plan.requests)
    outcome = run(broken, tmp_path)
    assert outcome.errors == ("open, b: No such file or directory (request 4)",
                              "1 request left undone")  # fmt: skip
    assert outcome.failed


@pytest.mark.parametrize("executor", ["io_uring", "posix"])
def test_a_folder_that_is_there_does_not_end_the_run(tmp_path: Path, executor: str) -> None:
    """The restore alone finds the folder that its files were prepared in."""
    recording = read_trace(CORPUS / "dcp.parquet")
    plan = Select(ops=("read",))(plan_from_trace(recording))
    outcome = run(plan, tmp_path, executor=executor)
    assert not outcome.failed, outcome.errors
    assert outcome.repetitions[0].moved.bytes_read == summarize(recording).bytes_read


def test_latencies_are_of_reads_and_writes_in_all_repetitions(tmp_path: Path) -> None:
    """Opens and closes are requests of another kind."""
    outcome = run(sketch(SAVE_AND_LOAD), tmp_path, repeat=2)
    assert len(outcome.latencies_ns()) == 2 * 8
    assert len(outcome.latencies_ns(Op.OPEN)) == 2 * 3
    assert np.all(outcome.latencies_ns() > 0)
