"""What is said of a few measurements, and of enough."""

from dataclasses import replace

import pytest

from iotrace.replay.factors import BASE
from iotrace.replay.statistics import Estimate, estimate
from iotrace.replay.sweep_result import SweepResult, SweepRun


@pytest.mark.parametrize("runs", [1, 2, 3, 4, 5])
def test_few_runs_have_a_range(runs: int) -> None:
    """All that is known of them is the least and the most."""
    values = [float(2**i) for i in range(runs)]
    middle = (values[(runs - 1) // 2] + values[runs // 2]) / 2
    assert estimate(values) == Estimate(middle, 1.0, 2.0 ** (runs - 1), "range")


def test_many_runs_have_an_interval_of_the_median() -> None:
    """An outlier does not stretch it."""
    assert estimate([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).kind == "interval"
    found = estimate([*map(float, range(100)), 1e9])
    assert found.kind == "interval"
    assert 30 < found.low < found.median == 50 < found.high < 70


@pytest.mark.parametrize(("runs", "kind"), [(3, "range"), (6, "interval")])
def test_ratios_of_the_same_runs_are_not_more_runs(runs: int, kind: str) -> None:
    """Three runs against three give nine ratios, of three runs."""
    direct = replace(BASE, direct=True)
    times = [
        SweepRun("write", setting, seconds * (1 + i / 10), 1.0, 1.0)
        for setting, seconds in ((BASE, 4.0), (direct, 2.0))
        for i in range(runs)
    ]
    result = SweepResult("a", "b", "c", "ext4", {"write": 1}, {"write": 2}, 1.0, runs=tuple(times))
    effect = result.effects("write")["direct", True]
    assert (effect.kind, effect.pairs) == (kind, 1)
    assert effect.ratio == pytest.approx(2.0, rel=0.05)
    if kind == "range":
        assert (effect.low, effect.high) == (pytest.approx(2 / 1.2), pytest.approx(2 * 1.2))
