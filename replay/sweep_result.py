"""What a sweep measured, and what follows from it: the best, effects, the Pareto set."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field

import numpy as np

from iotrace.replay.factors import BASE, FACTORS, Setting, differing
from iotrace.replay.statistics import Estimate, estimate
from iotrace.traces.codec import decode
from iotrace.traces.errors import TraceFormatError

FORMAT = "iotrace-sweep-1"
OPS = ("write", "read")


@dataclass(frozen=True)
class SweepRun:
    """One timed replay of one setting.

    Attributes:
        seconds: of a save until it is durable; of a restore from cold storage.
        completed_seconds: of a save until the last request completed; of a restore the same.
        wall_seconds: all that it cost, preparation and removal included.
    """

    op: str
    setting: Setting
    seconds: float
    completed_seconds: float
    wall_seconds: float


@dataclass(frozen=True)
class Dropped:
    """A setting that cannot be had here, and why."""

    op: str
    setting: Setting
    cause: str


@dataclass(frozen=True)
class Effect:
    """What one level is worth against the first level of its factor.

    Attributes:
        ratio: time with the first level over time with this one: above 1 is faster.
        low, high: its scatter over the pairs, or over the runs of a single pair.
        kind: `range` or `interval` (95 %), as of an `Estimate`.
        pairs: settings that differ in this factor alone and were both measured.
    """

    ratio: float
    low: float
    high: float
    kind: str
    pairs: int


@dataclass(frozen=True)
class SweepResult:
    """Everything a sweep gave.

    Attributes:
        trace, digest: what was swept: as named, and by content.
        root: the folder it ran in; `file_system` its kind.
        bytes: per op, moved by one run.
        settings: per op, how many there are in all; `tried` is in the runs.
        budget_seconds, spent_seconds: asked for and used.
        finished: whether it ended by itself; else it was interrupted and can be resumed.
    """

    trace: str
    digest: str
    root: str
    file_system: str
    bytes: dict[str, int]
    settings: dict[str, int]
    budget_seconds: float
    spent_seconds: float = 0.0
    finished: bool = False
    runs: tuple[SweepRun, ...] = ()
    dropped: tuple[Dropped, ...] = ()
    format: str = FORMAT
    extra: dict[str, object] = field(default_factory=dict, hash=False)

    @property
    def ops(self) -> tuple[str, ...]:
        """The ops that were measured."""
        return tuple(op for op in OPS if any(run.op == op for run in self.runs))

    def times(self, op: str) -> dict[Setting, list[float]]:
        """Return the times of each setting, in seconds."""
        found: dict[Setting, list[float]] = {}
        for run in self.runs:
            if run.op == op:
                found.setdefault(run.setting, []).append(run.seconds)
        return found

    def estimates(self, op: str) -> dict[Setting, Estimate]:
        """Return median and scatter of each setting, the fastest first."""
        found = {setting: estimate(times) for setting, times in self.times(op).items()}
        return dict(sorted(found.items(), key=lambda item: item[1].median))

    def best(self, op: str) -> Setting | None:
        """Return the fastest of the settings that were repeated most.

        A single run may be fast by chance; it does not win over the survivors of all rounds.
        """
        times = self.times(op)
        if not times:
            return None
        most = max(len(values) for values in times.values())
        finalists = {s: np.median(v) for s, v in times.items() if 2 * len(v) >= most}
        return min(finalists, key=lambda setting: finalists[setting])

    def effects(
        self, op: str, given: Mapping[str, object] | None = None
    ) -> dict[tuple[str, object], Effect]:
        """Return what each level of each factor is worth.

        Args:
            op: `write` or `read`.
            given: only pairs with these levels; all of `BASE` with `given=alone()`.
        """
        times = self.times(op)
        found = {}
        for name in FACTORS:
            first = getattr(BASE, name)
            levels = {getattr(setting, name) for setting in times} - {first}
            for level in sorted(levels, key=lambda one: (isinstance(one, str), one)):
                pairs = list(_pairs(times, name, first, level, given or {}))
                if pairs:
                    found[name, level] = _effect(pairs)
        return found

    def pareto(self) -> list[Setting]:
        """Return the settings that no other beats in both save and restore, by save time.

        How it is run may differ between the two; the shape on storage is the same. A setting is
        judged by its shape's fastest way to run.
        """
        if len(self.ops) < 2:
            return []
        medians = [{s: e.median for s, e in self.estimates(op).items()} for op in OPS]
        both = [setting for setting in medians[0] if setting in medians[1]]
        return [
            one
            for one in both
            if not any(
                medians[0][other] <= medians[0][one]
                and medians[1][other] <= medians[1][one]
                and other != one
                for other in both
            )
        ]

    def to_json(self) -> dict[str, object]:
        """Return the stored form."""
        known = asdict(self)
        return {**known.pop("extra"), **known}

    @classmethod
    def from_json(cls, tree: dict[str, object]) -> SweepResult:
        """Return the sweep stored as `tree`.

        Raises:
            TraceFormatError: it is none, or of another version.
        """
        if tree.get("format") != FORMAT:
            raise TraceFormatError("no sweep of this version; `iotrace sweep -o FILE` makes one")
        found = decode(cls, tree)
        if any(not set(found.ops) <= set(of) <= set(OPS) for of in (found.bytes, found.settings)):
            raise TraceFormatError(
                f"its bytes and settings are of other ops than its runs, or none of {OPS}; "
                "`iotrace sweep -o FILE` makes one"
            )
        return found


def alone() -> dict[str, object]:
    """Return the levels of `BASE`, for `effects`: one change to what was recorded."""
    return {name: getattr(BASE, name) for name in FACTORS}


def _pairs(
    times: Mapping[Setting, Sequence[float]],
    name: str,
    first: object,
    level: object,
    given: Mapping[str, object],
) -> Iterator[tuple[Sequence[float], Sequence[float]]]:
    """Yield the times of settings at the first level and at this one, all else being equal."""
    for setting, values in times.items():
        if getattr(setting, name) != level:
            continue
        if any(n != name and getattr(setting, n) != wanted for n, wanted in given.items()):
            continue
        for other, others in times.items():
            if getattr(other, name) == first and differing(setting, other) == (name,):
                yield others, values


def _effect(pairs: Sequence[tuple[Sequence[float], Sequence[float]]]) -> Effect:
    ratios = [float(np.median(first) / np.median(level)) for first, level in pairs]
    runs = len(pairs)
    if len(pairs) == 1:
        first, level = pairs[0]
        ratios = [a / b for a in first for b in level]
        runs = min(len(first), len(level))  # each of them is in several ratios
    found = estimate(np.log(ratios).tolist(), runs)
    ratio, low, high = (float(np.exp(v)) for v in (found.median, found.low, found.high))
    return Effect(ratio, low, high, found.kind, len(pairs))
