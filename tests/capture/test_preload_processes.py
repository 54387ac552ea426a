"""fork, vfork, exec and the ways a process ends."""

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from iotrace.capture.collector import collect
from iotrace.capture.rawlog import read_raw_log

from .preload_job import LIBRARY, PYTHON, Captured, capture, capture_environment, compile_program

TURNS = 5


def python(code: str, tmp_path: Path) -> Captured:
    """Run Python code in an empty folder under the library."""
    (tmp_path / "files").mkdir()
    prelude = f"import os, subprocess, sys\nos.chdir({str(tmp_path / 'files')!r})\n"
    result = capture([*PYTHON, prelude + code], tmp_path / "logs")
    assert result.done.returncode == 0, result.done.stderr.decode()
    return result


@pytest.mark.parametrize("how", ["fork", "raw"])
def test_parent_and_child_each_keep_a_log_of_their_own(tmp_path: Path, how: str) -> None:
    """A child's records in its parent's log, or twice, would make up requests."""
    program = compile_program(tmp_path, "forks.c", "-O2")
    captured = capture([program, tmp_path, how], tmp_path / "logs")
    assert captured.done.returncode == 0, captured.done.stderr
    assert len(captured.logs) == 2
    (parent,) = {request.pid for request in captured.of("of_parent")}
    (child,) = {request.pid for request in captured.of("of_child")}
    assert parent != child
    assert [w.offset for w in captured.of("of_child", "write")] == [i * 30 for i in range(TURNS)]
    shared = captured.of("shared", "write")
    assert [w.pid for w in shared] == [parent] + [parent, child] * TURNS
    if how == "fork":
        starts = [100 + turn * 37 for turn in range(TURNS)]
        turns = [(start + first, n) for start in starts for first, n in ((0, 7), (7, 30))]
        assert [(w.offset, w.result) for w in shared] == [(0, 100), *turns]
        assert {w.offset_source for w in shared[1:]} == {"queried"}


def test_a_spawned_command_does_not_disturb_its_parent(tmp_path: Path) -> None:
    """The child of a vfork runs in its parent's memory and closes descriptors there."""
    captured = python(
        "fd = os.open('data', os.O_WRONLY | os.O_CREAT)\n"
        "for _ in range(5):\n"
        "    os.write(fd, b'x' * 100)\n"
        "    subprocess.run(['true'], check=True)\n"
        "    os.write(fd, b'y' * 50)\n"
        "os.close(fd)\n",
        tmp_path,
    )
    writes = captured.of("data", "write")
    assert [w.offset for w in writes] == [o for i in range(5) for o in (i * 150, i * 150 + 100)]
    assert {w.offset_source for w in writes} == {"tracked"}
    assert len({w.file for w in writes}) == 1
    assert len(captured.of("data", "close")) == 1


def test_output_of_a_child_into_a_shared_file_is_followed(tmp_path: Path) -> None:
    """A descriptor given to a child as stdout shares its position."""
    captured = python(
        "with open('data', 'wb', buffering=0) as file:\n"
        "    file.write(b'a' * 10)\n"
        "    subprocess.run(['echo', 'twelve bytes'], stdout=file, check=True)\n"
        "    file.write(b'b' * 10)\n",
        tmp_path,
    )
    writes = captured.of("data", "write")
    assert [(w.offset, w.result) for w in writes if w.api == "posix"][:1] == [(0, 10)]
    assert (23, 10) in [(w.offset, w.result) for w in writes]


def test_a_child_that_leaves_by_os_exit_is_complete(tmp_path: Path) -> None:
    """multiprocessing ends its workers so; tracers that flush at exit lose them."""
    captured = python(
        "if os.fork() == 0:\n"
        "    with open('data', 'wb') as file:\n"
        "        file.write(b'x' * 100000)\n"
        "    os._exit(0)\n"
        "os.wait()\n",
        tmp_path,
    )
    assert sum(w.result for w in captured.of("data", "write")) == 100000
    (log,) = [log for log in captured.logs if log.rows("write").size]
    counters = {log.text(row): int(log.records[row]["result"]) for row in log.rows("counter")}
    assert counters[b"wchar"] == 100000


