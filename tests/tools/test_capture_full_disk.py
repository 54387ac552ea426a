"""`iotrace capture` where the disk of its raw logs or of its trace has no room."""

import errno
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from iotrace.capture.roster import roster_path
from iotrace.traces.metadata import Completeness
from iotrace.traces.reader import read_trace
from iotrace.traces.summary import summarize

from .command import assert_one_line_error, iotrace

Disk = Callable[[str], Path]
FULL, TOO_LARGE = os.strerror(errno.ENOSPC), os.strerror(errno.EFBIG)
FILLER = """
import os, sys
fd, total = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY), 0
for size in (100_000, 1000, 1):
    try:
        while True:
            total += os.write(fd, bytes(size))
    except OSError:
        pass
print(total)
if sys.argv[2:]:
    os.spawnvp(os.P_WAIT, sys.executable, [sys.executable, "-c", *sys.argv[2:]])
sys.exit(9)
"""
KILLED = (
    "import os; fd = os.open('out', os.O_CREAT | os.O_WRONLY); os.write(fd, bytes(1000));"
    "os.kill(os.getpid(), 9)"
)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    """Mount a file system of a size such as `1M`."""
    with ExitStack() as stack:

        def mounted(size: str) -> Path:
            folder = tmp_path / f"disk-{size}"
            folder.mkdir()
            mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
            if subprocess.run(mount, capture_output=True).returncode != 0:
                pytest.skip("mounting a file system needs root")
            stack.callback(subprocess.run, ["umount", folder], check=True)
            return folder

        yield mounted


def completeness(trace: Path) -> Completeness:
    return read_trace(trace).metadata.completeness


def test_a_job_that_fills_the_disk_of_its_trace_is_recovered(disk: Disk, tmp_path: Path) -> None:
    """The job's status is its own, and the line that is printed works."""
    full = disk("8M")
    trace, raw = full / "t.parquet", full / "t.parquet.raw"
    job = (sys.executable, "-c", FILLER, full / "ckpt")
    done = iotrace("capture", "-o", trace, "--", *job, cwd=tmp_path)
    assert done.returncode == 9
    assert done.stderr.count("\n") == 1
    again = tmp_path / "t.parquet"
    line = f"iotrace recover {raw} -o t.parquet"
    assert f"{FULL}; finish with `{line}`" in done.stderr
    assert_one_line_error(iotrace("check", trace, cwd=tmp_path), 2, f"`{line}`")
    assert iotrace(*line.split()[1:], cwd=tmp_path).returncode == 0
    assert summarize(read_trace(again)).bytes_written == int(done.stdout)
    assert completeness(again).problems() == []


def test_a_job_that_ends_with_a_full_log_was_not_killed(disk: Disk, tmp_path: Path) -> None:
    """The counters of its end have no room in the log; the list of processes has them too."""
    full, trace = disk("8M"), tmp_path / "t.parquet"
    more = FILLER.replace(
        "sys.exit", "[os.pwrite(fd, bytes(10), 0) for _ in range(3000)]; sys.exit"
    )
    job = (sys.executable, "-c", more, full / "ckpt")
    done = iotrace("capture", "-o", trace, "--raw-dir", full / "raw", "--", *job)
    assert done.returncode == 9, done.stderr
    found = completeness(trace)
    lost, unseen, stopped = found.problems()
    assert lost.startswith(f"{found.dropped_records:,} records dropped")
    assert unseen.startswith("process 0 wrote ")
    assert stopped == f"1 raw log stopped growing ({FULL})"


def test_a_job_that_fills_the_disk_of_its_raw_logs_is_in_the_trace(
    disk: Disk, tmp_path: Path
) -> None:
    """Its log was allocated before."""
    full, trace = disk("8M"), tmp_path / "t.parquet"
    job = (sys.executable, "-c", FILLER, full / "ckpt")
    done = iotrace("capture", "-o", trace, "--raw-dir", full / "raw", "--", *job)
    assert done.returncode == 9, done.stderr
    assert summarize(read_trace(trace)).bytes_written == int(done.stdout)
    assert completeness(trace).problems() == []
    assert os.listdir(full) == ["ckpt"]


def test_a_process_that_finds_no_room_for_a_log_is_told_though_it_was_killed(
    disk: Disk, tmp_path: Path
) -> None:
    """An empty account of it would look like a process that did nothing."""
    full, trace = disk("8M"), tmp_path / "t.parquet"
    job = (sys.executable, "-c", FILLER, full / "ckpt", KILLED)
    options = ("-o", trace, "--raw-dir", full / "raw")
    done = iotrace("capture", *options, "--", *job, cwd=tmp_path)
    assert done.returncode == 9, done.stderr
    assert (tmp_path / "out").stat().st_size == 1000
    (problem,) = completeness(trace).problems()
    assert problem.startswith(f"1 process could make no raw log ({FULL})")


