"""What the library may not do to a job: change anything, whatever happens to the log."""

import os
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.small_disk import mounted_tmpfs

from .preload_job import LIBRARY, PYTHON, Captured, capture, capture_environment, compile_program

WRITES = 5000


def writer(data: Path, prelude: str = "") -> list[str | Path]:
    """Return a job that does WRITES writes of 10 bytes and says how it went."""
    code = (
        f"import os\n{prelude}\n"
        f"fd = os.open({os.fspath(data)!r}, os.O_WRONLY | os.O_CREAT)\n"
        f"print(sum(os.write(fd, b'0123456789') for _ in range({WRITES})))\n"
    )
    return [*PYTHON, code]


def assert_job_is_well(captured: Captured, data: Path) -> None:
    assert captured.done.returncode == 0, captured.done.stderr
    assert captured.done.stdout == b"%d\n" % (WRITES * 10)
    assert captured.done.stderr == b""
    assert data.stat().st_size == WRITES * 10


def assert_nothing_is_unaccounted(captured: Captured) -> None:
    """Recorded and dropped together are what the job did."""
    outside = captured.log.header.outside
    recorded = sum(request.result for request in captured.of("data", "write"))
    assert outside.dropped_records > 0
    assert recorded > 0
    others = recorded // 10 + outside.dropped_records - WRITES  # of the interpreter's end
    assert 0 <= others < 20


def test_results_errno_and_output_are_the_same(tmp_path: Path) -> None:
    """A job that behaves differently when watched cannot be studied."""
    program = compile_program(tmp_path, "errnos.c", "-O1")
    for name in ("bare", "captured"):
        (tmp_path / name).mkdir()
    bare = subprocess.run([program, tmp_path / "bare"], capture_output=True)
    captured = capture([program, tmp_path / "captured"], tmp_path / "logs")
    assert captured.done.stdout.decode().splitlines() == bare.stdout.decode().splitlines()
    assert (captured.done.returncode, captured.done.stderr) == (42, b"to stderr\n")
    assert captured.requests()


def test_a_signal_handler_may_write_at_any_instant(tmp_path: Path) -> None:
    """A lock, or a record half made, would hang the job or lose a request here."""
    program = compile_program(tmp_path, "signals.c", "-O2")
    captured = capture([program, tmp_path], tmp_path / "logs")
    assert captured.done.returncode == 0
    handled = int(captured.done.stdout)
    assert handled > 10
    assert len(captured.of("handler", "write")) == handled
    assert len(captured.of("main", "write")) == 50_000
    assert captured.log.torn_records == 0


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with mounted_tmpfs(tmp_path / "small", "256k") as folder:
        yield folder


def test_a_full_disk_costs_records_and_nothing_else(tmp_path: Path, small_disk: Path) -> None:
    """A store into a mapping of a full disk raises SIGBUS, unless room was taken before."""
    data = tmp_path / "data"
    captured = capture(writer(data), small_disk)
    assert_job_is_well(captured, data)
    assert_nothing_is_unaccounted(captured)


def test_a_file_size_limit_costs_records_and_nothing_else(tmp_path: Path) -> None:
    """Growing a file beyond RLIMIT_FSIZE raises SIGXFSZ, which ends the job."""
    data = tmp_path / "data"
    limit = 200_000
    prelude = f"import resource; resource.setrlimit({resource.RLIMIT_FSIZE}, ({limit}, {limit}))"
    captured = capture(writer(data, prelude), tmp_path / "logs")
    assert_job_is_well(captured, data)
    assert_nothing_is_unaccounted(captured)


def test_the_log_keeps_to_its_own_limit(tmp_path: Path) -> None:
    """A job that runs for weeks must not fill the disk with its log."""
    data = tmp_path / "data"
    limit = {"IOTRACE_LOG_LIMIT_BYTES": str(3 * 65536)}
    captured = capture(writer(data), tmp_path / "logs", limit)
    assert_job_is_well(captured, data)
    assert_nothing_is_unaccounted(captured)
    assert captured.log.path.stat().st_size <= 4 * 65536


def test_a_missing_log_folder_is_no_trouble_for_the_job(tmp_path: Path) -> None:
    """A clean-up may remove it under a running job."""
    data = tmp_path / "data"
    captured = capture(writer(data), tmp_path / "logs", {"IOTRACE_LOG_DIR": "/no/such/folder"})
    assert_job_is_well(captured, data)
    assert captured.logs == ()


def test_without_a_log_folder_the_library_does_nothing(tmp_path: Path) -> None:
    """Preloaded by accident, it must be as if it were not there."""
    data = tmp_path / "data"
    environment = {**os.environ, "LD_PRELOAD": str(LIBRARY)}
    done = subprocess.run(writer(data), env=environment, capture_output=True)
    assert_job_is_well(Captured(done, ()), data)


