"""Which tensor lies at a place in a file."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from iotrace.traces.columns import IntArray, ends_of
from iotrace.traces.requests import Requests
from iotrace.traces.trace import Trace


@dataclass(frozen=True, eq=False)
class TensorsOf:
    """The tensors of one file: rows, their first byte (-1: unknown) and the one after their last.

    Offsets and lengths are bytes.
    """

    rows: Trace
    begin: IntArray
    end: IntArray

    @classmethod
    def request(cls, requests: Requests, trace: Trace, row: int) -> TensorsOf:
        """Return the tensors of the file of one request."""
        tensors = trace.layer("tensor")
        codes, paths = tensors.codes("path")
        path = requests.path_of(row)
        tensors = tensors.where(codes == (paths.index(path) if path in paths else len(paths)))
        tensors = tensors.where(requests.homes_of(tensors) == requests.home[row])
        begin = tensors.ints("offset")
        return cls(tensors, begin, ends_of(begin, tensors.ints("length", null=0)))

    def at(self, offset: int) -> str | None:
        """Return the name of the first tensor that holds byte `offset`, or follows it."""
        found = np.flatnonzero((self.begin >= 0) & (self.end > offset))
        return self._name(int(found[self.begin[found].argmin()])) if len(found) else None

    def within(self, offset: int, length: int) -> tuple[str | None, int]:
        """Return which tensor has most bytes among some of the file, and how many others have."""
        if min(offset, length) < 0:
            return None, 0
        stop = min(offset + length, np.iinfo(np.int64).max)
        within = np.minimum(self.end, stop) - np.maximum(self.begin, offset)
        rows = np.flatnonzero((self.begin >= 0) & (within > 0))
        codes = self.rows.text_codes("name")
        held = np.bincount(codes[rows] + 1, weights=within[rows])[1:]
        if not held.any():
            return None, 0
        return self.rows.text("name", int(held.argmax())), int(np.count_nonzero(held)) - 1

    def last_before(self, offset: int) -> str | None:
        """Return the name of the last tensor that ends at byte `offset` or before."""
        found = np.flatnonzero((self.begin >= 0) & (self.end <= offset))
        return self._name(int(found[self.end[found].argmax()])) if len(found) else None

    def _name(self, row: int) -> str | None:
        return self.rows.text_at("name", row)
