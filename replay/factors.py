"""The factors of a sweep: what a setting is, which there are, which to try first."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

Levels = Mapping[str, Sequence[object]]

FACTORS = ("layout", "coalesce_bytes", "align", "direct", "executor", "queue_depth")
_RIDGE = 0.1  # keeps levels that were seen once from being trusted


@dataclass(frozen=True, order=True)
class Setting:
    """One way to do the same I/O.

    Attributes:
        layout: `recorded`, or what files are aggregated to.
        coalesce_bytes: adjacent requests are joined up to this; 0: they are not.
        align: extents are moved to multiples of the storage's block.
        direct: past the page cache, or through it.
        executor: `io_uring` or `posix`.
        queue_depth: requests in flight per stream.
    """

    layout: str = "recorded"
    coalesce_bytes: int = 0
    align: bool = False
    direct: bool = False
    executor: str = "io_uring"
    queue_depth: int = 1

    @property
    def shape(self) -> tuple[object, ...]:
        """What the plan depends on; the rest is how it is run."""
        return (self.layout, self.coalesce_bytes, self.align, self.direct)


BASE = Setting()


def default_levels(layouts: Sequence[str] = ("recorded",)) -> dict[str, tuple[object, ...]]:
    """Return the levels of each factor; the first is that of `BASE`."""
    return {
        "layout": tuple(layouts),
        "coalesce_bytes": (0, 1 << 20, 8 << 20, 64 << 20),
        "align": (False, True),
        "direct": (False, True),
        "executor": ("io_uring", "posix"),
        "queue_depth": (1, 8, 32),
    }


def factorial(levels: Levels) -> tuple[Setting, ...]:
    """Return every combination of the levels.

    >>> len(factorial({"align": (False, True), "queue_depth": (1, 8)}))
    4
    """
    names = list(levels)
    combined = itertools.product(*(levels[name] for name in names))
    chosen: Iterator[dict[str, Any]] = (dict(zip(names, row, strict=True)) for row in combined)
    return tuple(replace(BASE, **levels) for levels in chosen)


def neighbours(center: Setting, settings: Sequence[Setting]) -> list[Setting]:
    """Return those of `settings` that differ from `center` in one factor, and `center`."""
    return [setting for setting in settings if len(differing(center, setting)) <= 1]


def differing(one: Setting, other: Setting) -> tuple[str, ...]:
    """Return the factors in which two settings differ."""
    return tuple(name for name in FACTORS if getattr(one, name) != getattr(other, name))


def screening(settings: Sequence[Setting], count: int, seed: int = 0) -> list[Setting]:
    """Return about `count` settings to try first.

    The corners that are most often the answer come first, as time may be short: direct I/O, alone,
    several at a time, and joined. Then the single changes to `BASE` and to joined direct I/O, so
    that effects can be told alone and together; then whatever evens out how often each level
    occurs.
    """
    sizes = sorted({setting.coalesce_bytes for setting in settings})
    middle = sizes[len(sizes) // 2]
    joined = replace(BASE, direct=True, coalesce_bytes=middle, queue_depth=8)
    corners = (BASE, replace(BASE, direct=True), replace(BASE, direct=True, queue_depth=8), joined)
    chosen: dict[Setting, None] = dict.fromkeys(c for c in corners if c in settings)
    around = (neighbours(joined, settings), neighbours(BASE, settings))
    for pair in itertools.zip_longest(*around):
        chosen |= dict.fromkeys(setting for setting in pair if setting is not None)
    for center in (replace(BASE, direct=True), replace(BASE, coalesce_bytes=middle)):
        chosen |= dict.fromkeys(n for n in neighbours(center, settings) if len(chosen) < count)
    left = [setting for setting in settings if setting not in chosen]
    np.random.default_rng(seed).shuffle(left)
    seen: dict[tuple[str, object], int] = {}
    for setting in chosen:
        _count(setting, seen)
    while left and len(chosen) < count:
        rarest = min(left, key=lambda s: sum(seen.get((n, getattr(s, n)), 0) for n in FACTORS))
        left.remove(rarest)
        chosen[rarest] = None
        _count(rarest, seen)
    return list(chosen)


def predict(seconds: Mapping[Setting, float], settings: Sequence[Setting]) -> dict[Setting, float]:
    """Return what each setting would take by an additive model of log time.

    Besides each factor's levels the model has the pairs with `direct`, which changes what the
    others are worth.

    Args:
        seconds: measured times, at least one.
        settings: to predict.
    """
    names = sorted({name for setting in (*seconds, *settings) for name in _features(setting)})
    place = {name: i for i, name in enumerate(names)}
    known = _matrix(list(seconds), place)
    target = np.log(np.array(list(seconds.values())))
    mean = target.mean()
    weights = np.linalg.solve(
        known.T @ known + _RIDGE * np.eye(len(names)), known.T @ (target - mean)
    )
    found = np.exp(_matrix(settings, place) @ weights + mean)
    return dict(zip(settings, found.tolist(), strict=True))


def _features(setting: Setting) -> list[str]:
    own = [f"{name}={getattr(setting, name)}" for name in FACTORS]
    return own + [f"{feature}&{setting.direct}" for feature in own]


def _matrix(settings: Sequence[Setting], place: Mapping[str, int]) -> np.ndarray:
    out = np.zeros((len(settings), len(place)))
    for row, setting in enumerate(settings):
        out[row, [place[name] for name in _features(setting)]] = 1.0
    return out


def _count(setting: Setting, seen: dict[tuple[str, object], int]) -> None:
    for name in FACTORS:
        key = (name, getattr(setting, name))
        seen[key] = seen.get(key, 0) + 1