def test_a_job_that_closes_all_descriptors_is_still_recorded(tmp_path: Path) -> None:
    """Daemons do; a log kept open would be closed too, and its number used again."""
    data = tmp_path / "data"
    captured = capture(writer(data, "os.closerange(3, 2000)"), tmp_path / "logs")
    assert_job_is_well(captured, data)
    offsets = [write.offset for write in captured.of("data", "write")]
    assert offsets == list(range(0, WRITES * 10, 10))


def test_any_bytes_may_be_a_path(tmp_path: Path) -> None:
    """File names are bytes without NUL and slash; newlines and non-UTF-8 exist."""
    name = b"new\nline \xff.pt"
    code = (
        f"import os; os.chdir({os.fspath(tmp_path)!r})\n"
        f"fd = os.open({name!r}, os.O_WRONLY | os.O_CREAT); os.write(fd, b'x'); os.close(fd)\n"
        f"os.rename({name!r}, {name + b'2'!r})\n"
    )
    captured = capture([*PYTHON, code], tmp_path / "logs")
    path = os.fsencode(tmp_path) + b"/" + name
    (write,) = captured.requests("write")
    (rename,) = captured.requests("rename")
    assert write.path == path
    assert rename.text == path + b"\0" + path + b"2"


def test_a_descriptor_that_was_inherited_is_resolved_when_it_is_used(tmp_path: Path) -> None:
    """Shells and launchers open the output of a job before it runs."""
    with open(tmp_path / "data", "wb", buffering=0) as file:
        file.write(b"before")
        (tmp_path / "logs").mkdir()
        done = subprocess.run(
            [*PYTHON, f"import os; os.write({file.fileno()}, b'after')"],
            env={**os.environ, **capture_environment(tmp_path / "logs")},
            pass_fds=[file.fileno()],
            capture_output=True,
        )
    assert done.returncode == 0
    captured = capture(["true"], tmp_path / "logs")
    (write,) = captured.of("data", "write")
    assert (write.offset, write.result, write.offset_source) == (6, 5, "queried")
    assert captured.of("data", "open") == []


def test_a_paused_thread_is_not_recorded_but_followed(tmp_path: Path) -> None:
    """What the hooks read is not the job's; what comes after must still be right."""
    code = (
        "import ctypes, os\n"
        f"os.chdir({os.fspath(tmp_path)!r})\n"
        "library = ctypes.CDLL(None)\n"
        "first = os.open('first', os.O_WRONLY | os.O_CREAT)\n"
        "os.write(first, b'1234')\n"
        "library.iotrace_pause(1)\n"
        "library.iotrace_pause(1)\n"
        "os.write(first, b'12')\n"
        "second = os.open('second', os.O_WRONLY | os.O_CREAT)\n"
        "os.write(second, b'123')\n"
        "library.iotrace_pause(0)\n"
        "os.write(first, b'1')\n"
        'note = b\'{"layer":"span"}\'\n'
        "times = ctypes.c_uint64(5), ctypes.c_uint64(7)\n"
        "assert library.iotrace_note(*times, note, len(note)) == 0\n"
        "library.iotrace_pause(0)\n"
        "os.write(first, b'12345')\n"
        "os.write(second, b'12345')\n"
    )
    captured = capture([*PYTHON, code], tmp_path / "logs")
    assert captured.done.returncode == 0, captured.done.stderr
    assert [(w.offset, w.result) for w in captured.of("first", "write")] == [(0, 4), (7, 5)]
    assert [(w.offset, w.result) for w in captured.of("second", "write")] == [(3, 5)]
    (note,) = captured.log.rows("note")
    assert captured.log.text(note) == b'{"layer":"span"}'
    assert captured.log.records[note]["start_ns"] == 5


def test_what_scope_leaves_out_is_counted(tmp_path: Path) -> None:
    """A trace that leaves something out must be able to say how much."""
    code = (
        "import os\n"
        f"os.chdir({os.fspath(tmp_path)!r})\n"
        "for name, size in (('kept', 10), ('left_out', 200), ('outside', 3000)):\n"
        "    fd = os.open(name, os.O_RDWR | os.O_CREAT)\n"
        "    os.write(fd, b'x' * size)\n"
        "    os.pread(fd, size, 0)\n"
        "    os.close(fd)\n"
        "r, w = os.pipe()\n"
        "os.write(w, b'x' * 77); os.read(r, 77)\n"
    )
    scope = {
        "IOTRACE_INCLUDE": f"{tmp_path}/kept\n{tmp_path}/left_*",
        "IOTRACE_EXCLUDE": "*_out",
    }
    captured = capture([*PYTHON, code], tmp_path / "logs", scope)
    assert {r.name for r in captured.requests()} == {"kept"}
    outside = captured.log.header.outside
    assert outside.ignored_bytes_written == 3200
    assert outside.ignored_bytes_read >= 3200
    assert outside.ignored_opens >= 2
    assert (outside.other_bytes_read, outside.other_bytes_written) == (77, 77)
