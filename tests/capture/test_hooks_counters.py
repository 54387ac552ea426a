"""Counters at the begin and the end of saves and loads."""

from __future__ import annotations

import ctypes
import mmap
import os
import socket
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from iotrace.capture.collector import collect
from iotrace.capture.hooks.counters import (
    FILES_MAX,
    PAGED_BYTES_MAX,
    SYS_CACHESTAT,
    Counters,
    files_of,
    is_in_memory,
    mincore,
    read_proc,
)
from iotrace.traces.check import check_trace
from iotrace.traces.counters import (
    FILE_COUNTERS,
    PROCESS_COUNTERS,
    SpanCounters,
    counters_of_spans,
)
from iotrace.traces.trace import Trace

from .hooked_job import run_job

if TYPE_CHECKING:
    from iotrace.capture.hooks.emit import Emitter

JOB = Path(__file__).parent / "jobs" / "counted.py"
LOCKED_JOB = Path(__file__).parent / "jobs" / "locked.py"
PAYLOAD_BYTES = 8 << 20
PAGE_BYTES = mmap.PAGESIZE


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the job saves into."""
    return tmp_path_factory.mktemp("counted")


@pytest.fixture(scope="module")
def trace(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """The job's trace."""
    logs = tmp_path_factory.mktemp("logs")
    run_job(logs, "-W", "ignore", JOB, folder)
    return collect(logs, ("python", JOB.name))


@pytest.fixture(scope="module")
def counters(trace: Trace) -> list[SpanCounters]:
    """The counters around its three spans."""
    return counters_of_spans(trace)


