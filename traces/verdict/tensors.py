"""Which tensor lies at a place in a file."""

from __future__ import annotations

import numpy as np

from iotrace.traces.columns import IntArray, ends_of
from iotrace.traces.trace import Trace


def tensor_at(trace: Trace, path: str, offset: int) -> str | None:
    """Return the name of the first tensor of `path` that holds byte `offset`, or follows it."""
    tensors, begin, end = _in_file(trace, path)
    reaching = np.flatnonzero((begin >= 0) & (end > offset))
    return (
        tensors.text_at("name", int(reaching[begin[reaching].argmin()])) if len(reaching) else None
    )


def tensors_within(trace: Trace, path: str, offset: int, length: int) -> tuple[str | None, int]:
    """Return which tensor of `path` has most bytes among some of the file, and how many others."""
    if min(offset, length) < 0:
        return None, 0
    tensors, begin, end = _in_file(trace, path)
    stop = min(offset + length, np.iinfo(np.int64).max)
    within = np.minimum(end, stop) - np.maximum(begin, offset)
    rows = np.flatnonzero((begin >= 0) & (within > 0))
    codes = tensors.text_codes("name")
    held = np.bincount(codes[rows] + 1, weights=within[rows])[1:]
    if not held.any():
        return None, 0
    return tensors.text("name", int(held.argmax())), int(np.count_nonzero(held)) - 1


def last_tensor_before(trace: Trace, path: str, offset: int) -> str | None:
    """Return the name of the last tensor of `path` that ends at byte `offset` or before."""
    tensors, begin, end = _in_file(trace, path)
    before = np.flatnonzero((begin >= 0) & (end <= offset))
    return tensors.text_at("name", int(before[end[before].argmax()])) if len(before) else None


def _in_file(trace: Trace, path: str) -> tuple[Trace, IntArray, IntArray]:
    """Return the tensors of a file with their first byte and the one after their last."""
    tensors = trace.layer("tensor")
    codes, paths = tensors.codes("path")
    wanted = paths.index(path) if path in paths else len(paths)
    tensors = tensors.where(codes == wanted)
    begin = tensors.ints("offset")
    return tensors, begin, ends_of(begin, tensors.ints("length", null=0))
