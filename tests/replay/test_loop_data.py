"""Every byte a job writes or reads is the tape's, by every way it may be moved."""

import itertools
import os
from pathlib import Path

import pytest

from iotrace.replay.executors.executor import Executor, LoopOptions
from iotrace.replay.loop import Tape

from .job_builder import CREATE, EXECUTORS, JobBuilder, Piece, run

MIB = 1 << 20
READ_DIRECT = os.O_RDONLY | os.O_DIRECT


def content(tape: Tape, pieces: list[Piece]) -> bytes:
    """Return the payload of pieces, one after the other."""
    return b"".join(tape.read(*piece) for piece in pieces)


@pytest.mark.parametrize("depth", [1, 8])
def test_buffered_writes_of_any_alignment_land_where_they_belong(
    executor: Executor, tape: Tape, root: Path, depth: int
) -> None:
    """Checkpoint files are mostly odd headers and odd tails."""
    job = JobBuilder()
    handle = job.open("a")
    lengths = [1, 4095, 4096, 4097, 100, 65536, 999_999, 3 * MIB + 5, 0, 7]
    offsets = list(itertools.accumulate(lengths, initial=0))
    for offset, length in zip(offsets, lengths, strict=False):
        job.write(handle, offset, length)
    job.sync(handle)
    job.close(handle)
    done = run(executor, job.build(), tape, root, LoopOptions(queue_depth=depth))
    assert (root / "a").read_bytes() == tape.read(0, 0, offsets[-1])
    assert done.timings["result"].tolist() == [0, *lengths, 0, 0]
    assert done.report.first_error is None and done.report.staged_bytes == 0


def test_aligned_direct_writes_are_not_copied(executor: Executor, tape: Tape, root: Path) -> None:
    """A copy the recorded job did not make would be charged to the storage."""
    job = JobBuilder()
    handle = job.open("a", CREATE | os.O_DIRECT)
    for i in range(40):
        job.write(handle, i * 64 * 1024, 64 * 1024)
    job.close(handle)
    done = run(executor, job.build(), tape, root, LoopOptions(queue_depth=8))
    assert (root / "a").read_bytes() == tape.read(0, 0, 40 * 64 * 1024)
    assert done.report.staged_bytes == 0


def test_direct_writes_of_payload_that_moved_are_staged(
    executor: Executor, tape: Tape, root: Path
) -> None:
    """After a relocation, file offset and payload offset no longer agree modulo a block."""
    job = JobBuilder()
    handle = job.open("a", CREATE | os.O_DIRECT)
    job.write(handle, 0, 8192, pieces=[(3, 17, 8192)])
    job.write(handle, 8192, 8192, pieces=[(3, 17 + 8192, 8191), (-1, 0, 1)], gather=1)
    job.close(handle)
    done = run(executor, job.build(), tape, root)
    assert (root / "a").read_bytes() == tape.read(3, 17, 8192 + 8191) + b"\0"
    assert done.report.staged_bytes == 16384


@pytest.mark.parametrize("gather", [0, 1])
@pytest.mark.parametrize("direct", [False, True])
def test_coalesced_pieces_are_packed_in_order(
    executor: Executor, tape: Tape, root: Path, gather: int, direct: bool
) -> None:
    """Copied or vectored, the file is the same; only the copy, of small pieces, is counted."""
    pieces = [(0, 4096, 4096), (5, 0, 12288), (-1, 0, 4096), (2, 40960, 8192), (0, 0, 0)]
    odd = [(0, 3, 100), (1, 7, 1), (-1, 9, 55), (4, 2 * MIB, MIB), (4, 1, 3000)]
    job = JobBuilder()
    handle = job.open("a", CREATE | (os.O_DIRECT if direct else 0))
    job.write(handle, 0, 28672, pieces=pieces, gather=gather)
    job.close(handle)
    other = job.open("b")
    job.write(other, 0, sum(p[2] for p in odd), pieces=odd, gather=gather)
    job.close(other)
    done = run(executor, job.build(), tape, root)
    assert done.report.first_error is None
    assert (root / "a").read_bytes() == content(tape, pieces)
    assert (root / "b").read_bytes() == content(tape, odd)
    copied = 28672 + sum(p[2] for p in odd if p[2] < MIB)
    assert done.report.staged_bytes == (0 if gather else copied)


def test_more_pieces_than_one_call_takes_are_cut(
    executor: Executor, tape: Tape, root: Path
) -> None:
    """The kernel takes 1024 buffers in a call; coalescing may join more."""
    pieces = [(0, i * 10, 10) for i in range(3000)]
    job = JobBuilder()
    handle = job.open("a")
    job.write(handle, 0, 30000, pieces=pieces, gather=1)
    job.close(handle)
    done = run(executor, job.build(), tape, root)
    assert (root / "a").read_bytes() == tape.read(0, 0, 30000)
    assert done.timings["result"][1] == 30000


