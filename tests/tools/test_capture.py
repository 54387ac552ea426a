"""`iotrace capture` and `recover` at the command line: what is refused, what is left behind."""

import errno
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from iotrace.traces.reader import read_trace

from .command import IOTRACE, assert_one_line_error, iotrace

WRITER = "import sys; open(sys.argv[1], 'wb').write(bytes(100000))"


def writer(path: Path) -> list[object]:
    """A job that writes 100,000 bytes to `path`."""
    return [sys.executable, "-c", WRITER, path]


def test_a_capture_ends_with_what_was_seen_and_what_to_type_next(tmp_path: Path) -> None:
    """The user need not read a manual to go on."""
    trace = tmp_path / "trace.parquet"
    done = iotrace("capture", "-o", trace, "--", *writer(tmp_path / "out.bin"))
    assert done.returncode == 0
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert len(lines) == 2
    assert "97.7 KiB written" in lines[0]
    assert "complete" in lines[0]
    assert f"iotrace show {trace}" in lines[1]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out.bin", "trace.parquet"]


def test_a_file_that_the_job_removed_again_is_none_of_its_files(tmp_path: Path) -> None:
    """One that was there only to be tried out; a name that was used again is there."""
    job = (
        "import os\n"
        "def write(name): open(name, 'wb').write(b'12')\n"
        "write('kept'); write('tried'); os.unlink('tried')\n"
        "write('again'); os.unlink('again'); write('again')\n"
        "write('other'); write('moved'); os.unlink('moved'); os.rename('other', 'moved')"
    )
    for script, seen in (
        (job, "on 3 files;"),
        (
            job.splitlines()[0]
            + """
open('x', 'w').write('1'); os.unlink('x')""",
            "on 1 file that it removed;",
        ),
    ):
        command = ("capture", "--force", "-o", "trace.parquet", "--", sys.executable, "-c", script)
        assert seen in iotrace(*command, cwd=tmp_path).stderr


def test_an_include_that_matches_nothing_is_named(tmp_path: Path) -> None:
    """By the capture as it was typed; the raw logs do not keep it, so recover can but ask."""
    trace, raw = tmp_path / "trace.parquet", tmp_path / "raw"
    options = ("-o", trace, "--raw-dir", raw, "--keep-raw", "--include", "/nowhere/*")
    done = iotrace("capture", *options, "--", *writer(tmp_path / "out.bin"))
    assert done.returncode == 0
    assert "no file in scope was touched; --include '/nowhere/*' narrowed it" in done.stderr
    done = iotrace("recover", raw, "-o", tmp_path / "again.parquet")
    told = "no file in scope; an --include given to the capture may have narrowed it"
    assert_one_line_error(done, 2, raw.name, told)
    done = iotrace("capture", "-o", tmp_path / "t.parquet", "--", "true")
    assert "no file in scope was touched; --all or --include widens the scope" in done.stderr


def test_the_jobs_own_options_need_no_dashes_before_it(tmp_path: Path) -> None:
    """`iotrace capture python -c ...` must not take -c for its own."""
    trace = tmp_path / "trace.parquet"
    done = iotrace("capture", "-q", "-o", trace, *writer(tmp_path / "out.bin"))
    assert (done.returncode, done.stderr) == (0, "")
    assert read_trace(trace).metadata.command[1:2] == ("-c",)


@pytest.mark.parametrize("status", [1, 2, 77])
def test_the_jobs_failure_is_the_captures(tmp_path: Path, status: int) -> None:
    """Scripts that check the status go on working; the trace is written all the same."""
    trace = tmp_path / "trace.parquet"
    job = f"{WRITER}; sys.exit({status})"
    done = iotrace(*("capture", "-o", trace, "--", sys.executable, "-c", job), tmp_path / "out.bin")
    assert done.returncode == status
    assert len(read_trace(trace)) > 0


def assert_job_not_started(tmp_path: Path, *options: object, status: int, words: str) -> None:
    """The capture is refused in one line and the job's file is not there."""
    before = sorted(tmp_path.rglob("*"))
    done = iotrace("capture", *options, "--", *writer(tmp_path / "out.bin"), cwd=tmp_path)
    assert_one_line_error(done, status, words)
    assert sorted(tmp_path.rglob("*")) == before


def test_an_output_that_exists_is_refused_before_the_job(tmp_path: Path) -> None:
    """Hours of training must not end in a refusal, nor an earlier trace be lost."""
    trace = tmp_path / "trace.parquet"
    trace.write_text("precious")
    assert_job_not_started(tmp_path, status=2, words="--force")
    assert trace.read_text() == "precious"
    done = iotrace("capture", "--force", "-o", trace, "--", *writer(tmp_path / "out.bin"))
    assert done.returncode == 0
    assert len(read_trace(trace)) > 0


