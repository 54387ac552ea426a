"""Streams of libc and libstdc++, whose system calls do not all go through a name."""

from pathlib import Path

import pytest

from .preload_job import (
    Captured,
    capture,
    compile_program,
    joined,
    moved_by_capture,
    moved_by_strace,
)

STREAM_FILES = ("write.", "duplicated", "unwrapped", "reopen.", "left.open")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_program(tmp_path_factory.mktemp("streams"), "streams.c", "-O2")


@pytest.fixture
def captured(program: Path, tmp_path: Path) -> Captured:
    (tmp_path / "captured").mkdir()
    result = capture([program, tmp_path / "captured"], tmp_path / "logs")
    assert result.done.returncode == 0, result.done.stderr
    return result


def test_stdio_moves_the_extents_that_the_kernel_saw(
    captured: Captured, program: Path, tmp_path: Path
) -> None:
    """libc's own reads and writes are inferred, and an inference must be right to be of use."""
    (tmp_path / "straced").mkdir()
    oracle = moved_by_strace([program, tmp_path / "straced"], tmp_path / "strace.log")
    expected = {
        key: joined(moved)
        for key, moved in oracle.items()
        if key[0].startswith(STREAM_FILES) and key[0] != "write.append"
    }
    seen = {key: joined(moved) for key, moved in moved_by_capture(captured).items()}
    seen.pop(("write.append", "write"))
    assert len(expected) >= 10
    assert seen == expected


@pytest.mark.parametrize(
    "flags",
    [("-O0",), ("-O2",), ("-O2", "-D_FORTIFY_SOURCE=2")],
    ids=["plain", "inlined", "fortified"],
)
def test_each_function_on_streams_is_counted_to_the_byte(
    tmp_path: Path, flags: tuple[str, ...]
) -> None:
    """`echo` of a shell is a putchar; one call that is missed makes a file of 0 bytes."""
    program = compile_program(tmp_path, "stdio.c", *flags, "-Wno-unused-result")
    for name in ("captured", "straced"):
        (tmp_path / name).mkdir()
    captured = capture([program, tmp_path / "captured"], tmp_path / "logs")
    assert captured.done.returncode == 0, captured.done.stderr
    oracle = moved_by_strace([program, tmp_path / "straced"], tmp_path / "strace.log")
    expected = {
        key: joined(moved)
        for key, moved in oracle.items()
        if key[0].startswith(("write.", "output.", "message.", "read."))
    }
    expected["output.dup2", "write"] = [(0, 6)]
    expected = {key: moved for key, moved in expected.items() if moved}
    assert len(expected) > 150
    seen = {key: joined(moved) for key, moved in moved_by_capture(captured).items()}
    assert {key: seen.get(key) for key in expected} == expected
    assert set(seen) - {("input", "write")} == set(expected)


def test_a_stream_that_appends_is_recorded_at_the_end(captured: Captured) -> None:
    """The position of a stream that appends says nothing about where its bytes go."""
    writes = captured.of("write.append", "write")
    assert [(w.offset, w.result) for w in writes] == [(0, 5), (5, 6), (11, 5)]


def test_stdio_requests_say_that_they_are_stdio(captured: Captured) -> None:
    """What is inferred must be told from what was seen."""
    requests = captured.of("write.large")
    assert {request.api for request in requests} == {"stdio"}
    moved = [request for request in requests if request.op in ("read", "write")]
    assert {request.offset_source for request in moved} == {"inferred"}
    assert [request.op for request in requests][:1] == ["open"]
    assert [request.op for request in requests].count("close") == 2


def test_bytes_that_only_exit_flushes_are_recorded(captured: Captured) -> None:
    """libc writes them when no code of the library runs any more."""
    assert [(w.offset, w.result) for w in captured.of("left.open", "write")] == [(0, 777)]


def test_threads_at_one_stream_move_each_byte_once(tmp_path: Path) -> None:
    """Each asks the kernel how far the stream has come, and another may have been told already."""
    program = compile_program(tmp_path, "shared_stream.c", "-O2", "-pthread")
    path = tmp_path / "stream"
    captured = capture([program, path], tmp_path / "logs")
    assert captured.done.returncode == 0, captured.done.stderr
    for op in ("write", "read"):
        extents = sorted((r.offset, r.result) for r in captured.of("stream", op) if r.result)
        assert joined(extents) == [(0, path.stat().st_size)]


def test_libstdcxx_files_are_seen_with_their_offsets(tmp_path: Path) -> None:
    """It opens with fopen64 and writes with writev: tracers that follow open() see 0 bytes."""
    program = compile_program(tmp_path, "ofstream.cc", "-O2")
    captured = capture([program, tmp_path / "data"], tmp_path / "logs")
    assert captured.done.returncode == 0
    seen = moved_by_capture(captured)
    oracle = moved_by_strace([program, tmp_path / "data"], tmp_path / "strace.log")
    assert {key[0] for key in seen} == {"data"}
    assert seen == {key: moved for key, moved in oracle.items() if key[0] == "data"}
    assert sum(moved for _, moved in seen["data", "write"]) > 1 << 20
