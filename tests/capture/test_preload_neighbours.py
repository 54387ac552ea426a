"""Jobs that bring other libraries to preload, allocators, sanitizers, plugins and odd names."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from iotrace.capture.collector import collect
from iotrace.capture.roster import start_roster

from .preload_job import LIBRARY, SOURCES, Captured, capture, compile_program

LIBRARY_FOLDERS = (
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
)
ALLOCATORS = ("libjemalloc.so.2", "libtcmalloc_minimal.so.4")
THREADS, ROUNDS, BYTES = 40, 40, 512  # of threads.c


def installed(name: str) -> str:
    """Return the path of a shared library; skip where there is none."""
    for folder in LIBRARY_FOLDERS:
        if (path := Path(folder, name)).exists():
            return str(path)
    pytest.skip(f"{name} is not installed")


def compile_library(folder: Path, source: str, *flags: str) -> Path:
    """Compile a shared library of csrc/."""
    path = folder / f"lib{Path(source).stem}.so"
    command = ["gcc", "-shared", "-fPIC", "-O1", *flags, SOURCES / source, "-o", path, "-ldl"]
    subprocess.run(command, check=True)
    return path


def ordered(ours_first: bool, other: str) -> dict[str, str]:
    """Return the variable that preloads both."""
    both = (str(LIBRARY), other) if ours_first else (other, str(LIBRARY))
    return {"LD_PRELOAD": ":".join(both)}


def moved(captured: Captured, name: str) -> list[tuple[int, int]]:
    """Return what was written to a file, by offset."""
    return sorted((write.offset, write.result) for write in captured.of(name, "write"))


@pytest.mark.parametrize("ours_first", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("name", ALLOCATORS)
def test_another_allocator_changes_nothing(tmp_path: Path, name: str, ours_first: bool) -> None:
    """They call libc while they set themselves up; a lock or an allocation there is a deadlock."""
    extra = ordered(ours_first, installed(name))
    program = compile_program(tmp_path, "threads.c", "-O2", "-pthread")
    captured = capture([program, tmp_path, str(THREADS)], tmp_path / "logs", extra)
    assert captured.done.returncode == 0, captured.done.stderr
    end = THREADS * ROUNDS * BYTES
    assert moved(captured, "placed") == [(offset, BYTES) for offset in range(0, end, BYTES)]
    job = [sys.executable, "-c", f"open({str(tmp_path / 'python')!r}, 'wb').write(bytes(70000))"]
    from_python = capture(job, tmp_path / "python.logs", extra)
    assert from_python.done.returncode == 0, from_python.done.stderr
    assert moved(from_python, "python") == [(0, 70000)]


@pytest.mark.parametrize("ours_first", [True, False], ids=["before", "after"])
def test_another_interposer_passes_on(tmp_path: Path, ours_first: bool) -> None:
    """Profilers do the same; each must find the other behind it, and nobody twice."""
    extra = ordered(ours_first, str(compile_library(tmp_path, "interposer.c")))
    (tmp_path / "files").mkdir()
    program = compile_program(tmp_path, "streams.c", "-O2")
    alone = capture([program, tmp_path / "files"], tmp_path / "alone")
    together = capture([program, tmp_path / "files"], tmp_path / "together", extra)
    assert together.done.returncode == 0, together.done.stderr
    for name in ("write.large", "write.seek", "duplicated", "unwrapped"):
        assert moved(together, name) == moved(alone, name) != []


def test_a_thread_may_close_streams_while_the_job_ends(tmp_path: Path) -> None:
    """Checkpoints are written in the background: what exit() flushes is looked at, and stays."""
    program = compile_program(tmp_path, "exiting.c", "-O1")
    extra = ordered(True, str(compile_library(tmp_path, "exiting.c", "-DBEHIND", "-pthread")))
    captured = capture([program, tmp_path / "wide"], tmp_path / "logs", extra)
    assert captured.done.returncode == 0, captured.done.stderr
    assert (tmp_path / "wide").read_text() == "wide"


def test_an_extension_under_the_address_sanitizer(tmp_path: Path) -> None:
    """Its library must come first, and intercepts half of libc itself."""
    asan = subprocess.run(
        ["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True
    ).stdout.strip()
    if not os.path.isabs(asan):
        pytest.skip("no address sanitizer")
    plugin = compile_library(tmp_path, "plugin.c", "-fsanitize=address")
    extra = ordered(False, asan) | {"ASAN_OPTIONS": "detect_leaks=0"}
    target = tmp_path / "sanitized"
    call = f"ctypes.CDLL({str(plugin)!r}).plugin_write({bytes(target)!r}, 90000)"
    job = f"import ctypes; assert {call} == 0"
    captured = capture([sys.executable, "-c", job], tmp_path / "logs", extra)
    assert captured.done.returncode == 0, captured.done.stderr
    assert moved(captured, "sanitized") == [(0, 90000)]


def test_a_plugin_that_binds_past_us_is_reported(tmp_path: Path) -> None:
    """RTLD_DEEPBIND finds libc first: what the plugin writes is missing, and the trace says so."""
    plugin = compile_library(tmp_path, "plugin.c")
    logs = tmp_path / "logs"
    logs.mkdir()
    start_roster(logs)
    job = (
        "import ctypes, os; "
        f"deep = ctypes.CDLL({str(plugin)!r}, mode=os.RTLD_NOW | os.RTLD_DEEPBIND); "
        f"assert deep.plugin_write({bytes(tmp_path / 'unseen')!r}, 900000) == 0; "
        f"open({str(tmp_path / 'seen')!r}, 'wb').write(b'123')"
    )
    captured = capture([sys.executable, "-c", job], logs)
    assert captured.done.returncode == 0, captured.done.stderr
    problems = collect(logs, []).metadata.completeness.problems()
    assert [p for p in problems if "879 KiB that were not seen" in p], problems


@pytest.mark.parametrize("name", [b"new\nline", b"with space", b"\xff\xfe.bin", "é".encode()])
def test_any_name_is_a_name(tmp_path: Path, name: bytes) -> None:
    """A file name is bytes without a slash."""
    path = bytes(tmp_path) + b"/" + name
    job = f"import os; fd = os.open({path!r}, os.O_WRONLY | os.O_CREAT); os.write(fd, b'12345')"
    captured = capture([sys.executable, "-c", job], tmp_path / "logs")
    assert captured.done.returncode == 0, captured.done.stderr
    assert [write.path for write in captured.requests("write")] == [path]
    trace = collect(tmp_path / "logs", [])
    writes = trace.where(trace.row_mask(op="write"))
    assert [os.fsencode(text or "") for text in writes.strings("path")] == [path]
    assert trace.metadata.completeness.problems() == []
