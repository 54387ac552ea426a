"""The figures of a sweep: settings with their intervals, effects, save against restore."""

from __future__ import annotations

from collections.abc import Iterator

from iotrace.replay.factors import BASE
from iotrace.replay.sweep_result import SweepResult, alone
from iotrace.tools.figures.svg import COLOURS, FAINT, Chart, Figure
from iotrace.tools.render import format_seconds
from iotrace.tools.spread import spread_title
from iotrace.tools.sweep_table import NAMES, describe, level_name
from iotrace.traces.words import plural

_SETTINGS_SHOWN = 14
_ROW = 22
_KINDS = (("alone", "write"), ("under direct", "read"), ("over all", "tensor"))


def sweep_figures(found: SweepResult) -> Iterator[Figure]:
    """Yield the figures of a sweep."""
    for op in found.ops:
        yield _settings(found, op)
    for op in found.ops:
        yield _effects(found, op)
    if found.pareto():
        yield _pareto(found)


def _settings(found: SweepResult, op: str) -> Figure:
    estimates, times = found.estimates(op), found.times(op)
    most = max(len(values) for values in times.values())
    often = [s for s in estimates if 2 * len(times[s]) >= most]
    ordered = [*often, *(s for s in estimates if s not in often)]
    shown = ordered[:_SETTINGS_SHOWN]
    shown += [BASE] if BASE in estimates and BASE not in shown else []
    spread = spread_title(estimates[s].kind for s in shown)
    title = f"{NAMES[op].capitalize()}: settings, {spread}"
    chart = Chart(title, "median time", height=62 + _ROW * len(shown), width=1180, left=270)
    high = max(max(estimates[s].high, estimates[s].median) for s in shown)
    x = chart.x_scale(0, high * 1.08, least=1e-9)
    chart.x_axis(x, format_seconds)
    best = found.best(op)
    for i, setting in enumerate(shown):
        one = estimates[setting]
        y = 14.0 + i * _ROW
        colour = (
            COLOURS["best"] if setting == best else COLOURS["other" if setting == BASE else "write"]
        )
        chart.text(chart.left - 6, y + 12, describe(setting), "end")
        chart.box(chart.left, y, x(one.median), y + _ROW - 7, colour, 0.75)
        middle = y + (_ROW - 7) / 2
        chart.line(x(one.low), middle, x(one.high), middle, "#222", 1.5)
        for end in (one.low, one.high):
            chart.line(x(end), middle - 4, x(end), middle + 4, "#222", 1.5)
        chart.text(
            x(max(one.high, one.median)) + 5, y + 12, plural(len(times[setting]), "run"), size=10
        )
    caption = (
        f"{len(estimates)} of {found.settings[op]} settings were tried; the most repeated come "
        "first. Green: the best. Grey: uncoalesced, buffered, one request at a time."
    )
    return Figure(f"{NAMES[op]}-settings", title, caption, chart.svg())


def _effects(found: SweepResult, op: str) -> Figure:
    kinds = {
        "alone": found.effects(op, alone()),
        "under direct": found.effects(op, {"direct": True}),
        "over all": found.effects(op),
    }
    levels = list(kinds["over all"])
    title = f"{NAMES[op].capitalize()}: what each level is worth"
    height = 80 + 3 * 13 * max(len(levels), 1)
    chart = Chart(title, "times as fast as the first level of its factor", height=height, left=130)
    chart.name(*((kind, COLOURS[colour]) for kind, colour in _KINDS))
    values = [v for effects in kinds.values() for e in effects.values() for v in (e.low, e.high)]
    low, high = min([0.5, *values]) / 1.1, max([2.0, *values]) * 1.1
    x = chart.x_scale(low, high, log=True)
    for tick in (0.1, 0.25, 0.5, 1, 2, 4, 8, 16):
        if low <= tick <= high:
            chart.line(x(tick), 10, x(tick), chart.bottom, "#888" if tick == 1 else FAINT)
            chart.text(x(tick), chart.bottom + 15, f"{tick:g}x", "middle")
    for i, key in enumerate(levels):
        top = 34.0 + i * 39
        chart.text(chart.left - 6, top + 16, level_name(*key), "end")
        for j, (kind, colour) in enumerate(_KINDS):
            effect = kinds[kind].get(key)
            if effect is None or (kind == "under direct" and key[0] == "direct"):
                continue
            y = top + 11 * j
            chart.line(x(effect.low), y, x(effect.high), y, COLOURS[colour], 2)
            chart.dot(x(effect.ratio), y, COLOURS[colour], 3.5)
    caption = (
        "Against: as recorded, not aligned, buffered, io_uring, one at a time. Alone: only this "
        "is changed. Right of 1 is faster; lines are ranges, from 6 on 95 % intervals."
    )
    return Figure(f"{NAMES[op]}-effects", title, caption, chart.svg())


def _pareto(found: SweepResult) -> Figure:
    saves, restores = found.estimates("write"), found.estimates("read")
    both = [setting for setting in saves if setting in restores]
    front = set(found.pareto())
    title = "Save against restore"
    chart = Chart(title, "save, until durable", "restore, cold")
    chart.name(("no other is better at both", COLOURS["best"]), ("others", COLOURS["other"]))
    x_values = [saves[s].median for s in both]
    y_values = [restores[s].median for s in both]
    x = chart.x_scale(0, max(x_values) * 1.05)
    y = chart.y_scale(0, max(y_values) * 1.05)
    chart.x_axis(x, format_seconds)
    chart.y_axis(y, format_seconds)
    for setting in both:
        colour = COLOURS["best" if setting in front else "other"]
        chart.dot(x(saves[setting].median), y(restores[setting].median), colour, 4)
    names = "; ".join(describe(setting) for setting in found.pareto()[:4])
    return Figure("pareto", title, f"Not beaten at both: {names}.", chart.svg())
