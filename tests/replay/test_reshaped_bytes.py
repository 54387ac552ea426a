"""Joined and direct requests carry every byte, whatever the heads and tails of what they join."""

from pathlib import Path

import pytest

from iotrace.replay.options import ReplayOptions
from iotrace.replay.plan import Plan
from iotrace.replay.result import RecordedSummary
from iotrace.replay.session import replay
from iotrace.replay.sketch import sketch, sketch_trace
from iotrace.replay.transforms.align import Align
from iotrace.replay.transforms.coalesce import Coalesce
from iotrace.replay.transforms.direct import Direct

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
