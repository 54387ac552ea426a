"""Real jobs under capture, from the command to the trace."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from iotrace.capture.session import Captured, CaptureOptions, capture, recover, remove_raw_dir
from iotrace.traces.check import check_trace
from iotrace.traces.errors import CaptureError
from iotrace.traces.trace import Trace


@dataclass(frozen=True)
class Lab:
    """A folder to run jobs in."""

    folder: Path

    def script(self, text: str) -> list[str]:
        """Write a Python job and return the command that runs it."""
        path = self.folder / "job.py"
        path.write_text(textwrap.dedent(text))
        return [sys.executable, str(path)]

    def capture(self, command: list[str]) -> Captured:
        """Run a job under capture, check its trace and remove its raw logs."""
        captured = capture(command, CaptureOptions(self.folder / "t.parquet.raw"))
        remove_raw_dir(captured.raw_dir)
        assert check_trace(captured.trace) == []
        return captured


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    """Return an empty folder that is the current one."""
    monkeypatch.chdir(tmp_path)
    yield Lab(tmp_path)


def moved(trace: Trace, op: str) -> dict[str, int]:
    """Return the bytes that an op moved, by file name as opened."""
    trace = trace.where(trace.row_mask(layer="request", op=op))
    totals: dict[str, int] = {}
    results = trace.ints("result", null=0).clip(min=0).tolist()
    for path, result in zip(trace.strings("path"), results, strict=True):
        name = Path(path or "").name
        totals[name] = totals.get(name, 0) + result
    return totals


def test_a_job_that_writes_a_temporary_file_and_renames_it(lab: Lab) -> None:
    """The commit of a checkpoint, as most engines do it."""
    command = lab.script(
        """
        import os
        for step in range(2):
            with open("x.tmp", "wb", buffering=0) as file:
                file.write(b"a" * 1000)
                os.fsync(file.fileno())
            os.rename("x.tmp", "x")
        with open("x", "rb", buffering=0) as file:
            file.read(2000)
        """
    )
    captured = lab.capture(command)
    trace = captured.trace
    assert (captured.status, captured.notes) == (0, ())
    assert moved(trace, "write") == {"x.tmp": 2000}
    assert moved(trace, "read") == {"x": 1000}
    ops = ["open", "write", "sync", "close", "rename"]
    requests = trace.layer("request")
    requests = requests.where(~requests.row_mask(op="stat"))  # Python asks after each open
    assert requests.strings("op") == ops * 2 + ["open", "read", "close"]
    assert requests.ints("file").tolist() == [0] * 5 + [1] * 8
    assert trace.metadata.completeness.complete, trace.metadata.completeness.problems()
    assert trace.metadata.command == tuple(command)
    assert [entry.action for entry in trace.metadata.history] == ["capture"]
    assert not list(lab.folder.glob("*.raw"))


def test_two_processes_on_one_file(lab: Lab) -> None:
    """Ranks of a job share a file, each with an open of its own."""
    captured = lab.capture(
        lab.script(
            """
            import os, subprocess, sys
            if len(sys.argv) == 1:
                ranks = [
                    subprocess.Popen([sys.executable, __file__, str(rank)],
                                     env=os.environ | {"RANK": str(rank)})
                    for rank in range(2)
                ]
                sys.exit(sum(rank.wait() for rank in ranks))
            rank = int(sys.argv[1])
            fd = os.open("shared", os.O_WRONLY | os.O_CREAT)
            os.pwrite(fd, b"r" * 4096, rank * 4096)
            os.close(fd)
            """
        )
    )
    trace = captured.trace
    writes = trace.where(trace.row_mask(op="write"))
    assert sorted(
        zip(writes.ints("rank").tolist(), writes.ints("offset").tolist(), strict=True)
    ) == [
        (0, 0),
        (1, 4096),
    ]
    assert len(set(writes.ints("file").tolist())) == 1
    assert len(trace.metadata.processes) == 2
    assert trace.metadata.completeness.complete, trace.metadata.completeness.problems()


@pytest.mark.parametrize(
    ("end", "status"),
    [("pass", 0), ("sys.exit(7)", 7), ("os._exit(9)", 9), ("os.kill(os.getpid(), 11)", 139)],
)
def test_every_way_to_end_leaves_a_whole_trace(lab: Lab, end: str, status: int) -> None:
    """Nothing is written at the end, so nothing can be missed."""
    captured = lab.capture(
        lab.script(
            f"import os, sys\nos.write(os.open('x', os.O_WRONLY | os.O_CREAT), b'12345')\n{end}"
        )
    )
    assert captured.status == status
    assert moved(captured.trace, "write") == {"x": 5}
    problems = captured.trace.metadata.completeness.problems()
    assert ["was killed" in problem for problem in problems] == ([True] if status > 128 else [])


def test_output_and_environment_are_the_jobs_own(
    lab: Lab, capfd: pytest.CaptureFixture[str]
) -> None:
    """Only the documented variables differ, and nothing is printed."""
    command = lab.script(
        """
        import os, sys
        print("out")
        print("err", file=sys.stderr)
        ours = ("LD_PRELOAD", "IOTRACE_")
        print(sorted(item for item in os.environ.items() if not item[0].startswith(ours)))
        print(sys.argv, os.getcwd(), sys.flags, sys.path, sys.stdin.read())
        """
    )
    # Given by name: what C libraries like readline put into the environment is not ours.
    bare = subprocess.run(
        command, capture_output=True, text=True, check=True, input="", env=os.environ
    )
    with open(os.devnull) as nothing:
        stdin = os.dup(0)
        os.dup2(nothing.fileno(), 0)
        try:
            captured = lab.capture(command)
        finally:
            os.dup2(stdin, 0)
            os.close(stdin)
    assert captured.status == 0
    assert tuple(capfd.readouterr()) == (bare.stdout, bare.stderr)


SAVE = """
    import os, sys
    fd = os.open("x", os.O_WRONLY | os.O_CREAT)
    for number in range(1_000_000_000):
        os.pwrite(fd, b"%15d\\n" % number, 16 * number)
