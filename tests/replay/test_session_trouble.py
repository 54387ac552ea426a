"""What a replay cannot do as asked: it falls back and says so, or fails in one line."""

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

import pytest

from iotrace.replay.build import plan_from_trace
from iotrace.replay.job import Op
from iotrace.replay.loop import Tape
from iotrace.replay.options import ReplayOptions
from iotrace.replay.plan import Plan
from iotrace.replay.prepare import prepare
from iotrace.replay.session import replay
from iotrace.replay.sketch import sketch
from iotrace.replay.suitability import surprises as found_otherwise
from iotrace.replay.transforms.direct import Direct
from iotrace.replay.transforms.select import Select
from iotrace.traces.errors import IotraceError, PlanError, ReplayError
from iotrace.traces.reader import read_trace
from iotrace.traces.summary import summarize
from tests.small_disk import mounted_tmpfs

from .seccomp import IO_URING_SETUP, forbid
from .session_run import NOTHING, SAVE_AND_LOAD, nothing_is_left, run


@pytest.fixture
def memory() -> Iterator[Path]:
    """Return an empty directory on tmpfs."""
    folder = Path(tempfile.mkdtemp(dir="/dev/shm"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """Return a file system of 4 MiB."""
    with mounted_tmpfs(tmp_path / "small", "4m") as folder:
        yield folder


def test_what_kept_requests_from_being_as_recorded_is_said(tmp_path: Path) -> None:
    """Numbers of reads that were cut, or came one by one, are not those of the recording."""
    one = run(sketch(SAVE_AND_LOAD), tmp_path).repetitions[0]
    assert found_otherwise(one) == ()
    less = replace(one.report, in_flight_wanted=8, in_flight_limit=2, cut_reads=3)
    depth, reads = found_otherwise(replace(one, report=less))
    assert "at most 2 of 8 requests" in depth
    assert reads.startswith("3 reads cut:") and "--queue-depth" in reads


def test_a_folder_where_a_file_should_be_is_the_error_that_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is measured after a failed run must not hide why it failed."""

    def with_a_folder(plan: Plan, tape: Tape, root_fd: int) -> None:
        prepare(plan, tape, root_fd)
        os.mkdir("a", dir_fd=root_fd)

    monkeypatch.setattr("iotrace.replay.runner.prepare", with_a_folder)
    plan = sketch("open a w+create\nwrite a 0 8192\nclose a")
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
    with pytest.raises(PlanError, match=r"needs [\d.]+ MiB in .* are free; choose"):
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
from dataclasses import replace
from pathlib import Path
from iotrace.replay.options import ReplayOptions
from iotrace.replay.result import RecordedSummary
from iotrace.replay.schedule import schedule
from iotrace.replay.plan import Plan
from iotrace.replay.prepare import prepare
from iotrace.replay.session import replay
from iotrace.replay.sketch import sketch

plan = sketch("open a w+create\\nwrite a 0 100\\nclose a")
plan = replace(plan, requests=plan.requests.having_at(1, think_ns=60_000_000_000))
recorded = RecordedSummary(0, 0, 0, 0, 0, 0.0, 0.0)
options = ReplayOptions(root=Path(sys.argv[1]), timing="think")
replay(plan, recorded, options, lambda *stage: print(*stage, flush=True))
"""


def test_ctrl_c_ends_a_run_at_once_and_removes_its_files(tmp_path: Path) -> None:
    """The run is in C and may last for hours."""
    command = [sys.executable, "-c", INTERRUPTED, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(b"run 0 ")
        while not list(tmp_path.glob("*/a")):
            time.sleep(0.01)
        begin = time.monotonic()
        process.send_signal(signal.SIGINT)
        process.wait()
    assert time.monotonic() - begin < 30
    assert nothing_is_left(tmp_path)


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
    broken = replace(plan, requests=plan.requests.having_at(3, op=Op.UNLINK))
    outcome = run(broken, tmp_path)
    assert outcome.errors == ("open, b: No such file or directory (request 4)",
                              "1 request left undone")  # fmt: skip
    assert outcome.failed


@pytest.mark.parametrize("executor", ["io_uring", "posix"])
def test_a_folder_that_is_there_does_not_end_the_run(tmp_path: Path, executor: str) -> None:
    """The restore alone finds the folder that its files were prepared in."""
    recording = read_trace("corpus:dcp")
    plan = Select(ops=("read",))(plan_from_trace(recording))
    outcome = run(plan, tmp_path, executor=executor)
    assert not outcome.failed, outcome.errors
    assert outcome.repetitions[0].moved.bytes_read == summarize(recording).bytes_read
