"""Processes without a raw log: known, counted, and named where they could not be watched."""

import os
import shlex
import signal
import sys
from pathlib import Path

import numpy as np
import pytest

from iotrace.capture.roster import HEADER, read_roster, roster_path, start_roster
from iotrace.capture.session import CaptureOptions, capture, remove_raw_dir
from iotrace.traces.environment import boot_id
from iotrace.traces.metadata import Completeness

from .preload_job import compile_program


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty folder that is the current one."""
    (tmp_path / "job").mkdir()
    monkeypatch.chdir(tmp_path / "job")
    return tmp_path / "job"


def build(folder: Path, name: str, source: str, *flags: str) -> Path:
    """Compile a program of csrc."""
    return compile_program(folder, source, *flags).rename(folder / name)


def completeness(*command: str) -> Completeness:
    """Capture a job that must end well; return what its trace does not hold."""
    captured = capture(command, CaptureOptions(Path("../raw").absolute()))
    remove_raw_dir(captured.raw_dir)
    assert captured.status == 0
    assert not captured.raw_dir.exists()
    return captured.trace.metadata.completeness


@pytest.mark.parametrize(
    "command",
    [
        ("sh", "-c", "./static out; true"),
        ("sh", "-c", "PATH=$PWD:$PATH; static out; true"),
        ("sh", "-c", "exec ./static out"),
        ("sh", "-c", "./script out; true"),
        ("env", "static", "out"),
        (sys.executable, "-c", "import subprocess as s; s.run(['./static', 'out'], check=True)"),
        (sys.executable, "-c", "import os; os.execvp('./static', ['static', 'out'])"),
        (sys.executable, "-c", "import os; os.posix_spawnp('static', ['s', 'out'], os.environ)"),
    ],
)
def test_a_static_child_is_named(
    job: Path, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy made by busybox or by a Go program is in no raw log."""
    build(job, "static", "writer.c", "-static")
    (job / "script").write_text(f"#!{job}/static -x\n")
    (job / "script").chmod(0o755)
    monkeypatch.setenv("PATH", f"/no/such/folder:{job}:{os.environ['PATH']}")
    problem = completeness(*command).problems()[0]
    assert "static is linked statically; what it did itself was not seen" in problem


def test_a_child_with_other_privileges_is_named(job: Path) -> None:
    """The system starts it without the library."""
    program = build(job, "privileged", "writer.c")
    if os.getuid():
        pytest.skip("giving a file away needs root")
    os.chown(program, 12345, 12345)
    program.chmod(0o4755)
    job.chmod(0o777)
    problem = completeness("sh", "-c", "./privileged out; true").problems()[0]
    assert "privileged ran with other privileges" in problem


@pytest.mark.parametrize(
    "script",
    [
        "echo 12 > x; head -c 3000000 /dev/zero | cat | cat | wc -c > /dev/null",
        "echo 12 > x; (head -c 3000000 /dev/zero | cat) | (cat; true) > /dev/null",
        "echo 12 > x; yes | head -c 3000000 > /dev/null",  # one is killed by a signal
        "echo 12 > x; for i in $(seq 200); do /bin/true; done",
        "echo 12 > x; /sbin/ldconfig -p > /dev/null",
        "/sbin/ldconfig -p > /dev/null; echo 12 > x",
        "echo 12 > x; $(ls /lib64/ld-*) /bin/true",
    ],
)
def test_what_helpers_move_through_pipes_is_not_missed(job: Path, script: str) -> None:
    """The kernel counts it for the shell that waits for them."""
    found = completeness("sh", "-c", script)
    assert found.problems() == []
    assert found.processes[0].recorded_bytes_written == 3


@pytest.mark.parametrize("script", ["./raw out; true", "echo 12 > x; ./raw out; true"])
def test_a_child_that_calls_the_kernel_itself_is_noticed(job: Path, script: str) -> None:
    """Nothing else tells of it: it is dynamic, and has no log."""
    build(job, "raw", "raw_writer.c")
    (problem,) = completeness("sh", "-c", script).problems()
    assert "(raw), or a program it ran, wrote 195 KiB that were not seen" in problem


def test_what_a_child_that_cannot_be_watched_wrote_is_missed_in_its_parent(job: Path) -> None:
    """The kernel's count of a shell includes its children: the size is known, too."""
    build(job, "static", "writer.c", "-static")
    found = completeness("sh", "-c", "echo 12 > x; ./static out; true")
    assert 200_000 <= found.processes[0].unseen_bytes_written < 201_000


def test_a_process_that_outlives_the_job_is_named_before_it_touches_a_file(job: Path) -> None:
    """What it writes later would otherwise be missing from a trace that calls itself complete."""
    script = "sleep 60 > /dev/null & echo $! > pid"
    (problem,) = completeness("sh", "-c", script).problems()
    os.kill(int((job / "pid").read_text()), signal.SIGKILL)
    assert "(sleep) still runs: what it does from now on is not in the trace" in problem


def test_a_process_that_ends_with_the_job_is_no_problem(job: Path) -> None:
    """Python's resource tracker, say, ends when it sees that its parent is gone."""
    assert completeness("sh", "-c", "sleep 0.1 & true").problems() == []


