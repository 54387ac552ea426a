"""A check finds every kind of contradiction, and none in a good trace."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from iotrace.traces.check import check_trace
from iotrace.traces.metadata import Completeness, FileCompleteness, Host, Metadata, Mount, Process
from iotrace.traces.trace import Ints, Shapes, Strings
from tests.traces.conftest import small_trace

METADATA = Metadata(hosts=(Host("n1"),), mounts=(Mount("/d"),), processes=(Process(1),))
TOP = (1 << 63) - 1


def good_columns() -> dict[str, Any]:
    return {
        "api": Strings.constant("posix", 2),
        "offset_source": Strings.constant("tracked", 2),
        "path": Strings.constant("/d/x", 2),
        "file": np.array([1, 1]),
        "offset": np.array([0, 4096]),
        "length": np.array([4096, 100]),
        "result": np.array([4096, -28]),
        "end_ns": Ints(np.array([5, 0]), np.array([True, False])),
    }


def test_a_good_trace_has_no_problems() -> None:
    assert check_trace(small_trace(2, METADATA, **good_columns())) == []


def test_a_tensor_pickled_to_memory_has_no_place() -> None:
    """torch.save to a BytesIO writes tensors to no file; that is no contradiction."""
    columns = {
        **good_columns(),
        "layer": Strings.of(["request", "tensor"]),
        "op": Strings.of(["write", "save"]),
        "path": Strings.of(["/d/x", None]),
        "offset": Ints(np.array([0, 0]), np.array([True, False])),
    }
    assert not any("tensor" in found for found in check_trace(small_trace(2, METADATA, **columns)))


@pytest.mark.parametrize("api", ["io_uring", "libaio"])
def test_appends_at_once_have_no_place(api: str) -> None:
    """Nobody is told which of several in flight came first at the end of a file."""
    columns = {
        **good_columns(),
        "api": Strings.constant(api, 2),
        "offset": Ints(np.array([0, 0]), np.array([True, False])),
        "offset_source": Strings.of(["queried", None]),
    }
    assert check_trace(small_trace(2, METADATA, **columns)) == []


def test_a_good_tensor_row_has_no_problems() -> None:
    tensor = {
        "layer": Strings.constant("tensor", 2),
        "op": Strings.constant("save", 2),
        "shape": Shapes.of([(2, 3), (0,)]),
        "length": np.array([24, 0]),
        "result": Ints(np.zeros(2, np.int64), np.zeros(2, np.bool_)),
    }
    assert check_trace(small_trace(2, METADATA, **good_columns() | tensor)) == []


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        ({"layer": Strings.of(["request", "wish"])}, "1 row: unknown layer 'wish'"),
        ({"op": Strings.of(["write", "save"])}, "unknown op in layer request 'save'"),
        ({"api": Strings.constant("telnet", 2)}, "2 rows: unknown api 'telnet'"),
        ({"offset_source": Strings.constant("guess", 2)}, "unknown offset_source 'guess'"),
        ({"process": np.array([0, 1])}, "row 1): the process is not in the metadata"),
        ({"process": np.array([-1, 0])}, "row 0): the process is not in the metadata"),
        ({"rank": np.array([-2, 0])}, "the rank is below -1"),
        ({"thread": np.array([-1, 0])}, "the thread is negative"),
        ({"seq": np.array([-1, 0])}, "(seq) is negative"),
        ({"seq": np.array([4, 4])}, "row 1): the order of issue (seq) repeats"),
        ({"start_ns": np.array([-5, 0])}, "before the trace's epoch"),
        ({"end_ns": np.array([5, 9])}, "row 1): ends before it starts"),
        ({"offset": np.array([-1, 0])}, "the offset is negative"),
        ({"length": np.array([-1, 0])}, "the length is negative"),
        ({"offset": np.array([TOP, 0])}, "past 2^63"),
        ({"offset": np.array([2**60 + 1, 0])}, "which no file holds"),
        ({name: np.array([TOP, 0]) for name in ("length", "result")}, "which no file holds"),
        ({"result": np.array([4097, 0])}, "moved more bytes than asked"),
        ({"result": np.array([-4096, 0])}, "no error number"),
        ({"file": Ints(np.array([1, 1]), np.array([True, False]))}, "without its file"),
        ({"offset": Ints(np.array([1, 1]), np.array([True, False]))}, "without its offset"),
        ({"length": Ints(np.array([1, 1]), np.array([True, False]))}, "without its length"),
        ({"path": Strings.of(["/d/x", "d/x"])}, "row 1): a path is not absolute"),
        ({"target": Strings.of([None, "/d/\0"])}, "row 1): a path is not absolute, has a NUL,"),
        ({"path": Strings.of(["/d/a", "/d/\ud800"])}, "row 1): a path is not absolute, has a NUL,"),
        (
            {
                "layer": Strings.of(["request", "tensor"]),
                "op": Strings.of(["write", "load"]),
                "offset": Ints(np.array([0, 0]), np.array([True, False])),
            },
            "row 1): a tensor without its place",
        ),
    ],
)
def test_each_contradiction_is_found(columns: dict[str, Any], problem: str) -> None:
    """What a check misses, a replay meets."""
    problems = check_trace(small_trace(2, METADATA, **good_columns() | columns))
    assert any(problem in found for found in problems)


@pytest.mark.parametrize(
    ("metadata", "problem"),
    [
        (replace(METADATA, processes=(Process(1, host=3),)), "process 0 is on host 3"),
        (replace(METADATA, mounts=(Mount("/d", host=-1),)), "mount 0 is on host -1"),
        (
            replace(
                METADATA,
                completeness=Completeness(files=(FileCompleteness("/d", 9, 1, 1, 1, True),)),
            ),
            "completeness of process 9",
        ),
    ],
)
def test_metadata_that_point_nowhere_are_found(metadata: Metadata, problem: str) -> None:
    found = check_trace(small_trace(2, metadata, **good_columns()))
    assert [problem in one for one in found] == [True]


def test_an_empty_trace_has_no_problems() -> None:
    assert check_trace(small_trace(0)) == []