def pages_of(path: Path) -> int:
    """Return the bytes that a file's pages take."""
    return -(-path.stat().st_size // PAGE_BYTES) * PAGE_BYTES


def has_cachestat() -> bool:
    """Say whether the kernel tells what it holds of a file."""
    none = (ctypes.c_uint64 * 5)()
    with open(__file__, "rb") as file:
        arguments = (file.fileno(), (ctypes.c_uint64 * 2)(0, 0), none, 0)
        return bool(ctypes.CDLL(None).syscall(SYS_CACHESTAT, *arguments) == 0)


def test_every_span_has_all_counters_at_both_ends(
    trace: Trace, counters: list[SpanCounters]
) -> None:
    """A missing value would look like a zero in a plot."""
    assert check_trace(trace) == []
    assert [(one.op, one.engine) for one in counters] == [
        ("save", "torch.save"),
        ("load", "torch.save"),
        ("save", "dcp"),
    ]
    for one in counters:
        assert set(PROCESS_COUNTERS) <= set(one.after)
        assert set(one.before) >= set(PROCESS_COUNTERS)


def test_a_save_grows_the_count_of_its_process(counters: list[SpanCounters], folder: Path) -> None:
    """The kernel's own number agrees with the file."""
    save, load, _ = counters
    size = (folder / "x.pt").stat().st_size
    written = save.after["process_written_bytes"] - save.before["process_written_bytes"]
    read = load.after["process_read_bytes"] - load.before["process_read_bytes"]
    assert size <= written < size + 4096
    assert read >= PAYLOAD_BYTES
    assert save.after["resident_bytes"] > PAYLOAD_BYTES


def test_a_save_leaves_its_file_in_the_page_cache(
    counters: list[SpanCounters], folder: Path
) -> None:
    """All of it; after a sync nothing of it is dirty any more."""
    save, load, saved_folder = counters
    assert save.after["cached_bytes"] == pages_of(folder / "x.pt")
    assert load.before["cached_bytes"] == pages_of(folder / "x.pt")
    files = [path for path in (folder / "dcp").iterdir() if path.is_file()]
    assert saved_folder.after["cached_bytes"] == sum(map(pages_of, files))
    if has_cachestat():
        assert load.before["dirty_bytes"] == load.before["writeback_bytes"] == 0
        assert set(FILE_COUNTERS) <= set(save.after)


def test_rows_about_files_have_a_path(trace: Trace, folder: Path) -> None:
    """Those about the process have none."""
    rows = trace.where(trace.row_mask(layer="counter"))
    pairs = set(zip(rows.strings("name"), rows.strings("path"), strict=True))
    assert ("resident_bytes", None) in pairs
    assert ("cached_bytes", str(folder / "x.pt")) in pairs
    assert {name for name, path in pairs if path} <= set(FILE_COUNTERS)


def test_older_kernels_tell_what_is_cached_by_way_of_a_mapping(tmp_path: Path) -> None:
    """The same number; an empty file has no pages to map."""
    libc = ctypes.CDLL(None)
    for size in (0, 1, 3 * PAGE_BYTES + 5):
        path = tmp_path / "x"
        path.write_bytes(b"x" * size)
        with path.open("rb") as file:
            assert mincore(libc, file.fileno()) == {"cached_bytes": pages_of(path)}


def test_a_folder_with_many_files_is_not_walked_to_its_end(tmp_path: Path) -> None:
    """Each file takes time out of the job."""
    for number in range(FILES_MAX + 20):
        (tmp_path / f"{number}").touch()
    assert len(list(files_of(str(tmp_path)))) == FILES_MAX + 1


def test_the_hook_makes_no_request_of_the_job(trace: Trace, folder: Path) -> None:
    """It opens the file that the job has just written."""
    rows = trace.where(trace.row_mask(layer="request", op="open"))
    opens = [path for path in rows.strings("path") if path == str(folder / "x.pt")]
    assert len(opens) == 3  # save, sync, load


@pytest.mark.parametrize("case", ["same", "duplicate", "exec", "other", "flock"])
def test_a_job_keeps_the_lock_on_the_file_that_it_saves(tmp_path: Path, case: str) -> None:
    """To close any descriptor of a file ends the POSIX locks that the process has on it."""
    job = run_job(tmp_path / "logs", LOCKED_JOB, tmp_path / "x.pt", case)
    assert job.done.stdout == "kept\n"
    before, after = job.notes("counter")
    assert before["file"] == {}
    assert bool(after["file"]) == (case in ("other", "flock"))
    assert before["process"]["resident_bytes"] > 0


def test_a_save_does_not_wait_for_the_kernel(tmp_path: Path) -> None:
    """Who reads /proc/locks waits until every processor has passed by: 15 ms of a save."""
    strace = ("strace", "-f", "-o", tmp_path / "calls", "-e", "trace=openat", sys.executable)
    run_job(tmp_path / "logs", LOCKED_JOB, tmp_path / "x.pt", "other", python=strace)
    calls = (tmp_path / "calls").read_text()
    assert "/proc/thread-self/fd" in calls
    assert "/proc/locks" not in calls


@contextmanager
def any_user() -> Iterator[None]:
    """Go on as a user who owns nothing."""
    if os.getuid() != 0:
        pytest.skip("to be another user needs root")
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_file_of_somebody_else_is_not_called_cached(tmp_path: Path) -> None:
    """The kernel calls all of it cached, to keep a secret."""
    path = tmp_path / "x"
    path.write_bytes(b"x" * 5 * PAGE_BYTES)
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        libc = ctypes.CDLL(None)
        with any_user():
            assert mincore(libc, file.fileno()) is None
        assert mincore(libc, file.fileno()) is not None


class NoLocks:
    """Stands for the preload library, which is not loaded here; nothing is written."""

    def may_hold_locks(self, paths: Sequence[str]) -> bool:
        """No lock was taken here."""
        return False


NO_LOCKS = cast("Emitter", NoLocks())


class NoCachestat(Counters):
    """As on kernels before 6.5."""

    def _cachestat(self, fd: int) -> None:
        """Tell nothing."""


def test_older_kernels_are_not_asked_about_large_files(tmp_path: Path) -> None:
    """To look at each page takes time out of the job."""
    counters = NoCachestat(NO_LOCKS)
    (tmp_path / "small").write_bytes(b"x")
    assert counters._cache(str(tmp_path)) == {"cached_bytes": PAGE_BYTES}
    with (tmp_path / "large").open("wb") as file:
        file.truncate(PAGED_BYTES_MAX)
    assert counters._cache(str(tmp_path)) == {}


def test_large_files_in_memory_are_not_looked_through() -> None:
    """Each page counts by itself there, and a save of 2 GiB would wait 17 ms for it."""
    counters = Counters(NO_LOCKS)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        with (Path(name) / "small").open("wb") as file:
            file.write(b"x")
            file.flush()
            assert is_in_memory(ctypes.CDLL(None), file.fileno())
        assert counters._cache(name)["cached_bytes"] == PAGE_BYTES
        with (Path(name) / "large").open("wb") as file:
            file.truncate(PAGED_BYTES_MAX)
        assert counters._cache(name) == {}


@pytest.mark.parametrize("path", ["/proc/none", "/proc/self/mem", "/proc/self"])
def test_what_cannot_be_read_of_proc_is_left_out(path: str) -> None:
    """The values that can be are told all the same."""
    assert read_proc(path) == b""


def test_only_files_are_opened(tmp_path: Path) -> None:
    """Whoever waits for a reader of a pipe would take the hook for it."""
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "x").touch()
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as here:
        here.bind(str(tmp_path / "socket"))
        assert list(files_of(str(tmp_path))) == [str(tmp_path / "below" / "x")]
