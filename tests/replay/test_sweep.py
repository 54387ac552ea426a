"""Sweeps: the settings to try, what follows from times, and a real race."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from iotrace.replay.build import plan_from_trace
from iotrace.replay.factors import (
    BASE,
    FACTORS,
    Setting,
    default_levels,
    factorial,
    predict,
    screening,
)
from iotrace.replay.plan import Plan
from iotrace.replay.sketch import sketch
from iotrace.replay.sweep import Sweep, distinct
from iotrace.replay.sweep_result import SweepResult, SweepRun, alone
from iotrace.replay.transforms.coalesce import Coalesce
from iotrace.replay.transforms.select import Select
from iotrace.traces.errors import TraceFormatError
from iotrace.traces.reader import read_trace

CORPUS = Path(__file__).parents[2] / "traces" / "corpus"
SETTINGS = factorial(default_levels())


def result(*runs: tuple[str, Setting, float], **given: object) -> SweepResult:
    """Return a sweep with runs of known times."""
    filled = [SweepRun(op, setting, seconds, seconds, seconds) for op, setting, seconds in runs]
    empty = SweepResult("t", "d", "/", "ext4", {"write": 1}, {"write": len(SETTINGS)}, 60.0)
    return replace(empty, runs=tuple(filled), **given)


def true_seconds(setting: Setting) -> float:
    """A storage where direct I/O halves the time, and joining pays only with it."""
    seconds = 8.0 / (2 if setting.direct else 1) / (1 + np.log2(setting.queue_depth) / 4)
    joined = setting.coalesce_bytes and setting.direct
    return float(seconds / (1.5 if joined else 1) * (1.02 if setting.executor == "posix" else 1))


def test_the_factorial_has_every_combination_once() -> None:
    """4 sizes x 2 x 2 x 2 x 3 depths."""
    assert len(set(SETTINGS)) == len(SETTINGS) == 96
    assert BASE in SETTINGS


def test_screening_tries_every_change_alone_and_every_level_often() -> None:
    """Effects can then be told apart with a quarter of the settings."""
    chosen = screening(SETTINGS, 24)
    assert chosen[0] == BASE or BASE in chosen
    singles = [s for s in SETTINGS if sum(getattr(s, n) != getattr(BASE, n) for n in FACTORS) == 1]
    assert set(singles) <= set(chosen)
    assert 24 <= len(chosen) <= 28
    for name, levels in default_levels().items():
        for level in levels:
            assert sum(getattr(s, name) == level for s in chosen) >= 3, (name, level)


@pytest.mark.parametrize("seed", range(3))
def test_what_was_not_tried_is_predicted_within_the_noise(seed: int) -> None:
    """The model of a third of the settings finds one of the best of all."""
    random = np.random.default_rng(seed)
    tried = screening(SETTINGS, 32)
    noisy = {s: true_seconds(s) * random.lognormal(0, 0.03) for s in tried}
    guessed = predict(noisy, SETTINGS)
    favourite = min(guessed, key=lambda s: guessed[s])
    assert true_seconds(favourite) < 1.06 * min(map(true_seconds, SETTINGS))


def test_effects_are_told_alone_and_under_direct() -> None:
    """What coalescing is worth by itself, and together with direct I/O."""
    found = result(*(("write", s, true_seconds(s)) for s in SETTINGS))
    size = 8 << 20
    assert found.effects("write", alone())["coalesce_bytes", size].ratio == pytest.approx(1.0)
    under = found.effects("write", {"direct": True})["coalesce_bytes", size]
    assert under.ratio == pytest.approx(1.5)
    assert under.pairs == 12
    assert found.effects("write", alone())["direct", True].ratio == pytest.approx(2.0)
    assert [key[1] for key in found.effects("write") if key[0] == "queue_depth"] == [8, 32]


def test_the_best_is_one_that_was_repeated() -> None:
    """A lucky single run does not win over the survivors."""
    good, lucky = Setting(direct=True), Setting(queue_depth=8)
    found = result(*[("write", good, 1.0)] * 4, ("write", lucky, 0.5))
    assert found.best("write") == good


def test_the_pareto_set_leaves_out_what_is_worse_at_both() -> None:
    """Save and restore may want different things."""
    a, b, c = Setting(), Setting(direct=True), Setting(align=True)
    times = {a: (1.0, 3.0), b: (2.0, 1.0), c: (2.5, 1.5)}
    runs = [(op, s, t[i]) for s, t in times.items() for i, op in enumerate(("write", "read"))]
    assert result(*runs).pareto() == [a, b]


def test_a_sweep_is_stored_and_read_back() -> None:
    """What a resumed sweep starts from."""
    found = result(("write", Setting(direct=True), 1.5), finished=True)
    tree = json.loads(json.dumps(found.to_json()))
    assert SweepResult.from_json(tree) == found
    with pytest.raises(TraceFormatError, match="sweep"):
        SweepResult.from_json({**tree, "format": "other"})


@pytest.mark.parametrize("lacking", ["bytes", "settings"])
@pytest.mark.parametrize("ops", [{}, {"write": 1, "weite": 1}])
def test_a_file_whose_parts_are_of_other_ops_is_refused(lacking: str, ops: dict[str, int]) -> None:
    """It would be drawn and printed by op."""
    run = SweepRun("write", Setting(), 0.5, 0.4, 1.0)
    of = {"write": 4096}
    found = SweepResult("t", "d", "/r", "ext4", of, of, 60.0, runs=(run,))
    tree = json.loads(json.dumps(found.to_json()))
    assert SweepResult.from_json(tree) == found
    with pytest.raises(TraceFormatError, match="are of other ops"):
        SweepResult.from_json({**tree, lacking: ops})


@pytest.fixture(scope="module")
def recorded() -> Plan:
    """The plan of the smallest recording with many requests."""
    return plan_from_trace(read_trace(CORPUS / "torch-save.parquet"))


def test_settings_that_do_the_same_are_tried_once(recorded: Plan) -> None:
    """Joining up to 8 or to 64 MiB is the same where the file is smaller."""

    def build(op: str, setting: Setting) -> Plan:
        chosen = Select(ops=(op,))(recorded)
        return Coalesce(setting.coalesce_bytes)(chosen) if setting.coalesce_bytes else chosen

    levels = {"coalesce_bytes": (0, 1 << 20, 32 << 20, 64 << 20)}
    task, dropped = distinct("write", factorial(levels), build)
    assert [s.coalesce_bytes for s in task.settings] == [0, 1 << 20, 32 << 20]
    assert dropped == ()


def test_a_race_ends_in_time_and_repeats_the_favourites(tmp_path: Path) -> None:
    """A real sweep of a few settings; every run is handed on as it ends."""
    small = sketch("open a w+create\nwrite a 0 4096\nclose a\nopen a r\nread a 0 4096\nclose a")
    kept: list[SweepResult] = []
    levels = {"executor": ("io_uring", "posix")}
    build = {op: Select(ops=(op,))(small) for op in ("write", "read")}
    empty = replace(result(), budget_seconds=4.0)
    runner = Sweep(empty, lambda op, s: build[op], tmp_path, kept.append, lambda *_: None)
    tasks = [
        distinct(op, factorial(levels), lambda op, s: build[op])[0] for op in ("write", "read")
    ]
    found = runner.run(tasks)
    assert found.finished
    # One run was under way at the end of the time, and each op is run once whatever it takes.
    assert sum(one.spent_seconds > 4.0 and not one.finished for one in kept) <= 3
    for op in ("write", "read"):
        times = found.times(op)
        assert BASE in times
        assert all(value > 0 for values in times.values() for value in values)
        assert max(map(len, times.values())) > 1
    assert [len(one.runs) for one in kept] == sorted(len(one.runs) for one in kept)
    assert list(tmp_path.iterdir()) == []
