"""What a result says of its replay is read with care: it may come from a stranger."""

import pytest

from iotrace.tools.replayed import Replayed
from iotrace.traces.metadata import Metadata


def replayed(**figures: object) -> Replayed | None:
    told = {"executor": "posix", "transforms": ["coalesce"], "replayed": figures}
    return Replayed.of(Metadata(extra={"replay": told}))


def test_runs_that_failed_are_left_out() -> None:
    found = replayed(write_seconds=[1.0, None, 3], padding_bytes=5)
    assert found is not None
    assert (found.seconds, found.padding_bytes) == ({"write_seconds": (1.0, 3.0)}, 5)
    assert ("write, completed", "2 s (range of runs 1 - 3 s)") in found.facts()


@pytest.mark.parametrize(
    "wild",
    [None, {}, "1", [], [None], ["1"], [-1.0], [float("nan")], [float("inf")], [10**400],
     [[1.0]], [1.0] * 1_000_000],
    ids=lambda value: str(value)[:12],
)  # fmt: skip
def test_numbers_that_are_none_are_not_shown(wild: object) -> None:
    found = replayed(write_seconds=wild, padding_bytes=wild[0] if wild == [10**400] else wild)
    assert found is not None
    assert (found.seconds, found.padding_bytes) == ({}, 0)
    assert list(found.facts()) == [("replayed", "coalesce; by posix")]


@pytest.mark.parametrize("told", [None, [], "posix", 3])
def test_a_trace_is_no_result(told: object) -> None:
    assert Replayed.of(Metadata(extra={"replay": told})) is None


def test_a_replay_of_which_nothing_is_told_is_one() -> None:
    found = Replayed.of(Metadata(extra={"replay": {"replayed": 3, "transforms": 3, "errors": {}}}))
    assert found is not None
    assert (found.runs, found.problems, found.transforms) == (1, (), ())
