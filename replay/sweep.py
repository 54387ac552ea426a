"""Run a sweep: many settings, few runs each; the promising ones more often, until time is up."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from iotrace.replay.factors import BASE, Setting, predict, screening
from iotrace.replay.options import ReplayOptions
from iotrace.replay.plan import Plan
from iotrace.replay.result import RecordedSummary
from iotrace.replay.session import replay
from iotrace.replay.statistics import estimate
from iotrace.replay.sweep_result import Dropped, SweepResult, SweepRun
from iotrace.traces.errors import PlanError, ReplayError

Build = Callable[[str, Setting], Plan]
Report = Callable[[str, int, int], None]

_SCREENING_SHARE = 0.4  # of an op's time
_GUESSES_SHARE = 0.15
_LEAST_SCREENED = 12
_FINALISTS = 3
_NARROW = 0.025  # half width of the interval over the median that ends a sweep
_LEAST_RUNS = 5  # of a finalist, before its scatter says anything
_MOST_RUNS = 30
_RECENT = 20  # runs that say what the next one takes
_NO_RECORDING = RecordedSummary(0, 0, 0, 0, 0, 0.0, 0.0)


@dataclass(frozen=True)
class Task:
    """The settings of one op; those with the same plan and way to run are in it once."""

    op: str
    settings: tuple[Setting, ...]


def distinct(
    op: str, settings: Iterable[Setting], build: Build
) -> tuple[Task, tuple[Dropped, ...]]:
    """Return the settings that differ in what is done, and those that cannot be built.

    Coalescing that joins nothing, or alignment of what is aligned, is the same as without.
    """
    kept: list[Setting] = []
    dropped: list[Dropped] = []
    digests: dict[tuple[object, ...], object] = {}
    seen: set[object] = set()
    for setting in settings:
        if setting.shape not in digests:
            try:
                digests[setting.shape] = _digest(build(op, setting))
            except PlanError as error:
                digests[setting.shape] = None
                dropped.append(Dropped(op, setting, str(error)))
        digest = digests[setting.shape]
        key = (digest, setting.direct, setting.executor, setting.queue_depth)
        if digest is not None and key not in seen:
            seen.add(key)
            kept.append(setting)
    return Task(op, tuple(kept)), tuple(dropped)


def least_runs(task: Task) -> int:
    """Return how many runs a sweep of the task takes at least to be of use."""
    return min(len(task.settings), _LEAST_SCREENED) + _FINALISTS * _LEAST_RUNS


def _digest(plan: Plan) -> int:
    rows = plan.requests
    columns = ("op", "file", "offset", "length", "stream", "flags")
    return hash(tuple(np.ascontiguousarray(rows[name]).tobytes() for name in columns))


class Sweep:
    """Measures settings until its time is up, and hands on each run as it ends.

    Args:
        result: what is known before: empty, or of an interrupted sweep.
        build: makes the plan of an op and a setting.
        root: folder to run in.
        save: called with the result so far after every run.
        report: called with a stage, seconds spent and seconds to spend.
    """

    def __init__(
        self,
        result: SweepResult,
        build: Build,
        root: Path,
        save: Callable[[SweepResult], None],
        report: Report,
    ) -> None:
        self.result = result
        self._build = build
        self._root = root
        self._save = save
        self._report = report
        self._stage = ""
        self._begin = time.monotonic()
        self._deadline = self._begin

    def run(self, tasks: Sequence[Task], spent_seconds: float = 0.0) -> SweepResult:
        """Run every task in its share of the time; return the result.

        Args:
            tasks: what to measure.
            spent_seconds: of the budget, on getting here.
        """
        end = time.monotonic() + self.result.budget_seconds - spent_seconds
        for number, task in enumerate(tasks):
            now = time.monotonic()
            self._deadline = now + (end - now) / (len(tasks) - number)
            self._begin = now
            self._stage = "save" if task.op == "write" else "restore"
            self._race(task)
        self.result = replace(self.result, finished=True)
        self._save(self.result)
        return self.result

    def _race(self, task: Task) -> None:
        """Screen, add what the screening predicts to be good, then halve until few are left."""
        known = self.result.times(task.op)
        if not known:
            self._measure(task.op, BASE, timed=False)  # the warm-up
            self._measure(task.op, BASE)
        count = int(_SCREENING_SHARE * self._left() / self._cost(task.op))
        first = screening(task.settings, max(count, _LEAST_SCREENED))
        total = self._left()
        screened_at = self._deadline - (1 - _SCREENING_SHARE) * total
        guessed_at = screened_at + _GUESSES_SHARE * total
        self._measure_all(task.op, [s for s in first if s not in known and s != BASE], screened_at)
        medians = self._medians(task.op)
        if not medians:
            return  # what was dropped says why
        guessed = predict(medians, task.settings)
        untried = sorted(
            (s for s in task.settings if s not in medians and not self._is_dropped(task.op, s)),
            key=lambda s: guessed[s],
        )
        self._measure_all(task.op, untried[: max(4, len(first) // 4)], guessed_at)
        survivors = self._ranked(task.op)
        backwards = True
        while self._left() > self._cost(task.op):
            survivors = self._ranked(task.op, survivors)
            fewer = max(_FINALISTS, (len(survivors) + 1) // 2)
            affordable = int(self._left() / self._cost(task.op))  # a whole round, or no order helps
            survivors = survivors[: max(1, min(fewer, affordable - 1))]
            if len(survivors) <= _FINALISTS and self._is_settled(task.op, survivors):
                return
            # The setting it is all compared with keeps up, so that its interval is as good.
            again = [*survivors, *([] if BASE in survivors else [BASE])]
            self._measure_all(task.op, list(reversed(again)) if backwards else again)
            backwards = not backwards

    def _measure_all(
        self, op: str, settings: Sequence[Setting], until: float = float("inf")
    ) -> None:
        """Run each setting once, as long as there is time for it."""
        for setting in settings:
            if min(self._deadline, until) - time.monotonic() < self._cost(op):
                return
            self._measure(op, setting)

    def _measure(self, op: str, setting: Setting, *, timed: bool = True) -> None:
        """Run a setting once; one that fails or cannot be had is dropped with its cause."""
        if self._is_dropped(op, setting):
            return
        begin = time.monotonic()
        options = ReplayOptions(
            executor=setting.executor, queue_depth=setting.queue_depth, root=self._root
        )
        cause = None
        try:
            outcome = replay(self._build(op, setting), _NO_RECORDING, options)
        except (PlanError, ReplayError) as error:
            cause = str(error)
        else:
            not_asked = (*outcome.errors, *outcome.refused)
            cause = not_asked[0] if not_asked else None
            if outcome.executor != setting.executor:
                cause = outcome.degraded[0]
        wall = time.monotonic() - begin
        if cause is not None:
            dropped = (*self.result.dropped, Dropped(op, setting, cause))
            self.result = replace(self.result, dropped=dropped)
        elif timed:
            one = outcome.repetitions[0]
            seconds = one.durable_seconds if op == "write" else one.read_seconds
            completed = one.write_seconds if op == "write" else one.read_seconds
            run = SweepRun(op, setting, seconds, completed, wall)
            self.result = replace(self.result, runs=(*self.result.runs, run))
        self.result = replace(self.result, spent_seconds=self.result.spent_seconds + wall)
        self._save(self.result)
        total = self._deadline - self._begin
        self._report(self._stage, min(int(time.monotonic() - self._begin), int(total)), int(total))

    def _medians(self, op: str) -> dict[Setting, float]:
        return {s: float(np.median(times)) for s, times in self.result.times(op).items()}

    def _ranked(self, op: str, among: Sequence[Setting] | None = None) -> list[Setting]:
        medians = self._medians(op)
        chosen = medians if among is None else [s for s in among if s in medians]
        return sorted(chosen, key=lambda setting: medians[setting])

    def _is_settled(self, op: str, finalists: Sequence[Setting]) -> bool:
        """Are the finalists known well enough, or as well as they will be?"""
        times = self.result.times(op)
        for setting in finalists:
            found = estimate(times[setting])
            if len(times[setting]) >= _MOST_RUNS:
                continue
            if len(times[setting]) < _LEAST_RUNS:
                return False
            if found.high - found.low > 2 * _NARROW * found.median:
                return False
        return True

    def _is_dropped(self, op: str, setting: Setting) -> bool:
        return any(one.op == op and one.setting == setting for one in self.result.dropped)

    def _left(self) -> float:
        return self._deadline - time.monotonic()

    def _cost(self, op: str) -> float:
        """Return what a run is expected to take, all in all, in seconds."""
        walls = [run.wall_seconds for run in self.result.runs if run.op == op][-_RECENT:]
        return float(np.mean(walls)) if walls else 0.1