def test_a_staged_request_larger_than_its_buffer_is_cut(
    executor: Executor, tape: Tape, root: Path
) -> None:
    """Memory is bounded by the option; the bytes are not."""
    pieces = [(1, 0, 50_000), (2, 5, 70_001), (1, 50_000, 9)]
    length = sum(piece[2] for piece in pieces)
    job = JobBuilder()
    handle = job.open("a")
    job.write(handle, 0, length, pieces=pieces)
    job.close(handle)
    again = job.open("a", os.O_RDONLY)
    job.read(again, 0, length, pieces=pieces)
    job.close(again)
    options = LoopOptions(queue_depth=2, staging_bytes=4096, check_reads=True)
    done = run(executor, job.build(), tape, root, options)
    assert (root / "a").read_bytes() == content(tape, pieces)
    assert done.report.mismatched_bytes == 0 and done.report.first_error is None


@pytest.mark.parametrize(
    ("landing_bytes", "depth", "cut"),
    [(0, 4, 0), (64 * MIB, 4, 0), (8 * MIB, 4, 4), (MIB, 1, 4), (1, 1, 4)],
)
def test_a_read_longer_than_its_part_of_the_memory_is_cut_and_counted(
    executor: Executor, tape: Tape, root: Path, landing_bytes: int, depth: int, cut: int
) -> None:
    """A load of large reads must not take all memory, nor be replayed as others unsaid."""
    length = 4 * MIB + 100
    (root / "a").write_bytes(tape.read(0, 0, 2 * length))
    job = JobBuilder()
    handle = job.open("a", os.O_RDONLY)
    for number in range(4):
        job.read(handle, 8192 * number, length)
    job.read(handle, 0, 4096)
    job.close(handle)
    options = LoopOptions(queue_depth=depth, landing_bytes=landing_bytes)
    done = run(executor, job.build(), tape, root, options)
    assert done.timings["result"].tolist() == [0, *[length] * 4, 4096, 0]
    assert done.report.cut_reads == cut


READS: dict[str, tuple[int, list[Piece], int]] = {
    "one piece": (os.O_RDONLY, [(0, 8192, 20480)], 0),
    "one piece, direct": (READ_DIRECT, [(0, 8192, 20480)], 0),
    "copied": (os.O_RDONLY, [(0, 8192, 10000), (0, 18192, 10480)], 0),
    "copied, direct": (READ_DIRECT, [(0, 8192, 10000), (0, 18192, 10480)], 0),
    "vectored": (os.O_RDONLY, [(0, 8192, 10000), (0, 18192, 10480)], 1),
    "vectored, direct": (READ_DIRECT, [(0, 8192, 8192), (0, 16384, 12288)], 1),
    "vectored, direct, odd": (READ_DIRECT, [(0, 8192, 8191), (0, 16383, 12289)], 1),
}


@pytest.mark.parametrize("way", READS)
@pytest.mark.parametrize("check", [True, False])
def test_one_flipped_byte_is_found_by_a_checked_read(
    executor: Executor, tape: Tape, root: Path, way: str, check: bool
) -> None:
    """A restore that reads the wrong bytes quickly is worth nothing."""
    flags, pieces, gather = READS[way]
    (root / "a").write_bytes(tape.read(0, 0, 32768))
    job = JobBuilder()
    handle = job.open("a", flags)
    job.read(handle, 0, 4096)
    job.read(handle, 8192, 20480, pieces=pieces, gather=gather)
    job.close(handle)
    built, options = job.build(), LoopOptions(queue_depth=2, check_reads=check)
    whole = run(executor, built, tape, root, options)
    assert whole.report.first_error is None and whole.report.mismatched_bytes == 0
    with (root / "a").open("r+b") as file:
        file.seek(19000)
        flipped = bytes([file.read(1)[0] ^ 0x10])
        file.seek(19000)
        file.write(flipped)
        file.flush()
        os.fsync(file.fileno())
    broken = run(executor, built, tape, root, options)
    assert broken.timings["result"].tolist() == [0, 4096, 20480, 0]
    assert broken.report.mismatched_bytes == (1 if check else 0)
    assert broken.report.first_mismatch == (2 if check else None)