def test_bytes_read_are_counted_for_each_process(tmp_path: Path) -> None:
    """What the library reads itself, as the process ends too, is no part of it."""
    captured = python(
        "with open('data', 'wb') as file:\n"
        "    file.write(b'x' * 1000)\n"
        "for name in ('written', 'read'):\n"
        "    if os.fork() == 0:\n"
        "        fd = os.open(name, os.O_WRONLY | os.O_CREAT)\n"
        "        os.write(fd, b'y' * 500)\n"
        "        if name == 'read':\n"
        "            os.read(os.open('data', os.O_RDONLY), 1000)\n"
        "        os._exit(0)\n"
        "    os.wait()\n",
        tmp_path,
    )
    trace = collect(tmp_path / "logs", ["python"])
    names = {log.header.pid: "main" for log in captured.logs}
    names |= {request.pid: request.name for request in captured.requests("open")[::-1]}
    read = {
        names[process.pid]: (seen.recorded_bytes_read, seen.kernel_bytes_read)
        for process, seen in zip(
            trace.metadata.processes, trace.metadata.completeness.processes, strict=True
        )
    }
    assert read["written"] == (0, 0)
    assert read["read"] == (1000, 1000)


def test_a_log_is_readable_after_a_kill_in_the_middle_of_writing(tmp_path: Path) -> None:
    """Jobs run into their time limit; what they did until then is the most wanted trace."""
    code = (
        "import os, sys\n"
        f"fd = os.open({str(tmp_path / 'data')!r}, os.O_WRONLY | os.O_CREAT)\n"
        "offset = 0\n"
        "while True:\n"
        "    os.pwrite(fd, b'x' * 1000, offset)\n"
        "    offset += 1000\n"
        "    if offset == 3000000: print('go', flush=True)\n"
    )
    logs = tmp_path / "logs"
    logs.mkdir()
    job = subprocess.Popen(
        [*PYTHON, code],
        env={**os.environ, **capture_environment(logs)},
        stdout=subprocess.PIPE,
    )
    assert job.stdout is not None and job.stdout.readline() == b"go\n"
    time.sleep(0.01)
    job.send_signal(signal.SIGKILL)
    assert job.wait() == -signal.SIGKILL
    job.stdout.close()
    (path,) = logs.glob("*.raw")
    log = read_raw_log(path)
    written = int(log.records["result"][log.rows("write")].sum())
    assert 0 <= (tmp_path / "data").stat().st_size - written <= 1000  # the one it died in
    assert log.torn_records <= 1


def run_with_environment(tmp_path: Path, environment: str) -> list[str]:
    """Start a program with an environment of its own; return the files it was seen to write."""
    captured = python(
        f"environment = {environment}\n"
        "command = ['/bin/sh', '-c', 'echo x > $NAME']\n"
        "subprocess.run(command, env={'NAME': 'by_vfork', **environment}, check=True)\n"
        "if os.fork() == 0:\n"
        "    os.execve('/bin/sh', command, {'NAME': 'by_exec', **environment})\n"
        "os.wait()\n"
        "os.posix_spawn('/bin/sh', command, {'NAME': 'by_spawn', **environment})\n"
        "os.wait()\n",
        tmp_path,
    )
    return sorted({w.name for w in captured.requests("write") if w.name.startswith("by_")})


def test_a_program_with_an_environment_of_its_own_is_captured(tmp_path: Path) -> None:
    """Launchers clean the environment; the ranks behind them are the job."""
    assert run_with_environment(tmp_path, "{}") == ["by_exec", "by_spawn", "by_vfork"]


def test_another_preloaded_library_keeps_its_place(tmp_path: Path) -> None:
    """A sanitizer or allocator that the job preloads must still be first."""
    maps = Path("/proc/self/maps").read_text()
    (other,) = set(re.findall(r"/\S*/libc\.so\.6", maps))
    captured = python(
        f"subprocess.run(['/usr/bin/env'], env={{'LD_PRELOAD': {other!r}}}, check=True)\n",
        tmp_path,
    )
    lines = captured.done.stdout.decode().splitlines()
    (preload,) = [line for line in lines if line.startswith("LD_PRELOAD=")]
    assert preload == f"LD_PRELOAD={other}:{LIBRARY}"


def test_an_empty_log_folder_keeps_a_program_out(tmp_path: Path) -> None:
    """A job must be able to say that a program of its own is not to be looked at."""
    assert run_with_environment(tmp_path, "{'IOTRACE_LOG_DIR': ''}") == []


def test_a_process_that_only_reads_the_system_leaves_no_log(tmp_path: Path) -> None:
    """Shells start dozens of small programs; each with a log would bury the job's."""
    captured = capture(["/bin/sh", "-c", "cat /etc/passwd; ls /; true"], tmp_path / "logs")
    assert captured.done.returncode == 0
    assert captured.logs == ()
