"""A copy of the warm process finds around it what a process of its own does, and says the same."""

import json
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from .command import COLUMNS, IOTRACE, iotrace
from .conftest import Make
from .warm import plain_environment

# What a job inherits of the command that started it; each capture has a keeper of its own.
JOB = """
import json, os, resource, sys
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(json.dumps({
    "argv": sys.argv,
    "cwd": os.getcwd(),
    "environment": {**os.environ, "IOTRACE_KEEPER": ""},
    "status": {key: status[key] for key in status if key.startswith(("Sig", "Cap", "Umask"))},
    "files": sorted((int(fd), os.path.exists("/proc/self/fd/" + fd)) for fd in os.listdir("/proc/self/fd")),
    "input": os.stat(0)[:3],
    "limits": [resource.getrlimit(number) for number in range(16)],
    "process": [os.getsid(0), os.nice(0), os.sched_getscheduler(0), *os.sched_getaffinity(0)],
}))
print("said", file=sys.stderr)
sys.exit(7)
"""  # noqa: E501


def fresh(*arguments: object, cwd: Path, **extra_env: str) -> subprocess.CompletedProcess[str]:
    """Run the installed script."""
    environment = {**plain_environment(), "COLUMNS": str(COLUMNS), **extra_env}
    command = [str(IOTRACE), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=cwd)


def test_a_job_cannot_tell_a_copy_from_a_process_of_its_own(tmp_path: Path) -> None:
    """Arguments, folder, environment, signals, capabilities, open files, limits, priority."""
    capture = (
        "capture",
        "-q",
        "--force",
        "-o",
        "t.parquet",
        "--",
        sys.executable,
        "-c",
        JOB,
        "a b",
    )
    more = {"MORE": "é\n"}
    ours = iotrace(*capture, cwd=tmp_path, extra_env=more)
    theirs = fresh(*capture, cwd=tmp_path, **more)
    assert json.loads(ours.stdout) == json.loads(theirs.stdout)
    assert (ours.returncode, ours.stderr) == (theirs.returncode, theirs.stderr) == (7, "said\n")


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        ((), 2),
        (("show", "TRACE"), 0),
        (("show", "nowhere.parquet"), 2),
        (("capture", "-q", "--force", "--", "sh", "-c", "kill -9 $$"), 128 + 9),
    ],
)
def test_a_copy_says_and_ends_as_a_process_of_its_own(
    arguments: tuple[str, ...], status: int, small_trace: Path, tmp_path: Path
) -> None:
    """Output, messages and status, of a result, a help, a bad input and a killed job."""
    words = [str(small_trace) if word == "TRACE" else word for word in arguments]
    ours, theirs = iotrace(*words, cwd=tmp_path), fresh(*words, cwd=tmp_path)
    assert ours.returncode == theirs.returncode == status
    assert (ours.stdout, ours.stderr) == (theirs.stdout, theirs.stderr)


def test_nothing_goes_from_one_copy_to_the_next(make_trace: Make, tmp_path: Path) -> None:
    """Folder, environment and limits are those of one command."""
    job = (
        "capture",
        "-q",
        "--force",
        "-o",
        "t.parquet",
        "--",
        "sh",
        "-c",
        "pwd; ulimit -n; env -u IOTRACE_KEEPER",
    )
    before = iotrace(*job, cwd=tmp_path).stdout
    other = tmp_path / "other"
    other.mkdir()
    limits = {resource.RLIMIT_NOFILE: 123}
    changed = iotrace(*job, cwd=other, extra_env={"ODD": "1"}, limits=limits).stdout
    assert changed.splitlines()[:2] == [str(other), "123"] and "ODD=1" in changed
    assert iotrace(*job, cwd=tmp_path).stdout == before


def test_a_command_that_does_not_end_is_ended(tmp_path: Path) -> None:
    """By the signal of its alarm; a whole test run must not wait for it."""
    done = iotrace("capture", "--", "sleep", "2", cwd=tmp_path, seconds=1)
    assert done.returncode == -signal.SIGALRM
