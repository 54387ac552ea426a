"""A file that is fetched by ranges: the same bytes, each fetched once, in few requests."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iotrace.traces import ranges
from iotrace.traces.ranges import BLOCK_BYTES, RangeFile

SIZE = 40 * BLOCK_BYTES + 4321
CONTENT = random.Random(1).randbytes(SIZE)


class Far:
    """A file far away that counts what is asked of it."""

    def __init__(self, content: bytes = CONTENT) -> None:
        self.content = content
        self.asked: list[tuple[int, int]] = []
        self.file = RangeFile(len(content), self.fetch)

    def fetch(self, start: int, length: int) -> bytes:
        assert 0 <= start < start + length <= len(self.content)
        self.asked.append((start, length))
        return self.content[start : start + length]

    def read(self, start: int, length: int) -> bytes:
        self.file.seek(start)
        return self.file.read(length)

    def most_fetched(self) -> int:
        """Return how often the block was fetched that was fetched most often."""
        blocks = Counter(
            block
            for start, length in self.asked
            for block in range(start // BLOCK_BYTES, -(-(start + length) // BLOCK_BYTES))
        )
        return max(blocks.values(), default=0)


READS = st.lists(st.tuples(st.integers(0, SIZE + 9), st.integers(0, SIZE + 9)), max_size=20)


@given(READS)
def test_any_reads_give_the_bytes_of_the_file(reads: list[tuple[int, int]]) -> None:
    """Across blocks, at the end and behind it."""
    far = Far()
    for start, length in reads:
        assert far.read(start, length) == CONTENT[start : start + length]


@given(READS)
def test_little_memory_changes_no_byte(reads: list[tuple[int, int]]) -> None:
    """What is let go of is fetched again; what is larger than all that is kept, as it is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranges, "available_memory_bytes", lambda: 0)
        patch.setattr(ranges, "_FEWEST_KEPT_BLOCKS", 3)
        far = Far()
        for start, length in reads:
            assert far.read(start, length) == CONTENT[start : start + length]
            assert len(far.file._blocks) <= 3


@pytest.mark.parametrize("step", [100, BLOCK_BYTES + 7, 10 * BLOCK_BYTES])
def test_headers_first_and_then_all_is_fetched_once(step: int) -> None:
    """As a reader of Parquet goes through a file: pages of any size."""
    far = Far()
    for start in range(0, SIZE, step):
        far.read(start, 50)
    for start in range(0, SIZE, SIZE // 3):
        assert far.read(start, SIZE // 3) == CONTENT[start : start + SIZE // 3]
    assert far.most_fetched() == 1
    assert len(far.asked) < 10


def test_what_lies_far_apart_is_not_joined() -> None:
    """A look at the end of each part of a large file needs no more than these."""
    far = Far(bytes(1000 * BLOCK_BYTES))
    for start in (999, 600, 300, 900):
        far.read(start * BLOCK_BYTES, 100)
    assert far.asked == [(n * BLOCK_BYTES, BLOCK_BYTES) for n in (999, 600, 300, 900)]


def test_a_size_that_is_a_lie_costs_nothing() -> None:
    """A stranger's server tells it."""
    asked = []

    def fetch(start: int, length: int) -> bytes:
        asked.append(length)
        raise OSError("the server sent 0 bytes")

    file = RangeFile(1 << 60, fetch)
    with pytest.raises(OSError, match="sent 0"):
        file.read()
    assert asked == [1 << 60]
