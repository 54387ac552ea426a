"""Threads: hundreds at once, and hundreds one after the other."""

import pytest

from .preload_job import Captured, capture, compile_program

THREADS = 300
ROUNDS = 40
BYTES = 512


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> Captured:
    folder = tmp_path_factory.mktemp("threads")
    program = compile_program(folder, "threads.c", "-O2", "-pthread")
    result = capture([program, folder, str(THREADS)], folder / "logs")
    assert result.done.returncode == 0, result.done.stderr
    return result


def test_no_request_of_any_thread_is_lost(captured: Captured) -> None:
    """Writers of a checkpoint run in pools; nothing may depend on who comes first."""
    writes = captured.of("placed", "write")
    offsets = sorted(write.offset for write in writes)
    assert offsets == list(range(0, THREADS * ROUNDS * BYTES, BYTES))
    assert {write.result for write in writes} == {BYTES}
    assert captured.log.header.outside.dropped_records == 0
    assert captured.log.torn_records == 0


def test_each_request_names_its_own_thread(captured: Captured) -> None:
    """A stream of a replay is what one thread issued, in order."""
    by_thread: dict[int, list[int]] = {}
    for write in captured.of("placed", "write"):
        by_thread.setdefault(write.thread, []).append(write.offset)
    assert len(by_thread) == THREADS
    for offsets in by_thread.values():
        first = offsets[0]
        assert first % (ROUNDS * BYTES) == 0
        assert offsets == list(range(first, first + ROUNDS * BYTES, BYTES))


def test_a_shared_position_gives_each_write_its_own_extent(captured: Captured) -> None:
    """Threads that write() to one descriptor share its position and must tile the file."""
    offsets = sorted(write.offset for write in captured.of("moved", "write"))
    assert offsets == list(range(0, THREADS * ROUNDS * BYTES, BYTES))


def test_a_thread_that_ends_leaves_its_room_to_the_next(captured: Captured) -> None:
    """Engines start a thread per write; a chunk for each would fill the disk."""
    singles = captured.of("single", "write")
    assert [write.offset for write in singles] == list(range(THREADS))
    assert len({write.thread for write in singles}) == THREADS
    header_bytes, chunk_bytes = 65536, 65536
    log_bytes = captured.log.path.stat().st_size
    assert log_bytes <= header_bytes + (THREADS + 2) * chunk_bytes
