"""A trace as a value: built from numpy columns, read as numpy columns."""

from typing import Any

import numpy as np
import pytest

from iotrace.traces.schema import COLUMNS
from iotrace.traces.trace import Ints, Shapes, Strings, Trace
from tests.traces.conftest import ODD_PATH, rich_columns, rich_metadata, small_trace


def test_columns_not_given_are_null_and_the_others_have_defaults() -> None:
    trace = small_trace(3)
    assert trace.columns == COLUMNS
    assert trace.strings("path") == [None] * 3
    assert not trace.valid("offset").any()
    assert trace.ints("rank").tolist() == [-1] * 3
    assert trace.ints("process").tolist() == [0] * 3
    assert trace.ints("seq").tolist() == [0, 1, 2]


def test_rows_are_sorted_by_start_and_equal_starts_keep_their_order() -> None:
    trace = small_trace(5, start_ns=np.array([9, 3, 9, 1, 3]))
    assert trace.ints("start_ns").tolist() == [1, 3, 3, 9, 9]
    assert trace.ints("seq").tolist() == [3, 1, 4, 0, 2]


def test_nulls_read_as_what_the_caller_asks() -> None:
    trace = small_trace(2, offset=Ints(np.array([5, 7]), np.array([True, False])))
    assert trace.ints("offset").tolist() == [5, -1]
    assert trace.ints("offset", null=0).tolist() == [5, 0]
    assert trace.valid("offset").tolist() == [True, False]


def test_addresses_above_half_of_the_range_are_exact() -> None:
    """Kernel-half and tagged addresses do not fit int64; a float would lose their low bits."""
    high = np.array([(1 << 63) + 1, (1 << 64) - 3], np.uint64)
    address = small_trace(2, address=high).ints("address")
    assert address.dtype == np.uint64
    assert address.tolist() == high.tolist()
    assert small_trace(1).ints("address").tolist() == [(1 << 64) - 1]


def test_text_reads_as_codes_and_as_strings() -> None:
    trace = small_trace(4, path=Strings.of(["/b", None, "/a", "/b"]))
    codes, values = trace.codes("path")
    assert codes.dtype == np.int32
    assert [None if code < 0 else values[code] for code in codes] == ["/b", None, "/a", "/b"]
    assert trace.strings("path") == ["/b", None, "/a", "/b"]


def test_a_text_listed_twice_has_one_code() -> None:
    """Consumers compare codes; two codes for one path would be two files."""
    codes, values = small_trace(
        3, path=Strings(np.array([0, 1, 2], np.int32), ["/a", "/b", "/a"])
    ).codes("path")
    assert codes[0] == codes[2] != codes[1]
    assert len(set(values)) == len(values)


def test_undecodable_paths_read_as_they_were_given() -> None:
    trace = small_trace(1, path=Strings.of([ODD_PATH]), name=Strings.of([ODD_PATH]))
    assert trace.strings("path") == trace.strings("name") == [ODD_PATH]


def test_shapes_tell_a_scalar_from_nothing() -> None:
    shapes = [(2, 3), None, ()]
    assert small_trace(3, shape=Shapes.of(shapes)).shapes() == shapes


def test_rows_are_chosen_by_mask_layer_and_op() -> None:
    trace = Trace.from_columns(rich_columns(), rich_metadata())
    assert trace.row_mask().tolist() == [True] * 3
    assert trace.row_mask(op="save").tolist() == [False, True, True]
    assert trace.row_mask(layer=("tensor", "replay"), op="save").tolist() == [False, True, False]
    assert trace.layer("request", "span").ints("seq").tolist() == [0, 2]
    assert len(trace.where(np.zeros(3, np.bool_))) == 0
    assert trace.layer("tensor").metadata is trace.metadata


def test_an_empty_trace_answers_every_question() -> None:
    """A job that writes nothing gives a trace too."""
    trace = small_trace(0)
    assert len(trace) == 0
    assert trace.strings("path") == []
    assert trace.ints("offset").tolist() == []
    assert trace.shapes() == []
    assert trace.row_mask(layer="request", op="read").tolist() == []


def test_replaced_columns_leave_the_others_alone() -> None:
    trace = Trace.from_columns(rich_columns(), rich_metadata())
    other = trace.with_columns({"path": Strings.constant("/x", 3)})
    assert other.strings("path") == ["/x"] * 3
    assert other.table.drop_columns("path").equals(trace.table.drop_columns("path"))


def test_arrays_of_a_trace_cannot_be_written_to() -> None:
    with pytest.raises(ValueError, match="read-only"):
        small_trace(1).ints("start_ns")[0] = 5


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"colour": np.arange(2)}, "colour"),
        ({"offset": np.arange(3)}, "'offset' has 3 rows"),
        ({"layer": Strings.of(["request", None])}, "'layer' has nulls"),
        ({"rank": np.array([1 << 40, 0])}, "not in range"),
        ({"address": np.array([-1, 0])}, "not in range"),
        ({"path": Strings(np.array([0, 1], np.int32), ["/a"])}, "code 1 is past"),
        ({"shape": Shapes(np.array([0, 1], np.int32), [(1,)])}, "code 1 is past"),
    ],
)
def test_columns_that_do_not_fit_are_refused(columns: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        small_trace(2, **columns)


def test_a_missing_required_column_is_named() -> None:
    with pytest.raises(ValueError, match="start_ns"):
        Trace.from_columns({"layer": Strings.of(["request"])}, rich_metadata())


def test_numbers_for_text_and_text_for_numbers_are_refused() -> None:
    with pytest.raises(TypeError):
        small_trace(1, path=np.array([1]))
    with pytest.raises((TypeError, ValueError)):
        small_trace(1, offset=Strings.of(["a"]))


def test_elements_of_shapes_are_counted_without_an_object_per_row() -> None:
    """A scalar has one; what no memory holds is cut; the rows of a part are its own."""
    shapes = [(2, 3), None, (), (0, 5), (1 << 40, 1 << 40), (7,)]
    trace = small_trace(len(shapes), shape=Shapes.of(shapes))
    assert trace.element_counts().tolist() == [6, -1, 1, 0, 1 << 58, 7]
    kept = trace.where(np.array([False, True, True, False, False, True]))
    assert kept.element_counts().tolist() == [-1, 1, 7]
