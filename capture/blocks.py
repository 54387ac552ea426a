"""Rows as numpy columns: a value that all who make rows of a trace add to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from iotrace.capture.clock import Clock
from iotrace.capture.files import FileTable
from iotrace.capture.names import UNKNOWN
from iotrace.capture.spans import Labelling
from iotrace.traces.vocabulary import Vocabulary

Block = dict[str, npt.NDArray[Any]]

# What stands for null until the columns are handed over.
NULLS: Mapping[str, int] = {
    **dict.fromkeys(("end_ns", "offset", "length", "result", "tensor_offset"), -(2**63)),
    **dict.fromkeys(("file", "flags", "step"), -(2**31)),
    "address": 0,
    "on_writable": 0,
    "open": 0,
}
DTYPES: Mapping[str, Any] = {
    **dict.fromkeys(("seq", "start_ns", "end_ns", "offset", "length", "result"), np.int64),
    "tensor_offset": np.int64,
    "address": np.uint64,
    **dict.fromkeys(("rank", "process", "thread", "file", "flags", "step"), np.int32),
    "on_writable": np.bool_,
    "open": np.int32,
}
# Columns of blocks that are none of the trace. `open`: number of the open file in its process.
PRIVATE_COLUMNS = ("on_writable", "open")


@dataclass(frozen=True)
class Words:
    """The values that the coded columns of all blocks index."""

    layer: Vocabulary[str] = field(default_factory=Vocabulary)
    op: Vocabulary[str] = field(default_factory=Vocabulary)
    api: Vocabulary[str] = field(default_factory=Vocabulary)
    offset_source: Vocabulary[str] = field(default_factory=Vocabulary)
    engine: Vocabulary[str] = field(default_factory=Vocabulary)
    name: Vocabulary[str] = field(default_factory=Vocabulary)
    dtype: Vocabulary[str] = field(default_factory=Vocabulary)
    device: Vocabulary[str] = field(default_factory=Vocabulary)
    shape: Vocabulary[tuple[int, ...]] = field(default_factory=Vocabulary)


CODED_COLUMNS = (
    "layer",
    "op",
    "api",
    "offset_source",
    "engine",
    "name",
    "dtype",
    "device",
    "shape",
)


@dataclass(frozen=True)
class Context:
    """What the rows of all processes share."""

    clock: Clock
    files: FileTable
    labelling: Labelling
    words: Words


def empty_block() -> Block:
    """Return no rows, in the columns that every block has."""
    coded = ("layer", "op", "api", "path", "name")
    return {name: np.empty(0, DTYPES.get(name, np.int32)) for name in (*coded, *DTYPES)}


def joined(blocks: Sequence[Block]) -> Block:
    """Return the rows of several blocks as one, null in the columns that a block lacks.

    Takes the columns out of `blocks` on the way: a trace may not fit into memory twice.
    """
    names = dict.fromkeys(name for block in blocks for name in block)
    counts = [len(block["start_ns"]) for block in blocks]
    return {
        name: np.concatenate(
            [taken(block, name, rows) for block, rows in zip(blocks, counts, strict=True)]
        )
        for name in names
    }


def taken(block: Block, name: str, rows: int) -> npt.NDArray[Any]:
    """Take a column out of a block, all null if it has none."""
    if name in block:
        return block.pop(name)
    return np.full(rows, NULLS.get(name, UNKNOWN), DTYPES.get(name, np.int32))


def numbered(threads: Mapping[int, int], tids: npt.NDArray[np.uint32]) -> npt.NDArray[np.int32]:
    """Translate kernel thread ids."""
    known = np.array(sorted(threads), np.uint32)
    numbers = np.array([threads[tid] for tid in known.tolist()], np.int32)
    return numbers[np.searchsorted(known, tids)]


def or_null(name: str, values: Sequence[int | None]) -> npt.NDArray[Any]:
    """Return an integer column with what stands for null in it."""
    null = NULLS[name]
    return np.array([null if value is None else value for value in values], DTYPES[name])
