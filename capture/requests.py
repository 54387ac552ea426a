"""The request rows of all processes, found by word."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from iotrace.capture.blocks import NULLS, Block, Words, empty_block

Rows = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Requests:
    """The request rows of all processes, found by word.

    Attributes:
        seeks: when threads moved a position that others use too: process, open, start and end.
    """

    block: Block
    words: Words
    seeks: Block = field(default_factory=empty_block)

    def rows(self, *ops: str) -> Rows:
        """Return the rows of the requests with one of some ops."""
        is_request = self.block["layer"] == self.words.layer.find("request")
        return np.flatnonzero(is_request & np.isin(self.block["op"], self.codes("op", ops)))

    def succeeded(self, *ops: str) -> Rows:
        """Return those of `rows` that succeeded and are on a known file."""
        rows = self.rows(*ops)
        return rows[(self.block["result"][rows] >= 0) & (self.block["file"][rows] >= 0)]

    def codes(self, column: str, values: Sequence[str]) -> list[int]:
        """Return the codes of words in a coded column."""
        return [getattr(self.words, column).find(value) for value in values]

    def moved_bytes(self, rows: Rows) -> Bytes:
        """Return the bytes that data requests moved; 0 for failures."""
        moved: Bytes = self.block["result"][rows].clip(min=0)
        return moved

    def unfinished(self) -> int:
        """Return how many asynchronous requests have no completion."""
        is_request = self.block["layer"] == self.words.layer.find("request")
        return int(np.count_nonzero(is_request & (self.block["end_ns"] == NULLS["end_ns"])))


def by_file(file: npt.NDArray[np.int32], rows: Rows) -> Iterator[tuple[int, Rows]]:
    """Yield the rows of each file."""
    order = np.argsort(file, kind="stable")
    values, firsts = np.unique(file[order], return_index=True)
    parts = np.split(rows[order], firsts[1:]) if len(values) else []
    yield from zip(values.tolist(), parts, strict=True)
