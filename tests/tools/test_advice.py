"""The command of each advice runs as it is printed, and shows what it is to prove."""

from __future__ import annotations

import json
import os
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from iotrace.tools.advice.durability import syncs
from tests.traces.verdict.rows import SAVE, R, only, span, verdict_on

from .command import iotrace
from .conftest import CHECKPOINT, Make, Row

CORPUS = Path(__file__).parents[2] / "traces" / "corpus"
_SIZE = 64 << 10


def advice_on(trace: Path | str) -> list[dict[str, Any]]:
    done = iotrace("why", trace, "--no-probe", "--json", "-")
    assert done.returncode == 0, done.stderr
    return list(json.loads(done.stdout)["advice"])


def planned(command: str) -> dict[str, Any]:
    """Return what the replay of a proof would do, and what the recording did."""
    done = iotrace(*shlex.split(command)[1:], "--dry-run", "--json", "-")
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def hasty_rows(files: int = 2, times: int = 20) -> list[Row]:
    """Files opened, appended to, synced three times and closed again and again, then read twice."""
    rows = []
    for file in range(files):
        at = {"path": f"{CHECKPOINT}{file}", "file": file}
        for place in range(times):
            moved = {"offset": place * _SIZE, "length": _SIZE, "result": _SIZE}
            rows += [
                Row("open", **at, flags=os.O_WRONLY | os.O_CREAT),  # type: ignore[arg-type]
                Row("write", **at, **moved),  # type: ignore[arg-type]
                *(Row("sync", **at, flags=0) for _ in range(3)),  # type: ignore[arg-type]
                Row("close", **at),  # type: ignore[arg-type]
            ]
    for file in range(files):
        at = {"path": f"{CHECKPOINT}{file}", "file": file}
        rows.append(Row("open", **at, flags=os.O_RDONLY))  # type: ignore[arg-type]
        for place in [*range(times), *range(times)]:
            moved = {"offset": place * _SIZE, "length": _SIZE, "result": _SIZE}
            rows.append(Row("read", **at, **moved))  # type: ignore[arg-type]
        rows.append(Row("close", **at))  # type: ignore[arg-type]
    return rows


@pytest.mark.parametrize("trace", sorted(CORPUS.glob("*.parquet")), ids=lambda path: path.stem)
def test_every_command_runs_as_it_is_printed(trace: Path) -> None:
    """None asks for what the trace has not, nor is it the command that was just typed."""
    for one in advice_on(trace):
        words = shlex.split(one["command"])
        assert words[0] == "iotrace" and words[1] != "why"
        if words[1] == "replay":
            found = planned(one["command"])
            assert found["planned"]["data_requests"], one["command"]
        else:
            assert iotrace(*words[1:]).stdout, one["command"]


@pytest.mark.parametrize("is_behind", [False, True])
def test_who_saves_behind_the_job_is_not_told_to(is_behind: bool) -> None:
    """Syncs of an asynchronous save hold nobody up."""
    rows = [replace(row, engine="dcp") for row in SAVE]
    if is_behind:
        rows = [replace(row, thread=1) for row in rows]
        rows.append(span("stage", 0, 0.5, engine="dcp"))
    found = list(syncs("t.parquet", only(verdict_on(*rows))))
    assert [one.change[:14] for one in found] == ([] if is_behind else ["dcp.async_save"])


def test_syncs_of_folders_are_none_too_many() -> None:
    """They make names durable, which no sync of a file does."""
    for flags, advised in ((6, False), (0, True)):
        more = [R("sync", 9, 9.2, path="/d", file=None if flags else 1, flags=flags)] * 3
        found = list(syncs("t.parquet", only(verdict_on(*SAVE[:5], *more))))
        assert bool(found) is advised


def test_a_proof_has_less_of_what_there_is_too_much_of(make_trace: Make) -> None:
    """Fewer opens and syncs, and each byte read once."""
    found = {one["change"]: one for one in advice_on(make_trace(hasty_rows()))}
    for change in ("sync each file once, after its last write", "open each file once and keep it"):
        (command,) = (one["command"] for name, one in found.items() if name.startswith(change))
        counts = planned(command)
        assert counts["planned"]["data_requests"] == 40
        assert counts["planned"]["requests"] < 50 < 240 == counts["recorded"]["requests"]
    counts = planned(found["read each tensor's extent once"]["command"])
    assert 2 * counts["planned"]["bytes_read"] == counts["recorded"]["bytes_read"] == 80 * _SIZE
