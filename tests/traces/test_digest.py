"""The digest of the work: blind to names and times, and to nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from iotrace.traces.digest import workload_digest
from iotrace.traces.metadata import Metadata, Process
from iotrace.traces.trace import Ints, Shapes, Strings, Trace
from tests.traces.conftest import small_trace

ROWS = 6


def work(**changes: Any) -> Trace:
    """Two files written and one tensor saved, with something changed."""
    columns = {
        "op": Strings.of(["open", "write", "write", "open", "write", "save"]),
        "layer": Strings.of(["request"] * 5 + ["tensor"]),
        "path": Strings.of(["/a/x", "/a/x", "/a/x", "/a/y", "/a/y", "/a/x"]),
        "file": Ints(np.array([0, 0, 0, 1, 1, 0]), np.array([True] * 5 + [False])),
        "offset": np.array([0, 0, 10, 0, 0, 0]),
        "length": np.array([0, 10, 20, 0, 5, 10]),
        "result": np.array([3, 10, 20, 4, 5, 0]),
        "thread": np.array([0, 0, 0, 1, 1, 0]),
        "flags": np.array([65, 0, 0, 65, 0, 0]),
        "step": np.zeros(ROWS, np.int64),
        "name": Strings.of([None] * 5 + ["w"]),
        "dtype": Strings.of([None] * 5 + ["float32"]),
        "shape": Shapes.of([None] * 5 + [(10,)]),
    }
    return small_trace(ROWS, Metadata(processes=(Process(1),)), **{**columns, **changes})


@pytest.mark.parametrize(
    "changes",
    [
        {"path": Strings.of([f"/p/q/{n}" for n in ("one", "one", "one", "two", "two", "one")])},
        {"start_ns": np.arange(ROWS) * 77 + 10**18},
        {"end_ns": np.arange(ROWS) * 10 + 3},
        {"address": np.arange(ROWS).astype(np.uint64)},
        {"thread": np.array([7, 7, 7, 3, 3, 7])},
        {"file": Ints(np.array([5, 5, 5, 2, 2, 0]), np.array([True] * 5 + [False]))},
        {"name": Strings.of([None] * 5 + ["another"])},
        {"process": np.full(ROWS, 0)},
    ],
)
def test_names_times_and_numbering_do_not_count(changes: dict[str, Any]) -> None:
    """Two sites see the same work under other names."""
    assert workload_digest(work(**changes)) == workload_digest(work())


@pytest.mark.parametrize(
    "changes",
    [
        {"op": Strings.of(["open", "write", "read", "open", "write", "save"])},
        {"path": Strings.of(["/a/x", "/a/x", "/a/x", "/a/x", "/a/y", "/a/x"])},
        {"path": Strings.of([f"/a/{n}" for n in ("b/x", "b/x", "b/x", "y", "y", "b/x")])},
        {"offset": np.array([0, 0, 11, 0, 0, 0])},
        {"length": np.array([0, 10, 21, 0, 5, 10])},
        {"result": np.array([3, 10, -28, 4, 5, 0])},
        {"thread": np.array([0, 0, 1, 1, 1, 0])},
        {"file": np.array([0, 0, 1, 1, 1, 0])},
        {"flags": np.array([0x4041, 0, 0, 65, 0, 0])},
        {"step": np.array([0, 0, 1, 0, 0, 0])},
        {"rank": np.array([0, 0, 0, 1, 1, 0])},
        {"api": Strings.constant("io_uring", ROWS)},
        {"engine": Strings.constant("dcp", ROWS)},
        {"dtype": Strings.of([None] * 5 + ["bfloat16"])},
        {"shape": Shapes.of([None] * 5 + [(5, 2)])},
        {"tensor_offset": np.array([0, 0, 0, 0, 0, 8])},
        {"start_ns": np.array([0, 20, 10, 30, 40, 50])},
        {"name": Strings.constant("w", ROWS)},
    ],
)
def test_everything_else_counts(changes: dict[str, Any]) -> None:
    """Two traces with one digest are replayed alike."""
    assert workload_digest(work(**changes)) != workload_digest(work())


def test_the_digest_is_stable() -> None:
    """It is printed on cards: another value for the same work needs another prefix."""
    assert workload_digest(work()) == (
        "w1:b2a0c0523163997c8c50b51ae46e88456cd521daab1040dca934047819414d52"
    )
