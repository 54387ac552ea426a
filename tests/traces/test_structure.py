"""What the requests of a trace are made of, and whether two traces do the same."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from iotrace.traces.reader import read_trace
from iotrace.traces.structure import compare_order, structure_of
from iotrace.traces.trace import Ints, Strings, Trace
from tests.traces.conftest import small_trace

CORPUS = Path(__file__).parents[2] / "traces" / "corpus"


def job(offsets: tuple[int, ...] = (0, 100, 50), process: int = 0) -> Trace:
    """An open with O_DIRECT, writes of 100 bytes, a failed sync, a close."""
    n = len(offsets) + 3
    data = np.arange(n)
    is_write = (data > 0) & (data <= len(offsets))
    return small_trace(
        n,
        layer=Strings.constant("request", n),
        op=Strings.of(["open", *["write"] * len(offsets), "sync", "close"]),
        api=Strings.constant("posix", n),
        process=np.full(n, process),
        path=Strings.constant("/d/a", n),
        file=np.zeros(n, np.int64),
        flags=Ints(np.full(n, os.O_DIRECT | os.O_CREAT | os.O_WRONLY), data == 0),
        offset=Ints(np.array([0, *offsets, 0, 0]), is_write),
        length=Ints(np.full(n, 100), is_write),
        result=np.where(is_write, 100, np.where(data == n - 2, -5, 0)),
    )


def test_ops_modes_sizes_and_order_are_counted() -> None:
    found = structure_of(job())
    assert found.ops == {"write": 3, "close": 1, "open": 1, "sync": 1}
    assert found.apis == {"posix": 6}
    assert found.modes == {"direct": 1, "synchronous": 0, "append": 0, "create": 1, "truncate": 0}
    assert found.median_bytes == {"read": 0.0, "write": 100.0}
    assert found.sequential_share == {"read": None, "write": 0.5}
    assert found.direct_share == {"read": 0.0, "write": 1.0}


def test_the_first_request_that_differs_is_named() -> None:
    """`the replay is exact` is checked, not claimed; times and failures do not count."""
    assert compare_order(job(), job(process=7)).first_difference is None
    other = compare_order(job(), job((0, 100, 60)))
    assert other.first_difference == (0, 3, "write 100 at 50, /d/a", "write 100 at 60, /d/a")
    shorter = compare_order(job(), job((0, 100)))
    assert shorter.equal_streams == 0
    assert shorter.first_difference == (0, 3, "write 100 at 50, /d/a", "close, /d/a")


@pytest.mark.parametrize("path", sorted(CORPUS.glob("*.parquet")), ids=lambda path: path.stem)
def test_a_trace_equals_itself(path: Path) -> None:
    trace = read_trace(path)
    order = compare_order(trace, trace.with_metadata(replace(trace.metadata, command=())))
    assert order.streams[0] == order.streams[1] == order.equal_streams > 0
    shares = structure_of(trace)
    assert sum(shares.ops.values()) == len(trace.layer("request"))
