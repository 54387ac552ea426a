"""One count of saves, loads and ranks, whoever asks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from iotrace.traces.phases import Phase
from iotrace.traces.summary import summarize
from iotrace.traces.trace import Trace
from iotrace.traces.verdict.verdict import examine

from .verdict.rows import SAVE, R, moved, span, trace_of

LOAD = (span("load", 20, 29), moved("read", 21, 28, 0, 1000))
PLAIN = {"step": None, "engine": None}
LAUNCHER = {**PLAIN, "rank": -1, "path": "/tmp/launcher", "file": 7}


def counted(trace: Trace) -> tuple[int, int, int]:
    """Return the saves, loads and ranks, which the summary and the verdict agree on."""
    summary, verdict = summarize(trace), examine(trace)
    found = (summary.saves, summary.loads, len(summary.ranks))
    assert found == (len(verdict.of(Phase.SAVE)), len(verdict.of(Phase.LOAD)), verdict.ranks)
    assert summary.processes == verdict.processes
    return found


def plain(row: R, **more: object) -> R:
    return replace(row, **{**PLAIN, **more})


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (SAVE, (1, 0, 1)),
        ((*SAVE, *LOAD), (1, 1, 1)),
        ((*LOAD, moved("write", 1, 2, 0, 4, **LAUNCHER)), (0, 1, 1)),
        ((plain(LOAD[1]), moved("write", 1, 2, 0, 4, **LAUNCHER)), (0, 1, 1)),
        ((plain(LOAD[1]), moved("write", 1, 2, 0, 400, **LAUNCHER)), (1, 1, 1)),
        ((*LOAD, moved("write", 1, 2, 0, 400, file=7, **PLAIN)), (1, 1, 1)),
        ((*SAVE, moved("read", 3, 4, 0, 100)), (1, 0, 1)),
        ((plain(SAVE[2]), plain(LOAD[1], rank=1)), (1, 1, 2)),
        ((plain(SAVE[2], rank=-1), plain(LOAD[1], rank=-1)), (1, 1, 0)),
    ],
    ids=[
        "a save",
        "and a load",
        "a launcher beside an engine",
        "a launcher beside plain reads",
        "a launcher that writes much",
        "plain writes beside an engine",
        "reads within a save",
        "no engine",
        "no launcher",
    ],
)
def test_saves_loads_and_ranks_are_counted_in_one_way(
    rows: tuple[R, ...], expected: tuple[int, int, int]
) -> None:
    assert counted(trace_of(*rows)) == expected
