"""`iotrace capture` of jobs that get in its way: no figure is made up, nothing is lost."""

import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest

from iotrace.traces.reader import read_trace

from .command import IOTRACE, assert_one_line_error, iotrace

COPY = "head -c 300000 /dev/urandom > a; cp a b; cmp a b"


def test_a_copy_by_the_kernel_can_be_replayed(tmp_path: Path) -> None:
    """cp asks copy_file_range for 2^63 bytes; what it moved is what counts."""
    done = iotrace("capture", "-o", "t.parquet", "--", "bash", "-c", COPY, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    replayed = iotrace("replay", "t.parquet", "--verify", cwd=tmp_path)
    assert replayed.returncode == 0, replayed.stderr
    assert "every byte is in its place" in replayed.stdout


def test_an_output_that_appears_meanwhile_costs_neither_it_nor_the_trace(tmp_path: Path) -> None:
    """The line names the folder of the raw logs, and what it says to type works."""
    job = "head -c 5000 /dev/zero > data; echo mine > t.parquet"
    done = iotrace("capture", "-o", "t.parquet", "--", "bash", "-c", job, cwd=tmp_path)
    assert_one_line_error(done, 1, "exists", "iotrace recover ")
    assert (tmp_path / "t.parquet").read_text() == "mine\n"
    hint = done.stderr.split("`")[1]
    assert iotrace(*shlex.split(hint)[1:], cwd=tmp_path).returncode == 0
    assert len(read_trace(tmp_path / "t-2.parquet")) > 0


def test_two_captures_do_not_share_a_folder_of_raw_logs(tmp_path: Path) -> None:
    """The second would take the first one's logs into its trace, and then remove them."""
    until = "until [ -e off ]; do sleep 0.05; done"
    first = subprocess.Popen(
        [IOTRACE, "capture", "-q", "--", "bash", "-c", f"touch on; {until}; echo x > f; exit 5"],
        cwd=tmp_path,
    )
    while not (tmp_path / "on").exists():
        assert first.poll() is None
        time.sleep(0.01)
    second = iotrace("capture", "--", "touch", "never", cwd=tmp_path)
    assert_one_line_error(second, 2, "another capture", "--raw-dir")
    assert not (tmp_path / "never").exists()
    (tmp_path / "off").touch()
    assert first.wait() == 5
    assert len(read_trace(tmp_path / "trace.parquet")) > 0
    assert not (tmp_path / "trace.parquet.raw").exists()


def test_a_job_that_removes_the_raw_logs_gives_no_complete_trace(tmp_path: Path) -> None:
    """Nothing seen is not the same as nothing done."""
    (tmp_path / "out").mkdir()
    job = "head -c 1000 /dev/zero > f; rm -rf out/t.parquet.raw || true"
    done = iotrace("capture", "-o", "out/t.parquet", "--", "bash", "-c", job, cwd=tmp_path)
    assert done.returncode == 0
    completeness = read_trace(tmp_path / "out/t.parquet").metadata.completeness
    assert any("removed the raw logs" in problem for problem in completeness.problems())
    assert "INCOMPLETE" in iotrace("show", tmp_path / "out/t.parquet").stdout


def test_a_static_program_gives_no_complete_trace(tmp_path: Path) -> None:
    """No library can be loaded into it: the trace itself must say so, not only the screen."""
    (tmp_path / "main.c").write_text(
        '#include <fcntl.h>\n#include <unistd.h>\nint main(void)\n{\n\tint fd = open("f", '
        'O_CREAT | O_WRONLY, 0600);\n\n\treturn write(fd, "x", 1) != 1;\n}\n'
    )
    subprocess.run(["cc", "-static", "-o", "static", "main.c"], cwd=tmp_path, check=True)
    done = iotrace("capture", "-o", "t.parquet", "--", "./static", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    problems = read_trace(tmp_path / "t.parquet").metadata.completeness.problems()
    assert any("linked statically" in problem for problem in problems)


@pytest.mark.parametrize("limit", [0, 10])
def test_raw_logs_that_find_no_room_are_refused_before_the_job(tmp_path: Path, limit: int) -> None:
    """A log that cannot begin would give an empty trace that calls itself complete."""
    job = [str(IOTRACE), "capture", "-o", "t.parquet", "--", "touch", "never"]
    script = f"ulimit -f {limit}; exec {shlex.join(job)}"
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert_one_line_error(done, 2, "--raw-dir")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("limit", [8, 11, 14, 15, 18, 24])
def test_few_descriptors_are_enough_or_told(tmp_path: Path, limit: int) -> None:
    """Page faults are watched with what the rest leaves: two descriptors for each processor."""
    job = [str(IOTRACE), "capture", "-o", "t.parquet", "--", "bash", "-c", "echo x > f"]
    script = f"ulimit -n {limit}; exec {shlex.join(job)}"
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    if limit < 14:
        assert_one_line_error(done, 2, "Too many open files; raise `ulimit -n`")
        assert list(tmp_path.iterdir()) == []
        return
    assert done.returncode == 0, done.stderr
    assert "2 B written" in done.stderr and "; complete" in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["f", "t.parquet"]


def test_raw_logs_without_their_trace_are_told_where_nothing_can_be_written(
    tmp_path: Path,
) -> None:
    """Every disk may be full, that of temporary files too: that is when a trace is missing."""
    raw = tmp_path / "t.parquet.raw"
    raw.mkdir()
    (raw / "1-2-0123abcd.raw").write_bytes(b"x")
    script = f"ulimit -f 0; exec {shlex.join([str(IOTRACE), 'show', 't.parquet'])}"
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert_one_line_error(done, 2, "`iotrace recover t.parquet.raw -o t.parquet`")


def test_tensors_pickled_to_memory_are_no_contradiction(tmp_path: Path) -> None:
    """torch.save to a BytesIO places tensors in no file; the trace is right to say so."""
    job = (
        "import io, torch; b = io.BytesIO(); torch.save({'a': torch.ones(3)}, b);"
        "open('f', 'wb').write(b.getvalue())"
    )
    done = iotrace("capture", "-o", "t.parquet", "--", sys.executable, "-c", job, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    shown = iotrace("show", "t.parquet", cwd=tmp_path)
    assert "CONTRADICTORY" not in shown.stdout + shown.stderr
    assert read_trace(tmp_path / "t.parquet").row_mask(layer="tensor").sum() == 1
