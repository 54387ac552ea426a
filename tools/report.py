"""The report of a trace, a result or a sweep, as a page."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from iotrace.replay.probe_cache import load_probe
from iotrace.replay.sweep_result import SweepResult
from iotrace.tools.advice.advise import advise
from iotrace.tools.durations import format_duration
from iotrace.tools.figures.sweep_figures import sweep_figures
from iotrace.tools.figures.trace_figures import trace_figures
from iotrace.tools.first_screen import file_cells
from iotrace.tools.render import format_seconds
from iotrace.tools.replayed import Replayed
from iotrace.tools.report_page import Page, Table
from iotrace.tools.spread import spread_title
from iotrace.tools.sweep_table import NAMES, command, describe, scatter, verdict_on
from iotrace.tools.verdict.headline import change_of, headline
from iotrace.traces.summary import Summary, summarize
from iotrace.traces.trace import Trace
from iotrace.traces.verdict.verdict import examine
from iotrace.traces.words import plural

_FILES_SHOWN = 20


def trace_page(location: str, trace: Trace, root: Path) -> Page:
    """Return the report of a trace or of a result, beside the probe of `root`, if there is one."""
    storage = load_probe(root)
    summary = summarize(trace)
    verdict = examine(trace)
    advice = advise(location, verdict, storage, root)
    metadata = trace.metadata
    facts = list(headline(location, metadata, verdict, advice, storage))
    replayed = Replayed.of(metadata)
    facts += replayed.facts() if replayed else ()
    incomplete = [
        f"Incomplete, figures are lower bounds: {problem}" for problem in summary.problems
    ]
    return Page(
        title=f"iotrace: {location}",
        subtitle=shlex.join(metadata.command) or "no command recorded",
        warnings=incomplete[:10],
        facts=facts,
        advice=[(change_of(one), one.because, one.command) for one in advice],
        figures=list(trace_figures(trace, verdict)),
        tables=[_file_table(summary)],
    )


def sweep_page(location: str, found: SweepResult) -> Page:
    """Return the report of a sweep."""
    facts = [("sweep", f"{found.trace} in {found.root} ({found.file_system})")]
    facts.append(
        ("spent", f"{format_duration(found.spent_seconds)}, {plural(len(found.runs), 'run')}")
    )
    advice = []
    for op in found.ops:
        sentence = verdict_on(found, op)
        facts.append((NAMES[op], sentence))
        best = found.best(op)
        if best is not None:
            advice.append((f"{NAMES[op]}: {describe(best)}", sentence, command(found, op, best)))
    unfinished = [] if found.finished else ["Interrupted: this is part of a sweep."]
    causes = dict.fromkeys(one.cause for one in found.dropped)
    return Page(
        title=f"iotrace sweep: {found.trace}",
        subtitle=location,
        warnings=[*unfinished, *(f"Not measured: {cause}" for cause in list(causes)[:5])],
        facts=facts,
        advice=advice,
        figures=list(sweep_figures(found)),
        tables=[_sweep_table(found, op) for op in found.ops],
    )


def _file_table(summary: Summary) -> Table:
    title = "Files"
    if len(summary.files) > _FILES_SHOWN:
        title = f"The {_FILES_SHOWN} busiest of {plural(len(summary.files), 'file')}"
    rows = [file_cells(file) for file in summary.files.busiest(_FILES_SHOWN)]
    return Table(title, ("file", "size", "written", "read", "requests"), rows)


def _sweep_table(found: SweepResult, op: str) -> Table:
    times = found.times(op)
    rows: list[Sequence[str]] = [
        (
            describe(setting),
            format_seconds(one.median),
            scatter(one, len(times[setting])),
            str(len(times[setting])),
        )
        for setting, one in found.estimates(op).items()
    ]
    title = f"{NAMES[op].capitalize()}: all settings tried"
    spread = spread_title(one.kind for s, one in found.estimates(op).items() if len(times[s]) > 1)
    return Table(title, ("setting", "median", spread, "runs"), rows)
