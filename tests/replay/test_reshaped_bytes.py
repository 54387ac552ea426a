"""Joined and direct requests carry every byte, whatever the heads and tails of what they join."""

import os
from pathlib import Path

import pytest

from iotrace.replay.executors.executor import LoopOptions
from iotrace.replay.loop import Tape, run_posix
from iotrace.replay.options import ReplayOptions
from iotrace.replay.plan import Plan
from iotrace.replay.result import RecordedSummary
from iotrace.replay.schedule import schedule
from iotrace.replay.session import replay
from iotrace.replay.sketch import sketch, sketch_trace
from iotrace.replay.transforms.aggregate import Aggregate
from iotrace.replay.transforms.align import Align
from iotrace.replay.transforms.coalesce import Coalesce
from iotrace.replay.transforms.direct import Direct
from iotrace.replay.transforms.select import Select
from iotrace.replay.verify import find_mismatch

KIB = 1 << 10
TAILS = sorted({1, 2, 511, 512, 513, 4095, 4096, 4097, *range(1, 4098, 123)})


def saved_and_loaded(heads: list[int]) -> str:
    """Return a file of large writes that lie between small ones of odd lengths."""
    writes, at = [], 0
    for head, tail in zip(heads, reversed(heads), strict=True):
        for length in (head, 70 * KIB + tail, 3 * KIB):
            writes.append((at, length))
            at += length
    lines = ["open a w+create", *(f"write a {at} {length}" for at, length in writes), "sync a"]
    lines += ["close a", "open a r", *(f"read a {at} {length}" for at, length in writes)]
    return "\n".join([*lines, "close a"])


def verified(plan: Plan, root: Path, executor: str) -> int:
    """Replay a plan and check it; return the bytes that were copied."""
    recorded = RecordedSummary.of(sketch_trace("open a r\nclose a"))
    options = ReplayOptions(root=root, verify=True, executor=executor, queue_depth=2)
    outcome = replay(plan, recorded, options)
    assert outcome.errors == () and outcome.verified is True
    return outcome.repetitions[0].report.staged_bytes


@pytest.mark.parametrize("executor", ["io_uring", "posix"])
@pytest.mark.parametrize("gather", ["copy", "vectored"])
def test_heads_and_tails_of_any_length(tmp_path: Path, executor: str, gather: str) -> None:
    """Model files are large tensors between odd headers; only those are to be copied."""
    plan = sketch(saved_and_loaded(TAILS))
    joined = Coalesce(1 << 20, gather)(plan)
    moved = joined.counts().bytes_written + joined.counts().bytes_read
    assert verified(Direct()(joined), tmp_path, executor) < moved / 4
    copied = verified(joined, tmp_path, executor)
    assert copied == 0 if gather == "vectored" else 0 < copied < moved / 4
    verified(Direct()(Align()(joined)), tmp_path, executor)


@pytest.mark.parametrize("tail", TAILS)
def test_a_file_of_one_large_write_and_a_tail(tmp_path: Path, tail: int) -> None:
    """The last block of a file is padded and cut back, also after bytes that were not copied."""
    plan = sketch(f"open a w+create\nwrite a 0 {100 * KIB}\nwrite a {100 * KIB} {tail}\nclose a")
    verified(Direct()(Coalesce()(plan)), tmp_path, "io_uring")


@pytest.mark.parametrize("executor", ["io_uring", "posix"])
def test_aligned_payload_is_written_from_where_it_lies(tmp_path: Path, executor: str) -> None:
    """An engine that aligns its file has its buffers aligned: only the last blocks are copied."""
    lengths = [40 * KIB + tail for tail in TAILS]
    plan = sketch(saved(lengths))
    apart = Direct()(Align()(plan))
    blocks = 4096 * len(lengths)
    assert verified(apart, tmp_path, executor) <= blocks
    assert verified(Direct()(Align()(Aggregate("shared")(plan))), tmp_path, executor) <= blocks
    loads = Select(phases=("load",))(sketch(saved(lengths) + LOAD))
    assert Direct()(Align()(loads)).initial_extents()["offset"][1] % 4096 == 0
    verified(Direct()(Align()(loads)), tmp_path, executor)  # from files prepared likewise


LOAD = "\nopen a r\nread a 1 300000\nread a 300001 70000\nclose a"


def saved(lengths: list[int]) -> str:
    """Return a file of writes of these lengths, one after the other, that begins at byte 1."""
    offsets = [1 + sum(lengths[:count]) for count in range(len(lengths))]
    writes = (f"write a {at} {length}" for at, length in zip(offsets, lengths, strict=True))
    return "\n".join(["open a w+create", *writes, "sync a", "close a"])


def test_a_flipped_byte_of_aligned_payload_is_found(tmp_path: Path) -> None:
    """However the payload is numbered, each byte is known by its number alone."""
    plan = Direct()(Align()(sketch(saved([40 * KIB + 5, 40 * KIB + 7]))))
    at, then = plan.requests["offset"][plan.is_data()].tolist()
    root_fd = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    with Tape(4 << 20) as tape:
        run = run_posix(schedule(plan).job, tape, root_fd, LoopOptions())
        assert run.report.first_error is None
        assert find_mismatch(plan, tape, root_fd) is None
        data = (tmp_path / "a").read_bytes()
        flipped, misplaced = bytearray(data), bytearray(data)
        flipped[at] ^= 1
        misplaced[at : at + KIB] = data[then : then + KIB]
        for changed in (flipped, misplaced):
            (tmp_path / "a").write_bytes(changed)
            assert "differ" in str(find_mismatch(plan, tape, root_fd))
    os.close(root_fd)