def test_a_forked_child_that_goes_on_is_named(job: Path) -> None:
    """No new program, so nothing but the fork tells of it."""
    code = "import os, time\npid = os.fork() or time.sleep(60)\nopen('x', 'w').write(str(pid))"
    problems = completeness(sys.executable, "-c", code).problems()
    os.kill(int((job / "x").read_text()), signal.SIGKILL)
    assert ["still runs" in problem for problem in problems] == [True]


def test_programs_that_are_not_there_are_no_problem(job: Path) -> None:
    """A child that tries all folders of PATH, one that fails, and one that is found."""
    code = (
        "import subprocess as s; s.run(['dd', 'if=/dev/zero', 'of=x', 'bs=9', 'count=1'])\n"
        "try: s.run(['no-such-program'])\nexcept OSError: pass"
    )
    assert not completeness(sys.executable, "-c", code).problems()
    assert not completeness("bash", "-c", "no-such-program; echo > x").problems()


def test_a_small_file_size_limit_leaves_the_job_as_it_is(job: Path) -> None:
    """The list of processes may not grow under it, so it does not have to."""
    script = "ulimit -f 1; for i in 1 2 3; do head -c 900 /dev/zero > x$i; done"
    assert completeness("bash", "-c", script).problems() == []
    assert [(job / f"x{i}").stat().st_size for i in (1, 2, 3)] == [900, 900, 900]


@pytest.mark.parametrize("how", ["clone", "clone3", "clone()", "thread", "namespaces"])
def test_a_process_made_without_libc_is_no_gap(job: Path, how: str) -> None:
    """Nothing tells when it began, and it may be over before its parent is."""
    build(job, "clones", "clones.c")
    found = completeness("./clones", how)
    assert found.problems() == []
    assert sorted(p.recorded_bytes_written for p in found.processes) in (
        [10_000, 200_000],
        [210_000],
    )
    assert found.unaccounted_bytes_written == 0


@pytest.mark.parametrize("more", [(), ("--mount-proc",)])
@pytest.mark.parametrize("runs", ["", "wait; "])
def test_a_namespace_of_pids_has_a_parent(job: Path, more: tuple[str, ...], runs: str) -> None:
    """The kernel's count of who made it includes all that was done inside; its pids start at 1."""
    (job / "big").write_bytes(b"1" * 2_000_000)
    inside = "d=`mktemp -d -p .`; cp big $d/1; cp big $d/2; cp big $d/1; sleep 0.3"
    unshare = ("unshare", "--user", "--map-root-user", "--pid", "--fork", *more)
    command = (*unshare, "sh", "-c", inside)
    if runs:  # two at a time
        script = f"{shlex.join(command)} & {shlex.join(command)} & {runs}true"
        command = ("sh", "-c", script)
    found = completeness(*command)
    assert found.problems() == []
    assert sum(p.recorded_bytes_written for p in found.processes) == (12 if runs else 6) * 10**6
    copies = [p for p in found.processes if p.recorded_bytes_written]
    written = [p.kernel_bytes_written for p in copies]
    assert written == ([None] * 6 if runs else [2_000_000] * 3)


@pytest.mark.parametrize(
    ("how", "own"),
    [("memory", 10_001), ("memory and files", 10_000), ("vfork", 10_000), ("no child", 10_000)],
)
def test_a_process_in_the_memory_of_another_is_no_part_of_it(job: Path, how: str, own: int) -> None:
    """It has descriptors of its own, and no thread whose requests could be told apart."""
    build(job, "clones", "clones.c")
    found = completeness("./clones", how)
    assert "20 requests on descriptors that could not be resolved" in found.problems()
    assert [p.recorded_bytes_written for p in found.processes] == [own]
    assert found.unaccounted_bytes_written == (0 if how == "no child" else 200_000)


@pytest.mark.parametrize("finds", ["subprocess.run(c)", "os.posix_spawn(c[0], c, {}); os.wait()"])
@pytest.mark.parametrize("writes", ["", "open('x', 'w').write('12')"])
def test_python_asks_where_libraries_are(job: Path, finds: str, writes: str) -> None:
    """By a static program that writes no file; its list is no gap, with and without a log."""
    code = f"import os, subprocess\nc = ['/sbin/ldconfig', '-p']\n{finds}\n{writes}"
    assert completeness(sys.executable, "-c", code).problems() == []


@pytest.mark.parametrize("unset", ["os.environb.clear()", "os.unsetenv('LD_PRELOAD')"])
def test_a_little_that_is_written_without_the_library_is_noticed(job: Path, unset: str) -> None:
    """libc's system() passes on the environment as the program left it."""
    code = f"import os; {unset}; os.system('/usr/bin/head -c 5000 /dev/zero > x')"
    (problem,) = completeness(sys.executable, "-S", "-c", code).problems()
    assert "wrote 4.88 KiB that were not seen" in problem
    assert (job / "x").stat().st_size == 5000


def test_a_list_that_does_not_say_its_boot_is_of_this_one(tmp_path: Path) -> None:
    """The system may refuse to say, or the header be cut; the pids are this host's all the same."""
    start_roster(tmp_path)
    path = roster_path(tmp_path)
    whole = path.read_bytes()
    header = np.frombuffer(whole, HEADER, count=1).copy()
    header["boot_id"] = b""
    for data in (header.tobytes() + whole[HEADER.itemsize :], whole[: HEADER.itemsize - 1]):
        path.write_bytes(data)
        assert read_roster(tmp_path).boot_id == boot_id() != ""