def test_a_limit_of_the_job_for_its_files_is_none_for_its_log(tmp_path: Path) -> None:
    """A log of some 1 MiB, and the job is ended by no SIGXFSZ."""
    trace = tmp_path / "t.parquet"
    code = "import os; f = os.open('out', 66); [os.pwrite(f, b'123', 0) for _ in range(15000)]"
    job = ("bash", "-c", f'ulimit -f 10; exec "{sys.executable}" -c "{code}"')
    done = iotrace("capture", "-o", trace, "--", *job, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert summarize(read_trace(trace)).bytes_written == 45000
    assert completeness(trace).problems() == []


def test_a_limit_of_the_capture_itself_is_told(tmp_path: Path) -> None:
    """`ulimit -f` before it holds for all; the first to hit it are the logs."""
    trace, raw = tmp_path / "t.parquet", tmp_path / "raw"
    code = "import os; f = os.open('out', 66); [os.pwrite(f, b'123', 0) for _ in range(15000)]"
    capture = (sys.executable, "-m", "iotrace.tools", "capture", "-o", trace, "--raw-dir", raw)
    for limit, status in ((100, 2), (300, 0)):
        limited = ("bash", "-c", f'ulimit -f {limit}; exec "$@"', "bash", *capture)
        command = [*limited, "--", sys.executable, "-c", code]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == status, done.stderr
        if status:
            assert "raise `ulimit -f`" in done.stderr
    assert f"1 raw log stopped growing ({TOO_LARGE})" in completeness(trace).problems()


def test_a_job_whose_only_process_could_make_no_log_is_not_complete(
    disk: Disk, tmp_path: Path
) -> None:
    """A full disk, and then a signal: nothing is there but the list of processes."""
    trace, raw = tmp_path / "t.parquet", disk("8M") / "raw"
    fill = f"head -c 8M /dev/zero > '{raw.parent}/ballast' 2> /dev/null; true"
    job = ("bash", "-c", f'{fill}; exec "{sys.executable}" -c "{KILLED}"')
    options = ("-o", trace, "--raw-dir", raw, "--keep-raw", "--exclude", f"{raw.parent}/*")
    done = iotrace("capture", *options, "--", *job, cwd=tmp_path)
    assert done.returncode == 137
    told = f"1 process could make no raw log ({FULL})"
    assert f"no request was recorded; INCOMPLETE: {told}" in done.stderr
    done = iotrace("recover", raw, "-o", tmp_path / "again.parquet")
    assert_one_line_error(done, 2, told, "capture again")


@pytest.mark.parametrize("size", ["64k", "1M", "2M"])
def test_raw_logs_go_elsewhere_if_their_disk_has_no_room(
    disk: Disk, tmp_path: Path, size: str
) -> None:
    """The list of processes counts: cut short, it would not say who is missing."""
    full, trace = disk(size), tmp_path / "t.parquet"
    job = (sys.executable, "-c", FILLER.replace("9)", "3)"), "out")
    limited = ("bash", "-c", 'ulimit -f 300; trap "" XFSZ; exec "$@"', "bash", *job)
    options = ("-o", trace, "--raw-dir", full / "raw")
    done = iotrace("capture", *options, "--", *limited, cwd=tmp_path)
    assert done.returncode == 3, done.stderr
    assert f"{full / 'raw'} has no room for them ({FULL})" in done.stderr
    assert summarize(read_trace(trace)).bytes_written == int(done.stdout) == 300 << 10
    assert completeness(trace).problems() == []
    assert os.listdir(full) == []


def test_an_empty_trace_that_finds_no_room_leaves_nothing(disk: Disk, tmp_path: Path) -> None:
    """There is nothing to recover, and the line does not say so."""
    full, raw = disk("4k"), tmp_path / "raw"
    (full / "ballast").write_bytes(bytes(4096))
    options = ("-o", full / "t.parquet", "--raw-dir", raw)
    done = iotrace("capture", *options, "--", "true")
    assert_one_line_error(done, 1, FULL, "no request was recorded", "capture again")
    assert os.listdir(full) == ["ballast"]
    assert not raw.exists()


def test_a_list_of_processes_that_is_cut_short_is_told(tmp_path: Path) -> None:
    """It may have held a process that could make no log."""
    raw, again = tmp_path / "raw", tmp_path / "again.parquet"
    job = (sys.executable, "-c", "open('out', 'wb').write(bytes(1000))")
    options = ("-o", tmp_path / "t.parquet", "--raw-dir", raw, "--keep-raw")
    assert iotrace("capture", *options, "--", *job, cwd=tmp_path).returncode == 0
    os.truncate(roster_path(raw), 1_018_880)
    assert iotrace("recover", raw, "-o", again).returncode == 0
    (problem,) = completeness(again).problems()
    assert "the list of processes is cut short" in problem
