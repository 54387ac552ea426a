"""Rings of io_uring that come, go, are shared, and are looked at in the job's memory."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from iotrace.capture.collector import collect

from .preload_job import capture, capture_environment, compile_program, read_raw_log
from .uring_job import assert_all_accounted, asynchronous, lines, run

REQUESTS = 100_000


@pytest.fixture(scope="module")
def rings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rings that come, go and are shared, by the shared liburing."""
    folder = tmp_path_factory.mktemp("rings")
    return compile_program(folder, "uring_rings.c", "-O2", "-luring", "-pthread")


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Completions that the job finds in a ring's memory."""
    return compile_program(tmp_path_factory.mktemp("found"), "uring_found.c", "-O2", "-luring")


@pytest.mark.parametrize("case", ["again", "threads"])
def test_each_request_is_recorded_as_the_program_made_it(
    rings: Path, tmp_path: Path, case: str
) -> None:
    """Rings come again at the same address; one thread submits and another sees the completion."""
    captured = run(rings, tmp_path, case)
    requests = asynchronous(captured)
    assert lines(requests) == captured.done.stdout.decode().splitlines()
    assert all(request.end_ns > request.start_ns for request in requests)
    assert_all_accounted(captured)


def test_a_child_records_its_own_ring_and_not_its_parents(rings: Path, tmp_path: Path) -> None:
    """The records of what is in flight lie in the parent's log, which is no child's to write."""
    captured = run(rings, tmp_path, "forked")
    assert sorted(lines(asynchronous(captured))) == sorted(
        captured.done.stdout.decode().splitlines()
    )
    assert sorted(len(log.rows("write")) for log in captured.logs) == [1, 3]
    assert_all_accounted(captured)


@pytest.mark.parametrize("call", ["sync", "rename", "open", "note", "close"])
def test_the_end_of_a_request_is_no_later_than_what_the_job_did_next(
    found: Path, tmp_path: Path, call: str
) -> None:
    """Inlined functions find completions in memory: the job may then compute for minutes."""
    captured = run(found, tmp_path, "written", call)
    (write,) = asynchronous(captured)
    close = captured.of("found", "close")[0]
    assert 0 < write.end_ns < close.start_ns - (0 if call == "close" else 90_000_000)
    assert lines([write]) == captured.done.stdout.decode().splitlines()


@pytest.mark.parametrize("call", ["close", "stale", "close_range", "dup2", "dup"])
def test_a_file_that_was_opened_in_memory_is_closed(found: Path, tmp_path: Path, call: str) -> None:
    """Nobody was told of the open; `stale`: its descriptor stood for a file closed unseen."""
    captured = run(found, tmp_path, "opened", call)
    (opened,) = asynchronous(captured)
    (close,) = [close for close in captured.of("opened", "close") if close.length == 0]
    assert (opened.op, opened.result, close.result) == ("open", 0, 0)
    assert len(captured.of("opened", "close")) == (2 if call == "dup" else 1)
    assert captured.of("stale", "close") == []
    assert_all_accounted(captured)


def test_a_file_that_was_opened_in_memory_is_appended_to(found: Path, tmp_path: Path) -> None:
    """The job has set the flag before anyone was told of the open."""
    (write,) = run(found, tmp_path, "opened", "append").requests("write")
    assert (write.name, write.offset, write.result) == ("opened", 1000, 100)


def test_a_ring_may_go_while_other_threads_open_and_close(rings: Path, tmp_path: Path) -> None:
    """Each of them looks at all rings, where a request is still in flight."""
    captured = run(rings, tmp_path, "crowd")
    assert len(captured.of("crowd", "open")) == len(captured.of("crowd", "close")) > 0


def test_a_child_without_its_parents_ring_lives(rings: Path, tmp_path: Path) -> None:
    """The memory of the ring is not in the child."""
    captured = run(rings, tmp_path, "unshared")
    assert [write.result for write in captured.requests("write")] == [100, 100, 1]


def test_a_ring_taken_down_behind_our_back_harms_nobody(rings: Path, tmp_path: Path) -> None:
    """ctypes and its like bind to the library's own functions; its memory is gone at the end."""
    (write,) = asynchronous(run(rings, tmp_path, "pointer"))
    assert (write.offset, write.length) == (0, 100)


def test_requests_in_flight_at_a_kill_are_recorded_without_an_end(
    rings: Path, tmp_path: Path
) -> None:
    """What a job was waiting for when it died is what its owner wants to know."""
    (tmp_path / "files").mkdir()
    (tmp_path / "logs").mkdir()
    environment = {**os.environ, **capture_environment(tmp_path / "logs")}
    with subprocess.Popen(
        [rings, tmp_path / "files", "killed"], env=environment, stdout=subprocess.PIPE
    ) as job:
        assert job.stdout is not None
        assert job.stdout.readline() == b"submitted\n"
        (path,) = (tmp_path / "logs").glob("*.raw")
        while len(read_raw_log(path).rows("write")) < 2:
            assert job.poll() is None
        job.send_signal(signal.SIGKILL)
    trace = collect(tmp_path / "logs", ["killed"])
    writes = trace.where(trace.row_mask(layer="request", op="write"))
    assert writes.ints("offset").tolist() == [0, 100]
    assert writes.ints("result").tolist() == [100, -1]
    assert (writes.ints("end_ns") == -1).tolist() == [False, True]
    assert trace.metadata.completeness.unmatched_completions == 1


def test_a_ring_that_cannot_be_seen_leaves_its_file_unexplained(tmp_path: Path) -> None:
    """A wheel may have liburing inside it; a trace must then not claim to be complete."""
    program = compile_program(tmp_path, "uring_rings.c", "-O2", "-l:liburing.a", "-pthread")
    captured = run(program, tmp_path, "again")
    assert asynchronous(captured) == []
    completeness = collect(tmp_path / "logs", ["again"]).metadata.completeness
    assert [(Path(file.path).name, file.complete) for file in completeness.files] == [
        ("again", False)
    ]


def test_many_requests_leave_a_record_each(rings: Path, tmp_path: Path) -> None:
    """Jobs use rings for many small requests, done in batches."""
    folder = tmp_path / "files"
    folder.mkdir()
    captured = capture([rings, folder, "many", str(REQUESTS)], tmp_path / "logs")
    assert captured.done.returncode == 0, captured.done.stderr
    (path,) = (tmp_path / "logs").glob("*.raw")
    log = read_raw_log(path)
    ends_ns = log.column("end_ns")[log.rows("read")]
    assert len(ends_ns) == REQUESTS
    assert ends_ns.all()