def test_an_output_in_a_missing_folder_is_refused_before_the_job(tmp_path: Path) -> None:
    """The folder is named, not only the file."""
    output = tmp_path / "missing" / "trace.parquet"
    assert_job_not_started(tmp_path, "-o", output, status=2, words=str(output.parent))


def test_an_output_where_nothing_can_be_written_is_refused_before_the_job(tmp_path: Path) -> None:
    """/proc refuses even root, as a read-only mount does."""
    assert_job_not_started(tmp_path, "-o", "/proc/trace.parquet", status=2, words="/proc")


def test_an_output_that_is_a_folder_is_refused_before_the_job(tmp_path: Path) -> None:
    """A trace is one file."""
    assert_job_not_started(tmp_path, "-o", tmp_path, status=2, words="folder")


def test_a_command_that_does_not_exist_ends_with_127(tmp_path: Path) -> None:
    """As the shell does; nothing is left behind."""
    done = iotrace("capture", "--", "no-such-program", cwd=tmp_path)
    assert_one_line_error(done, 127, "no-such-program")
    assert list(tmp_path.iterdir()) == []


def test_a_command_that_is_not_executable_ends_with_126(tmp_path: Path) -> None:
    """As the shell does."""
    script = tmp_path / "job.sh"
    script.write_text("#!/bin/sh\n")
    done = iotrace("capture", "--", script, cwd=tmp_path)
    assert_one_line_error(done, 126, "job.sh")
    assert list(tmp_path.iterdir()) == [script]


def test_a_capture_without_a_command_is_explained(tmp_path: Path) -> None:
    """The usage, in one line."""
    assert_one_line_error(iotrace("capture", "-o", tmp_path / "t.parquet"), 2, "COMMAND")


