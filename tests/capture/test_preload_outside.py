"""What lies beside a job's files: helpers, pipes, files without a name, its own output."""

import subprocess
import sys
from pathlib import Path

import pytest

from iotrace.capture.collector import collect
from iotrace.capture.roster import start_roster
from iotrace.traces.reader import read_trace
from iotrace.traces.trace import Trace

from .preload_job import capture, compile_program


def captured_trace(folder: Path, *command: str | Path) -> Trace:
    """Run a command in a folder and return its trace; the raw logs lie beside the folder."""
    logs = folder.parent / f"{folder.name}.logs"
    logs.mkdir()
    start_roster(logs)
    done = capture(["env", "-C", folder, *command], logs).done
    assert done.returncode == 0, done.stderr
    return collect(logs, [])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return an empty folder to work in."""
    path = tmp_path / "work"
    path.mkdir()
    return path


SCRIPTS = {
    "builtins": "echo x > f; printf 'some words\\n' >> f; while read l; do echo $l; done < f > g",
    "pipes": "seq 1 20000 | cat | (cat | wc -l) > n; seq 20000 > s; cat s | cat > t",
    "killed": "yes | head -c 300000 | md5sum > m",
    "messages": "cat missing; ls -l / > l; true",
    "programs": "sh -c 'seq 2000 | sort -r' > r; env sh -c 'exec wc -c r' > c",
}


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_shell_and_its_helpers_are_complete(folder: Path, script: str) -> None:
    """What helpers move through pipes is in their parent's account, and they leave no log."""
    trace = captured_trace(folder, "bash", "-c", SCRIPTS[script])
    completeness = trace.metadata.completeness
    assert completeness.problems() == []
    sizes = {Path(f.path).name: f.recorded_bytes_written for f in completeness.files}
    for path in folder.iterdir():
        assert sizes[path.name] == path.stat().st_size


def test_files_without_a_name_are_complete(folder: Path) -> None:
    """O_TMPFILE and linkat are how careful programs write; a folder that is gone still leads up."""
    program = compile_program(folder.parent, "nameless.c")
    trace = captured_trace(folder, program, folder)
    completeness = trace.metadata.completeness
    assert completeness.problems() == []
    names = {Path(f.path).name: f.recorded_bytes_written for f in completeness.files}
    named = {path.name: path.stat().st_size for path in folder.iterdir()}
    assert named == {"linked": 5000, "odd (deleted)": 70, "renamed": 800}
    assert named.items() <= names.items()
    paths = [path for path in trace.strings("path") if path]
    assert all(path.startswith("/") and "/../" not in path for path in paths)
    assert f"{folder}/above" in paths


def run_capture(folder: Path, script: str, output: Path, *options: str) -> Trace:
    trace = folder / "trace.parquet"
    command = [sys.executable, "-m", "iotrace.tools", "capture", "-o", trace, *options, "--"]
    with output.open("wb") as file:
        subprocess.run([*command, "sh", "-c", script], check=True, stdout=file, cwd=folder)
    return read_trace(trace)


def test_the_output_of_the_job_is_no_file_of_the_trace(folder: Path) -> None:
    """A log that the user redirected is no checkpoint, unless it is asked for."""
    output = folder / "job.log"
    script = "echo epoch 1; seq 100; echo data > written"
    trace = run_capture(folder, script, output)
    assert {Path(p).name for p in trace.strings("path") if p} == {"written"}
    completeness = trace.metadata.completeness
    assert completeness.problems() == []
    # `seq` writes 292 bytes and has no log of its own.
    assert sum(p.ignored_bytes_written for p in completeness.processes) == 8
    asked = run_capture(folder, script, output, "--force", "--include", "*.log")
    assert {Path(p).name for p in asked.strings("path") if p} == {"job.log"}


def test_a_terminal_that_is_not_there_is_no_file(folder: Path) -> None:
    """Shells try it at every start; a replay has no use for it."""
    trace = captured_trace(folder, "bash", "-c", "(: > /dev/tty) 2>/dev/null; echo x > f")
    assert {Path(p).name for p in trace.strings("path") if p} == {"f"}