def test_a_read_past_the_end_is_whole_only_where_the_job_says_so(
    executor: Executor, tape: Tape, root: Path
) -> None:
    """Readers ask for more than there is, and stop; anything else is a failure."""
    (root / "a").write_bytes(tape.read(0, 0, 10_000))
    for may_be_short, error in ((1, None), (0, 1)):
        job = JobBuilder()
        handle = job.open("a", os.O_RDONLY)
        job.read(handle, 8000, 5000, may_be_short=may_be_short)
        job.close(handle)
        done = run(executor, job.build(), tape, root, LoopOptions(check_reads=True))
        assert done.timings["result"].tolist() == [0, 2000, 0]
        assert done.report.first_error == error
        assert done.report.mismatched_bytes == 0


def test_writes_of_a_file_opened_to_append_go_to_their_offsets(
    executor: Executor, tape: Tape, root: Path
) -> None:
    """The kernel would ignore the offsets, and the order of completion decide the content."""
    job = JobBuilder()
    handle = job.open("a", CREATE | os.O_APPEND | os.O_NONBLOCK)
    for i in reversed(range(50)):
        job.write(handle, i * 10_000, 10_000)
    job.close(handle)
    done = run(executor, job.build(), tape, root, LoopOptions(queue_depth=8))
    assert done.report.first_error is None
    assert (root / "a").read_bytes() == tape.read(0, 0, 500_000)


def test_no_file_of_a_tape_looks_like_another(tape: Tape) -> None:
    """Verification must notice data that went to the wrong file or the wrong place."""
    starts = {tape.read(file, 8192, 16) for file in range(700)}
    blocks = {tape.read(5, block * 512, 16) for block in range(tape.size_bytes // 512)}
    assert len(starts) == 700 and len(blocks) == tape.size_bytes // 512
    period = tape.size_bytes
    assert tape.read(2, period + 5, 100) == tape.read(2, 5, 100)
    assert Tape(3 * MIB, seed=8).read(0, 0, 4096) != tape.read(0, 0, 4096)


def test_zeros_come_from_file_minus_one(executor: Executor, tape: Tape, root: Path) -> None:
    """Padding is zeros, and costs no copy."""
    job = JobBuilder()
    handle = job.open("a", CREATE | os.O_DIRECT)
    job.write(handle, 0, MIB, pieces=[(-1, 0, MIB)])
    job.close(handle)
    done = run(executor, job.build(), tape, root)
    assert (root / "a").read_bytes() == bytes(MIB)
    assert done.report.staged_bytes == 0


def available_bytes() -> int:
    """Return MemAvailable."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable"):
            return int(line.split()[1]) * 1024
    return 0


@pytest.mark.skipif(available_bytes() < 8 << 30, reason="needs 8 GiB of free memory")
@pytest.mark.parametrize("root", ["memory"], indirect=True)
def test_three_gibibytes_in_one_request_are_moved_whole(
    executor: Executor, tape: Tape, root: Path
) -> None:
    """One call moves less than 2 GiB; a large model's optimizer state is larger."""
    length = (3 << 30) + 4097
    job = JobBuilder()
    handle = job.open("a")
    job.write(handle, 5, length, pieces=[(1, 5, length)])
    job.read(handle, 5, length, pieces=[(1, 5, length)], fence=1)
    job.close(handle)
    done = run(executor, job.build(), tape, root, LoopOptions(check_reads=True))
    assert done.timings["result"].tolist() == [0, length, length, 0]
    assert done.report.mismatched_bytes == 0 and done.report.first_error is None


@pytest.mark.parametrize("root", ["memory"], indirect=True)
@pytest.mark.parametrize("executor", EXECUTORS, ids=lambda executor: executor.name)
def test_a_hundred_thousand_small_requests_cost_little(
    executor: Executor, tape: Tape, root: Path
) -> None:
    """The loop must be far cheaper than what it measures."""
    job = JobBuilder()
    handle = job.open("a")
    for i in range(100_000):
        job.write(handle, i % 5000 * 4096, 4096)
    job.close(handle)
    done = run(executor, job.build(), tape, root, LoopOptions(queue_depth=32))
    assert done.report.first_error is None
    assert done.report.end_ns - done.report.start_ns < 5_000_000_000


def test_staging_takes_no_more_memory_than_a_worker_has(
    executor: Executor, tape: Tape, root: Path
) -> None:
    """A GiB for each of many workers would be more than the machine has; the rest waits."""
    (root / "a").write_bytes(tape.read(0, 0, 16 * MIB))
    job = JobBuilder()
    handle = job.open("a", os.O_RDONLY)
    for i in range(16):
        job.read(handle, i * MIB, MIB)
    options = LoopOptions(queue_depth=16, landing_bytes=4 * MIB, check_reads=True)
    done = run(executor, job.build(), tape, root, options)
    assert (done.report.mismatched_bytes, done.report.first_error) == (0, None)
    assert (done.report.in_flight_wanted, done.report.in_flight_limit) == (16, 4)
