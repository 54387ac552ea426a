"""A sweep as people read it: the best settings, what each factor is worth, the commands."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from iotrace.replay.factors import BASE, Setting
from iotrace.replay.statistics import INTERVAL_RUNS, Estimate
from iotrace.replay.sweep_result import Effect, SweepResult, alone
from iotrace.tools.durations import format_duration
from iotrace.tools.render import (
    NONE,
    Column,
    Terminal,
    format_bytes,
    format_count,
    format_range,
    format_rate,
    format_seconds,
    print_facts,
    print_problems,
    print_table,
)
from iotrace.tools.spread import RANGE, spread_title
from iotrace.traces.words import plural

_SETTINGS_SHOWN = 8
LEAST_RUNS = 3  # fewer have a range that proves nothing at all
NAMES = {"write": "save", "read": "restore"}
_MEASURED = {"write": "until durable", "read": "cold"}


def print_sweep(terminal: Terminal, found: SweepResult) -> None:
    """Print the answer first: the best of each op and its command, then tables."""
    facts = [("sweep", f"{found.trace} in {found.root} ({found.file_system})")]
    runs = plural(len(found.runs), "run")
    facts.append(("spent", f"{format_duration(found.spent_seconds)}, {runs}"))
    for op in found.settings:
        facts.append((NAMES[op], verdict_on(found, op)))
    print_facts(terminal, facts)
    if not found.finished:
        terminal.print()
        print_problems(terminal, "INTERRUPTED: what is below is from part of the sweep", ())
    for op in found.ops:
        terminal.print()
        _print_settings(terminal, found, op)
        terminal.print()
        _print_effects(terminal, found, op)
    _print_pareto(terminal, found)
    _print_dropped(terminal, found)
    terminal.print()
    for op in found.ops:
        best = found.best(op)
        if best is not None:
            terminal.print(f"best {NAMES[op]}:", style="bold")
            terminal.print(f"  {command(found, op, best)}")


def to_json(found: SweepResult) -> dict[str, Any]:
    """Return the answer as one JSON object; the runs are in the file of `-o`."""
    answers = {}
    for op in found.ops:
        best = found.best(op)
        tables: dict[str, dict[str, object]] = {
            "alone": alone(),
            "under_direct": {"direct": True},
            "overall": {},
        }
        answers[NAMES[op]] = {
            "best": asdict(best) if best else None,
            "command": command(found, op, best) if best else None,
            "settings": [
                {
                    **asdict(setting),
                    "runs": len(found.times(op)[setting]),
                    "seconds": asdict(one),
                }
                for setting, one in found.estimates(op).items()
            ],
            "effects": {
                name: [
                    {"factor": factor, "level": level, **asdict(effect)}
                    for (factor, level), effect in found.effects(op, given).items()
                ]
                for name, given in tables.items()
            },
        }
    return {
        "trace": found.trace,
        "root": found.root,
        "file_system": found.file_system,
        "bytes": found.bytes,
        "spent_seconds": found.spent_seconds,
        "finished": found.finished,
        "answers": answers,
        "pareto": [asdict(setting) for setting in found.pareto()],
        "dropped": [asdict(one) for one in found.dropped],
    }


def command(found: SweepResult, op: str, setting: Setting) -> str:
    """Return the `iotrace replay` that does the same."""
    words = ["iotrace", "replay", found.trace, "--op", op]
    if setting.layout != BASE.layout:
        words += ["--aggregate", setting.layout]
    if setting.coalesce_bytes:
        words += ["--coalesce-size", format_bytes(setting.coalesce_bytes).replace(" ", "")]
    words += ["--align"] if setting.align else []
    words += ["--direct" if setting.direct else "--buffered"]
    words += ["--executor", setting.executor, "--queue-depth", str(setting.queue_depth)]
    words += ["--repeat", "5", "--root", found.root]
    return shlex.join(words)


def describe(setting: Setting) -> str:
    """Return a setting in words, such as `8 MiB aligned direct io_uring x8`."""
    parts = [] if setting.layout == BASE.layout else [setting.layout]
    size = format_bytes(setting.coalesce_bytes)
    parts.append(size if setting.coalesce_bytes else "uncoalesced")
    parts += ["aligned"] if setting.align else []
    parts.append("direct" if setting.direct else "buffered")
    parts.append(f"{setting.executor} x{setting.queue_depth}")
    return " ".join(parts)


def scatter(one: Estimate, runs: int) -> str:
    """Return the range of few runs or the interval of many; of one run there is neither."""
    return format_range(format_seconds(one.low), format_seconds(one.high)) if runs > 1 else NONE


def level_name(factor: str, level: object) -> str:
    """Return a level in words, such as `coalesce 8 MiB`."""
    words = {
        "layout": f"layout {level}",
        "align": "align",
        "direct": "direct",
        "executor": f"{level}",
        "queue_depth": f"depth {level}",
    }
    if factor == "coalesce_bytes" and isinstance(level, int):
        return f"coalesce {format_bytes(level)}"
    return words[factor]


def verdict_on(found: SweepResult, op: str) -> str:
    """Return the best setting with its gain over the requests as recorded."""
    best, estimates = found.best(op), found.estimates(op)
    if best is None:
        return "nothing could be measured"
    one = estimates[best]
    rate = format_rate(found.bytes[op], one.median)
    text = f"{describe(best)}: {format_seconds(one.median)}, {rate} {_MEASURED[op]}"
    base = estimates.get(BASE)
    if base is not None and best != BASE:
        text += f"; {base.median / one.median:.3g}x as fast as uncoalesced, buffered, one by one"
        times = found.times(op)
        if min(len(times[best]), len(times[BASE])) < LEAST_RUNS:
            text += " (few runs: not proven; a longer --budget tells)"
        elif base.low <= one.high:
            names = "ranges" if "range" in (base.kind, one.kind) else "intervals"
            text += f" ({names} overlap: not proven)"
        elif "range" in (base.kind, one.kind):
            text += f" (ranges do not overlap; fewer than {INTERVAL_RUNS} runs prove nothing)"
    return text


def _print_settings(terminal: Terminal, found: SweepResult, op: str) -> None:
    estimates = found.estimates(op)
    times = found.times(op)
    best = found.best(op)
    most = max(len(values) for values in times.values())
    often = [setting for setting in estimates if 2 * len(times[setting]) >= most]
    rest = [setting for setting in estimates if setting not in often]
    shown = [*often, *rest][:_SETTINGS_SHOWN]
    shown += [BASE] if BASE in estimates and BASE not in shown else []
    base = estimates.get(BASE)
    spread = spread_title(estimates[s].kind for s in shown if len(times[s]) > 1)
    columns = [Column(f"{NAMES[op]}, {_MEASURED[op]}", shrink=True)]
    columns += [Column(t, right=True) for t in ("median", spread, "runs", "gain")]
    rows = []
    for setting in shown:
        one, runs = estimates[setting], len(times[setting])
        rows.append(
            (
                f"{'> ' if setting == best else '  '}{describe(setting)}",
                format_seconds(one.median),
                scatter(one, runs),
                str(runs),
                f"{base.median / one.median:.2f}x" if base else NONE,
            )
        )
    print_table(terminal, columns, rows)
    tried = f"{format_count(len(estimates))} of {format_count(found.settings[op])} settings tried"
    terminal.print(f"{tried}; --json lists them")


def _print_effects(terminal: Terminal, found: SweepResult, op: str) -> None:
    """Print what each level is worth: alone, under direct I/O, over all pairs measured."""
    single = found.effects(op, alone())
    direct = found.effects(op, {"direct": True})
    overall = found.effects(op)
    spread = spread_title(e.kind for e in overall.values() if e.low < e.high)
    spread = "range" if spread == RANGE else spread  # of pairs, or of the runs of one
    titles = ("alone", "under direct", "over all", spread, "pairs")
    columns = [Column(f"{NAMES[op]}: faster by"), *(Column(t, right=True) for t in titles)]
    rows: list[Sequence[str]] = []
    for key, effect in overall.items():
        rows.append(
            (
                level_name(*key),
                _times(single.get(key)),
                NONE if key[0] == "direct" else _times(direct.get(key)),
                _times(effect),
                f"{effect.low:.2f} - {effect.high:.2f}" if effect.low < effect.high else NONE,
                str(effect.pairs),
            )
        )
    if rows:
        print_table(terminal, columns, rows)


def _times(effect: Effect | None) -> str:
    return NONE if effect is None else f"{effect.ratio:.2f}x"


def _print_pareto(terminal: Terminal, found: SweepResult) -> None:
    """Print the settings that nothing beats in both directions."""
    settings = found.pareto()
    if not settings:
        return
    columns = (
        Column("no other is better at both"),
        Column("save", right=True),
        Column("restore", right=True),
    )
    saves, restores = found.estimates("write"), found.estimates("read")
    terminal.print()
    print_table(
        terminal,
        columns,
        (
            (
                describe(setting),
                format_seconds(saves[setting].median),
                format_seconds(restores[setting].median),
            )
            for setting in settings[:_SETTINGS_SHOWN]
        ),
    )


def _print_dropped(terminal: Terminal, found: SweepResult) -> None:
    causes: dict[str, int] = {}
    for one in found.dropped:
        causes[one.cause] = causes.get(one.cause, 0) + 1
    if causes:
        terminal.print()
        listed = [f"{plural(count, 'setting')}: {cause}" for cause, count in causes.items()]
        print_problems(terminal, "NOT MEASURED", listed[:5])
