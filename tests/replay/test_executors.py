"""Executors where io_uring is whole, crippled or forbidden."""

import ctypes
import errno
import os
import resource
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from iotrace.replay import loop
from iotrace.replay.executors.executor import Executor, LoopOptions
from iotrace.replay.executors.null import NullExecutor
from iotrace.replay.executors.posix import PosixExecutor
from iotrace.replay.executors.uring import UringExecutor
from iotrace.replay.job import Fence
from iotrace.replay.loop import Tape, probe_uring
from iotrace.traces.errors import PlanError

from .job_builder import CREATE, JobBuilder, run

SETTING = Path("/proc/sys/kernel/io_uring_disabled")
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
IO_URING_SETUP, IO_URING_REGISTER, OPENAT2 = 425, 427, 437
DENY, ALLOW = 0x00050000, 0x7FFF0000


def forbid(call: int, error: int) -> None:
    """Make a system call of this process, and all it becomes, fail with `error`."""
    load, equal, give = 0x20, 0x15, 0x06  # BPF: load a word, jump if equal, return
    program = [
        (load, 0, 0, 0),
        (equal, 0, 1, call),
        (give, 0, 0, DENY | error),
        (give, 0, 0, ALLOW),
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in program))
    filters = struct.pack("HxxxxxxP", len(program), ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    for arguments in ((PR_SET_NO_NEW_PRIVS, 1, 0), (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, filters)):
        if libc.prctl(arguments[0], *arguments[1:], 0, 0):
            raise OSError(ctypes.get_errno(), "prctl")


def in_a_child(action: Callable[[], str]) -> str:
    """Return what `action` returns in a forked process, so that it may cripple itself."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            answer = action()
        except BaseException as error:
            answer = f"{type(error).__name__}: {error}"
        os.write(writing, answer.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answers:
        answer = answers.read()
    os.waitpid(child, 0)
    return answer


def small_job() -> JobBuilder:
    """Return 40 direct writes and a sync."""
    job = JobBuilder()
    handle = job.open("a", CREATE | os.O_DIRECT)
    for i in range(40):
        job.write(handle, i * 8192, 8192)
    job.sync(handle)
    job.close(handle)
    return job


def crippled(tape: Tape, root: Path, call: int, error: int) -> str:
    """Run the small job through io_uring without a system call; return what was refused."""

    def action() -> str:
        forbid(call, error)
        done = run(UringExecutor(), small_job().build(), tape, root)
        assert done.report.first_error is None
        return ",".join(done.report.refused) or "nothing"

    return in_a_child(action)


@pytest.mark.parametrize(
    ("error", "words"),
    [(errno.EPERM, "seccomp filter"), (errno.ENOSYS, "kernel"), (errno.ENOMEM, "ulimit -l")],
)
def test_a_refused_ring_is_explained(tape: Tape, tmp_path: Path, error: int, words: str) -> None:
    """Containers forbid io_uring; the user must learn who did and what else there is."""

    def probe() -> str:
        forbid(IO_URING_SETUP, error)
        return probe_uring() or "usable"

    def attempt() -> str:
        forbid(IO_URING_SETUP, error)
        run(UringExecutor(), small_job().build(), tape, tmp_path)
        return "ran"

    assert words in in_a_child(probe)
    answer = in_a_child(attempt)
    assert answer.startswith("ReplayError: ") and words in answer and "--executor posix" in answer
    assert errno.errorcode[error] in answer


@pytest.mark.skipif(not os.access(SETTING, os.W_OK), reason="the sysctl is not ours to change")
def test_the_sysctl_that_forbids_io_uring_is_named() -> None:
    """The cure is one line, for whoever knows its name."""
    before = SETTING.read_text()
    try:
        SETTING.write_text("2")
        cause = probe_uring()
    finally:
        SETTING.write_text(before)
    assert cause is not None and "kernel.io_uring_disabled is 2" in cause
    assert probe_uring() is None


def test_posix_needs_no_ring(tape: Tape, tmp_path: Path) -> None:
    """The way out must be open where io_uring is not."""

    def action() -> str:
        forbid(IO_URING_SETUP, errno.EPERM)
        done = run(PosixExecutor(), small_job().build(), tape, tmp_path)
        return str(done.report.first_error)

    assert in_a_child(action) == "None"
    assert (tmp_path / "a").read_bytes() == tape.read(0, 0, 40 * 8192)


def test_refused_registrations_are_reported_and_change_nothing(tape: Tape, tmp_path: Path) -> None:
    """A kernel that refuses a feature is slower, not wrong; the report says which."""
    refused = crippled(tape, tmp_path, IO_URING_REGISTER, errno.ENOMEM)
    assert refused == "registered buffers,registered files,registered ring"
    assert (tmp_path / "a").read_bytes() == tape.read(0, 0, 40 * 8192)


def test_lack_of_lockable_memory_drops_registered_buffers(tape: Tape, tmp_path: Path) -> None:
    """Users are not root: 8 MiB is what a plain account may lock."""

    def action() -> str:
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (1 << 20, 1 << 20))
        os.setresuid(65534, 65534, 65534)
        done = run(UringExecutor(), small_job().build(), tape, tmp_path)
        return f"{done.report.refused} {done.report.first_error}"

    tmp_path.chmod(0o777)
    for parent in tmp_path.parents[:2]:
        parent.chmod(0o755)
    if os.getuid():
        pytest.skip("only root can become another user")
    assert in_a_child(action) == "('registered buffers',) None"


def test_memory_that_the_last_ring_had_locked_is_waited_for() -> None:
    """The kernel gives it back some time after the close: two replays in a row met that."""

    def action() -> str:
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (64 << 10, 64 << 10))
        os.setresuid(65534, 65534, 65534)
        return f"{[cause for _ in range(100) if (cause := probe_uring())]}"

    if os.getuid():
        pytest.skip("only root can become another user")
    assert in_a_child(action) == "[]"


def test_registration_may_be_turned_off(tape: Tape, tmp_path: Path) -> None:
    """It is a variable of the experiment."""
    options = LoopOptions(registered_buffers=False, registered_files=False)
    report = run(UringExecutor(), small_job().build(), tape, tmp_path, options).report
    assert not {"registered buffers", "registered files"} & {*report.features, *report.refused}
    report = run(UringExecutor(), small_job().build(), tape, tmp_path).report
    assert {"registered buffers", "registered files"} <= {*report.features}


def test_old_kernels_without_openat2_are_served(
    executor: Executor, tape: Tape, tmp_path: Path
) -> None:
    """Clusters run kernels of 2018; paths must stay beneath the root there too."""
    (tmp_path / "in").mkdir()
    (tmp_path / "link").symlink_to("/etc")

    def action() -> str:
        forbid(OPENAT2, errno.ENOSYS)
        job = JobBuilder()
        for path in ("in/a", "a/", "../out", "/etc/x", "link/x", "link", "in/../x", "./in/./b"):
            job.open(path)
        results = run(executor, job.build(), tape, tmp_path).timings["result"].tolist()
        return " ".join(errno.errorcode.get(-result, str(result)) for result in results)

    answers = in_a_child(action).split()
    assert answers[0] == answers[-1] == "0"
    assert set(answers[2:-1]) <= {"EXDEV", "ELOOP", "ENOTDIR"} and len(answers) == 8
    assert sorted(path.name for path in (tmp_path / "in").iterdir()) == ["a", "b"]


def test_the_null_executor_touches_nothing(tape: Tape, tmp_path: Path) -> None:
    """A dry run shows the plan's numbers and checks it."""
    job = small_job()
    job.write(0, 0, 100, fence=Fence.ALL)
    done = run(NullExecutor(), job.build(), tape, tmp_path)
    assert not any(tmp_path.iterdir())
    assert done.timings["result"].tolist() == [0, *[8192] * 40, 0, 0, 100]
    assert np.all(done.timings["end_ns"] == done.timings["start_ns"])
    broken = job.build()
    broken.requests["file"][3] = 9
    with pytest.raises(PlanError):
        run(NullExecutor(), broken, tape, tmp_path)


def test_results_cannot_be_changed(executor: Executor, tape: Tape, tmp_path: Path) -> None:
    """Timings are what was measured."""
    done = run(executor, small_job().build(), tape, tmp_path)
    with pytest.raises(ValueError):
        done.timings["result"][0] = 1


def test_no_descriptor_is_left_open(executor: Executor, tape: Tape, tmp_path: Path) -> None:
    """A trace cut short lacks its closes; a sweep runs hundreds of jobs."""
    job = JobBuilder()
    for i in range(50):
        job.write(job.open(f"f{i}"), 0, 10)
    built = job.build()
    run(executor, built, tape, tmp_path)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        run(executor, built, tape, tmp_path)
    assert len(os.listdir("/proc/self/fd")) == before


def test_more_files_than_the_soft_limit_may_be_open(
    executor: Executor, tape: Tape, tmp_path: Path
) -> None:
    """File-per-tensor layouts hold thousands open; the hard limit is the real one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 4096:
        pytest.skip("the hard limit is low here")

    def action() -> str:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
        job = JobBuilder()
        for i in range(400):
            job.open(f"f{i}")
        return str(run(executor, job.build(), tape, tmp_path).report.first_error)

    assert in_a_child(action) == "None"
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (soft, hard)


def test_a_queue_depth_that_is_not_reached_is_reported(
    executor: Executor, tape: Tape, tmp_path: Path
) -> None:
    """A measurement at half the depth asked for must not pass for the whole."""
    job = JobBuilder()
    handle = job.open("a")
    for i in range(700):
        job.write(handle, i * 10, 10)
    report = run(executor, job.build(), tape, tmp_path, LoopOptions(queue_depth=2000)).report
    assert report.in_flight_wanted == 701
    assert report.in_flight_limit == (512 if executor.name == "posix" else 701)
    large = JobBuilder()
    handle = large.open("b")
    for i in range(4):
        large.write(handle, i * 10, 10, pieces=[(0, 0, 5), (0, 5, 5)])
    options = LoopOptions(queue_depth=4, staging_bytes=1 << 29)
    report = run(executor, large.build(), tape, tmp_path, options).report
    assert (report.in_flight_wanted, report.in_flight_limit) == (4, 2)
    assert report.first_error is None


def test_only_one_file_imports_the_compiled_loop() -> None:
    """What C needs to be told stays in one place."""
    package = Path(loop.__file__).parent
    users = [p.name for p in package.rglob("*.py") if "replay._loop" in p.read_text()]
    assert [name for name in users if name != "build_loop.py"] == ["loop.py"]