def test_an_interrupt_reaches_the_job_and_the_trace_is_kept(tmp_path: Path) -> None:
    """Ctrl-C in the middle of a run is how many captures end."""
    trace, ready = tmp_path / "trace.parquet", tmp_path / "out.bin"
    job = f"{WRITER}; import time; time.sleep(60)"
    capture = subprocess.Popen(
        [str(IOTRACE), "capture", "-o", trace, "--", sys.executable, "-c", job, ready],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 30
    while not (ready.exists() and ready.stat().st_size) and time.monotonic() < deadline:
        time.sleep(0.01)
    os.killpg(capture.pid, signal.SIGINT)
    _, said = capture.communicate(timeout=60)
    assert capture.returncode == 130
    assert "97.7 KiB written" in said
    assert len(read_trace(trace)) > 0


def test_raw_logs_are_kept_on_request(tmp_path: Path) -> None:
    """For recover, and for whoever wants to see the facts behind a trace."""
    raw, trace = tmp_path / "raw", tmp_path / "trace.parquet"
    job = writer(tmp_path / "out.bin")
    done = iotrace("capture", "-o", trace, "--raw-dir", raw, "--keep-raw", "--", *job)
    assert done.returncode == 0, done.stderr
    assert list(raw.glob("*.raw"))
    again = tmp_path / "again.parquet"
    recovered = iotrace("recover", raw, "-o", again)
    assert recovered.returncode == 0, recovered.stderr
    assert "97.7 KiB written" in recovered.stderr
    assert len(read_trace(again)) == len(read_trace(trace))


def test_raw_logs_that_cannot_be_read_make_no_trace(tmp_path: Path) -> None:
    """An empty trace would say that the job did nothing."""
    raw, again = tmp_path / "raw", tmp_path / "again.parquet"
    job = writer(tmp_path / "out.bin")
    done = iotrace("capture", "-o", tmp_path / "t", "--raw-dir", raw, "--keep-raw", "--", *job)
    assert done.returncode == 0, done.stderr
    for log in raw.glob("*.raw"):
        log.chmod(0)
    # Without capabilities root is held to the mode as well.
    recover = [str(IOTRACE), "recover", str(raw), "-o", str(again)]
    if os.getuid() == 0:
        recover = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", *recover]
    refused = subprocess.run(recover, capture_output=True, text=True)
    assert_one_line_error(refused, 2, "cannot read", str(raw), os.strerror(errno.EACCES))
    assert not again.exists()
    for log in raw.glob("*.raw"):
        log.write_bytes(b"")
        log.chmod(0o600)
    assert_one_line_error(iotrace("recover", raw, "-o", again), 2, "is empty")
    assert not again.exists()


def test_a_trace_that_does_not_fit_the_disk_leaves_the_raw_logs(tmp_path: Path) -> None:
    """The job's hours are not lost: the message says how to make the trace elsewhere."""
    full = tmp_path / "full"
    full.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4k,nr_inodes=100", "tmpfs", str(full)]
    if subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("mounting a file system needs root")
    try:
        (full / "ballast").write_bytes(bytes(4096))
        raw = tmp_path / "raw"
        done = iotrace(
            *("capture", "-o", full / "trace.parquet", "--raw-dir", raw, "--"),
            *writer(tmp_path / "out.bin"),
        )
        assert_one_line_error(done, 1, os.strerror(errno.ENOSPC), f"iotrace recover {raw}")
        assert [p.name for p in full.iterdir()] == ["ballast"]
    finally:
        subprocess.run(["umount", str(full)], check=True)
    assert iotrace("recover", raw, "-o", tmp_path / "t.parquet").returncode == 0


def test_a_trace_whose_capture_was_killed_is_shown_the_way(tmp_path: Path) -> None:
    """Who asks for it is told how to make it, with a line that works."""
    trace = tmp_path / "a trace.parquet"
    raw = tmp_path / "a trace.parquet.raw"
    raw.mkdir()
    assert_one_line_error(iotrace("show", trace), 2, "does not exist", "iotrace capture")
    raw.rmdir()
    job = writer(tmp_path / "out.bin")
    options = ("-o", tmp_path / "t.parquet", "--raw-dir", raw, "--keep-raw")
    assert iotrace("capture", *options, "--", *job).returncode == 0
    done = iotrace("show", trace)
    line = f"iotrace recover '{raw}' -o '{trace}'"
    assert_one_line_error(done, 2, f"{trace} is not there", f"`{line}`")
    assert iotrace(*shlex.split(line)[1:]).returncode == 0
    assert "97.7 KiB" in iotrace("show", trace).stdout


def test_recover_of_a_folder_without_raw_logs_is_refused(tmp_path: Path) -> None:
    """A wrong folder is the commonest mistake."""
    folder = tmp_path / "empty"
    folder.mkdir()
    for raw in (folder, tmp_path / "none"):
        done = iotrace("recover", raw, "-o", tmp_path / "t.parquet")
        assert_one_line_error(done, 2, raw.name)
    assert list(tmp_path.iterdir()) == [folder]


def test_recover_does_not_overwrite_without_force(tmp_path: Path) -> None:
    """As every output of the tool."""
    trace = tmp_path / "t.parquet"
    trace.write_text("precious")
    assert_one_line_error(iotrace("recover", tmp_path, "-o", trace), 2, "--force")
    assert trace.read_text() == "precious"


def test_small_files_are_left_out_whole(tmp_path: Path) -> None:
    """Settings and locks beside a checkpoint; what is left can be replayed."""
    job = (
        "import os; open('big', 'wb').write(bytes(100000)); open('small', 'w').write('x' * 10);"
        "open('grown', 'wb').write(bytes(9000)); os.truncate('grown', 5);"
        "open('big', 'rb').read(); open('small').read()"
    )
    options = ("capture", "-q", "-o", "t.parquet", "--min-size", "4KiB", "--")
    done = iotrace(*options, sys.executable, "-c", job, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    trace = read_trace(tmp_path / "t.parquet")
    assert {Path(path or "").name for path in trace.strings("path")} - {""} == {"big", "grown"}
    found = trace.metadata.completeness
    assert found.complete, found.problems()
    assert {Path(f.path).name for f in found.files} == {"big", "grown"}
    assert found.processes[0].recorded_bytes_written == 109_000
    assert found.processes[0].ignored_bytes_written >= 10
    assert iotrace("replay", "t.parquet", "--verify", cwd=tmp_path).returncode == 0


def test_a_job_without_files_has_no_small_ones(tmp_path: Path) -> None:
    """An empty trace is a trace."""
    done = iotrace("capture", "-o", "t.parquet", "--min-size", "1", "--", "true", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(read_trace(tmp_path / "t.parquet")) == 0


def test_a_full_raw_log_is_admitted(tmp_path: Path) -> None:
    """A limit protects the disk of a node; what did not fit is counted, the job goes on."""
    job = "import os; f = open('f', 'wb', buffering=0); [f.write(b'x') for _ in range(9000)]"
    options = ("capture", "-o", "t.parquet", "--log-limit", "128KiB", "--")
    done = iotrace(*options, sys.executable, "-c", job, cwd=tmp_path)
    assert done.returncode == 0
    assert "records dropped" in done.stderr
    assert (tmp_path / "f").stat().st_size == 9000