"""


def test_a_job_killed_in_the_middle_of_a_save_is_recovered(lab: Lab) -> None:
    """All requests but the one in flight are in the log, whatever killed job and capture."""
    raw_dir = lab.folder / "raw"
    command = lab.script(SAVE)
    program = (
        "import sys; from pathlib import Path; from iotrace.capture.session import *;"
        "capture(sys.argv[2:], CaptureOptions(Path(sys.argv[1])))"
    )
    job = subprocess.Popen(
        [sys.executable, "-c", program, str(raw_dir), *command], start_new_session=True
    )
    path = lab.folder / "x"
    deadline = time.monotonic() + 60
    while not (path.exists() and path.stat().st_size > 16 * 5000):
        assert job.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.killpg(job.pid, signal.SIGKILL)
    job.wait()
    wait_until_gone("job.py", str(command[1]))
    trace = recover(raw_dir)
    written = path.stat().st_size
    writes = trace.where(trace.row_mask(op="write"))
    recorded = int(writes.ints("result").sum())
    assert written - 16 <= recorded <= written
    assert np.array_equal(writes.ints("offset"), 16 * np.arange(len(writes)))
    assert "was killed" in " ".join(trace.metadata.completeness.problems())
    assert trace.metadata.command == tuple(command)
    assert [entry.action for entry in trace.metadata.history] == ["recover"]


def wait_until_gone(name: str, argument: str) -> None:
    """Wait until no process with this argument is left: the kernel takes its time."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        found = [
            path
            for path in Path("/proc").glob("[0-9]*/cmdline")
            if argument in read_or_empty(path) and name in read_or_empty(path)
        ]
        if not found:
            return
        time.sleep(0.01)
    raise AssertionError(f"{name} is still there")


def read_or_empty(path: Path) -> str:
    """Return a file of /proc, empty once its process is gone."""
    try:
        return path.read_text()
    except OSError:
        return ""


def test_a_daemon_that_outlives_the_job_is_named(lab: Lab) -> None:
    """The capture ends with the job; what the daemon does later is not in the trace."""
    captured = lab.capture(
        lab.script(
            """
            import os, subprocess, sys, time
            if len(sys.argv) > 1:
                open("d", "wb", buffering=0).write(b"123")
                time.sleep(30)
            daemon = subprocess.Popen([sys.executable, __file__, "daemon"])
            while not os.path.exists("d") or os.path.getsize("d") < 3:
                time.sleep(0.01)
            open("pid", "w").write(str(daemon.pid))
            """
        )
    )
    pid = int((lab.folder / "pid").read_text())
    os.kill(pid, signal.SIGKILL)
    assert moved(captured.trace, "write")["d"] == 3
    problems = captured.trace.metadata.completeness.problems()
    assert any("still runs" in problem and f"pid {pid}," in problem for problem in problems)


def test_helper_programs_make_no_processes_in_the_trace(lab: Lab) -> None:
    """A job is surrounded by shells."""
    captured = lab.capture(["sh", "-c", "ls / | cat >/dev/null; echo 12 > x; exec true"])
    (process,) = captured.trace.metadata.processes
    assert process.argv[0] == "sh"
    assert moved(captured.trace, "write") == {"x": 3}


@pytest.mark.parametrize(("name", "status"), [("no-such-tool", 127), ("job.py", 126)])
def test_a_job_that_cannot_start_leaves_nothing(lab: Lab, name: str, status: int) -> None:
    """No trace, no folder, and the shell's exit status."""
    lab.script("")
    with pytest.raises(CaptureError) as error:
        capture([f"./{name}"], CaptureOptions(lab.folder / "raw"))
    assert error.value.exit_code == status
    assert [path.name for path in lab.folder.iterdir()] == ["job.py"]


def test_recovering_from_a_folder_without_logs_is_an_error(lab: Lab) -> None:
    """A trace without rows would look like a job without files."""
    with pytest.raises(CaptureError, match="no raw logs"):
        recover(lab.folder)


def test_a_small_log_limit_is_obeyed_and_admitted(lab: Lab) -> None:
    """A full log must not stop the job, nor go unnoticed."""
    command = lab.script(
        """
        import os
        fd = os.open("x", os.O_WRONLY | os.O_CREAT)
        for number in range(5000):
            os.pwrite(fd, b"1234", 4 * number)
        """
    )
    options = CaptureOptions(lab.folder / "raw", log_limit_bytes=1 << 17)
    captured = capture(command, options)
    completeness = captured.trace.metadata.completeness
    kept = len(captured.trace.where(captured.trace.row_mask(op="write")))
    assert captured.status == 0
    assert (lab.folder / "x").stat().st_size == 20_000
    assert 0 < kept < 5000
    assert completeness.dropped_records >= 5000 - kept
    assert not completeness.complete
