"""The answer to `iotrace why`: the verdict, its evidence and what to change, in words and JSON."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from iotrace.replay.probe import Capability
from iotrace.tools.advice.advice import Advice
from iotrace.tools.durations import format_duration
from iotrace.tools.render import (
    NONE,
    Column,
    Terminal,
    facts,
    format_bytes,
    format_rate,
    format_seconds,
    format_share,
    print_facts,
    print_problems,
    print_table,
)
from iotrace.tools.verdict.evidence import print_evidence
from iotrace.tools.verdict.headline import change_of, headline
from iotrace.tools.verdict.prediction import predict
from iotrace.tools.verdict.shapes import round_trips
from iotrace.traces.metadata import Metadata
from iotrace.traces.verdict.verdict import Finding, Verdict
from iotrace.traces.words import plural


def print_verdict(
    terminal: Terminal,
    location: str,
    metadata: Metadata,
    verdict: Verdict,
    advice: Sequence[Advice],
    storage: Capability | None,
) -> None:
    """Print the verdict, then its evidence."""
    if verdict.problems:
        print_problems(
            terminal, "INCOMPLETE: figures below are lower bounds", _few(verdict.problems)
        )
    print_facts(terminal, headline(location, metadata, verdict, advice, storage))
    print_evidence(terminal, verdict)
    _print_storage(terminal, storage)
    _print_advice(terminal, verdict, advice)


def to_json(
    location: str, verdict: Verdict, advice: Sequence[Advice], storage: Capability | None
) -> dict[str, Any]:
    """Return the verdict as one JSON object."""
    return {
        "trace": location,
        "complete": not verdict.problems,
        "problems": list(verdict.problems),
        "first_error": _plain(verdict.failures.first_error),
        "first_short": _plain(verdict.failures.first_short),
        "errors": verdict.failures.errors,
        "short_writes": verdict.failures.short,
        "cached_read_share": verdict.cached_read_share,
        "counters": dict(verdict.counters),
        "episodes": [_finding_json(finding, storage) for finding in verdict.findings],
        "advice": [_advice_json(one) for one in advice],
        "storage": _plain(storage),
    }


def _finding_json(finding: Finding, storage: Capability | None) -> dict[str, Any]:
    episode = finding.episode
    return {
        "op": episode.name,
        "step": episode.step if episode.step >= 0 else None,
        "engine": episode.engine,
        "seconds": finding.seconds,
        "away_seconds": finding.away_seconds,
        "cause": round_trips(finding),
        "predicted": _plain(predict(finding, storage)),
        "bytes": finding.moved_bytes,
        "slowest_rank": finding.slowest_rank.rank,
        "imbalance": finding.imbalance,
        "ranks": [asdict(one) for one in finding.split],
        "requests": {op: asdict(shape) for op, shape in finding.shapes.items()},
        "paging": _plain(finding.paging),
        "is_in_memory": finding.is_in_memory,
        "amplification": asdict(finding.amplification)
        | {
            "by_rank": finding.amplification.by_rank,
            "over_ranks": finding.amplification.over_ranks,
        },
        "durability": _plain(finding.durability),
        "background": _plain(finding.background),
        "slowest": asdict(finding.slowest),
        "memory": _plain(finding.memory),
        "ops": dict(finding.ops),
    }


def _advice_json(advice: Advice) -> dict[str, Any]:
    """Return an advice; one that comes before all others has no gain in seconds."""
    gain = advice.gain_seconds if math.isfinite(advice.gain_seconds) else None
    return asdict(advice) | {"gain_seconds": gain}


def _plain(value: Any) -> Any:
    return None if value is None else asdict(value)


def _few(problems: Sequence[str], count: int = 3) -> list[str]:
    shown = list(problems[:count])
    if len(problems) > count:
        shown.append(f"and {len(problems) - count} more: `iotrace show` lists them")
    return shown


def _print_storage(terminal: Terminal, storage: Capability | None) -> None:
    if storage is None:
        return
    seconds = time.time() - storage.realtime_ns / 1e9
    days = round(seconds / 86400)
    ago = plural(days, "day") if days > 1 else format_duration(seconds)
    when = "now" if seconds < 360 else f"{ago} ago"
    titles = ("size", "depth", "median each", "rate", "durable", "±", "runs")
    columns = [Column("requests")]
    columns += [Column(title, right=True) for title in titles]
    rows = [
        (
            f"{point.op}, {'direct' if point.direct else 'buffered'}",
            format_bytes(point.size_bytes),
            str(point.depth),
            format_seconds(point.p50_us / 1e6),
            format_rate(point.bytes_per_second, 1),
            format_rate(point.durable_bytes_per_second, 1) if point.op == "write" else NONE,
            NONE if point.scatter is None else format_share(point.scatter, 1),
            str(point.runs),
        )
        for point in sorted(
            storage.points, key=lambda p: (p.op != "write", p.direct, p.size_bytes, p.depth)
        )
    ]
    terminal.print()
    terminal.print(f"this storage ({storage.file_system}, probed {when}):")
    print_table(terminal, columns, rows)


def _print_advice(terminal: Terminal, verdict: Verdict, advice: Sequence[Advice]) -> None:
    if not advice:
        terminal.print()
        none = "nothing that this trace gives evidence for"
        of_replay = "a replay is no engine; ask `iotrace why` of its recording"
        terminal.print(f"change: {of_replay if verdict.is_replay else none}")
        return
    terminal.print()
    terminal.print("What to change, and the command that proves it", style="bold")
    for number, one in enumerate(advice, 1):
        pairs = [(f"{number}.", change_of(one)), ("", f"because {one.because}")]
        for line in facts(pairs, terminal.width):
            terminal.print(line)
        terminal.print(f"    {one.command}")
