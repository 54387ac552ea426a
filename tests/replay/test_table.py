"""Records by columns: narrow where they lie, wide where they are looked at."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iotrace.replay.job import REQUEST, Op
from iotrace.replay.pieces import Pieces
from iotrace.replay.requests import Requests
from iotrace.replay.sketch import sketch

VALUES = st.lists(st.integers(-(2**62), 2**62), min_size=1, max_size=6)


@given(VALUES, VALUES)
def test_values_come_back_as_they_were_whatever_their_size(low: list[int], high: list[int]) -> None:
    """A column is as wide as its values ask for, and parts of other widths are joined to it."""
    parts = [Pieces.of(len(values), offset=values) for values in (low, high)]
    for part, values in zip(parts, (low, high), strict=True):
        assert part["offset"].dtype == np.int64
        assert part["offset"].tolist() == values
        assert part.lowered()["offset"].tolist() == values
    assert Pieces.joined(*parts)["offset"].tolist() == low + high


@pytest.mark.parametrize("edge", [2**7, 2**8, 2**15, 2**16, 2**31, 2**32])
def test_the_edges_of_types_are_kept(edge: int) -> None:
    """The last value that fits, and the first that does not, on both sides of 0."""
    values = [edge - 1, edge, -edge, -edge - 1]
    ends = Pieces.joined(Pieces.of(1, offset=[2**60 + edge]), Pieces.of(1, offset=[-edge]))
    assert ends["offset"].tolist() == [2**60 + edge, -edge]
    for some in (values, values[:2], values[1:3], [values[0], -1]):
        assert Pieces.of(len(some), offset=some)["offset"].tolist() == some


def test_arithmetic_on_narrow_columns_does_not_overflow() -> None:
    """Stored in 16 bits each, their sum needs 17."""
    requests = Requests.of(2, offset=[60_000, 1], length=[60_000, 2])
    assert requests.stored["offset"].dtype == np.uint16
    assert (requests["offset"] + requests["length"]).tolist() == [120_000, 3]


def test_a_column_cannot_be_changed_in_place() -> None:
    """Neither one that is as it is stored, nor one that was widened, where it would be lost."""
    requests = Requests.of(3, op=[1, 2, 3], offset=[0, 4096, 8192])
    for name in ("op", "offset", "handle"):
        with pytest.raises(ValueError, match="read-only"):
            requests[name][0] = 7
    changed = requests.having_at(np.array([True, False, True]), handle=[4, 70_000])
    assert changed["handle"].tolist() == [4, -1, 70_000]
    assert requests["handle"].tolist() == [-1, -1, -1]


def test_records_are_lowered_to_the_struct_with_nothing_left_over() -> None:
    """All fields of the C struct, those that a schedule adds empty."""
    plan = sketch("open a w+create\nwrite a 0 10\nwrite a 10 5\nclose a")
    rows = plan.requests.lowered()
    assert rows.dtype == REQUEST
    for name in Requests.DEFAULTS:
        assert rows[name].tolist() == plan.requests[name].tolist()
    assert not rows["fence"].any()
    assert rows["op"].tolist() == [Op.OPEN, Op.WRITE, Op.WRITE, Op.CLOSE]


def test_columns_of_another_length_are_refused() -> None:
    """A column that does not belong to the records would shift all that is read from it."""
    with pytest.raises(ValueError, match="2 of offset for 3 records"):
        Pieces.of(3, offset=[1, 2])


def test_a_run_of_records_is_taken_without_a_copy() -> None:
    """Pieces mostly lie in the order of their requests."""
    pieces = Pieces.of(5, offset=[10, 20, 30, 40, 50])
    taken = pieces.take(np.array([1, 2, 3]))
    assert np.shares_memory(taken.stored["offset"], pieces.stored["offset"])
    assert taken["offset"].tolist() == [20, 30, 40]
    for index in ([3, 2, 1], [1, 1, 3], [1, 3, 3], [-3, -2, -1], []):
        expected = np.array([10, 20, 30, 40, 50])[np.array(index, np.int64)].tolist()
        assert pieces.take(np.array(index, np.int64))["offset"].tolist() == expected
