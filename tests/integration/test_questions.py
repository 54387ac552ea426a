"""What people ask about their checkpoints: the job, the command, the line with the answer.

Each question is answered in the first lines of `iotrace why`.
"""

import os
import re
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from iotrace.replay.probe import probe
from iotrace.replay.probe_cache import save_probe
from tests.tools.command import iotrace

JOBS = Path(__file__).parent / "jobs" / "questions.py"
CORPUS = Path(__file__).parents[2] / "traces" / "corpus"
_FIRST_LINES = 12  # of 80 columns

Ask = Callable[..., dict[str, str]]


def run(*words: object, **more: str) -> str:
    """Run `iotrace`; return what it printed."""
    done = iotrace(*words, extra_env=more)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Ask:
    """Capture a job once, ask why, and return the verdict by label."""
    folder = tmp_path_factory.mktemp("questions")
    os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
    save_probe(folder, probe(folder, budget_seconds=0.5))
    del os.environ["XDG_CACHE_HOME"]

    @cache
    def why(case: str, *launcher: str) -> dict[str, str]:
        trace = CORPUS / f"{case}.parquet"
        if not trace.exists():
            trace = folder / f"{case}.parquet"
            run("capture", "-o", trace, "--", *(launcher or (sys.executable,)), JOBS, case, folder)
        shown = run("why", trace, "--no-probe", "--root", folder, XDG_CACHE_HOME=f"{folder}/cache")
        return verdict(shown)

    return why


def verdict(shown: str) -> dict[str, str]:
    """Return the lines before the evidence, by label; `advice`: all that could be changed."""
    lines = shown.split("\n\n")[0].splitlines()
    assert len(lines) <= _FIRST_LINES + 4, shown  # what makes a trace incomplete comes before
    found: dict[str, str] = {}
    label = ""
    for line in lines:
        label = line[:9].strip() or label
        found[label] = f"{found.get(label, '')} {line[9:].strip()}".strip()
    found["advice"] = " ".join(shown.partition("What to change")[2].split())
    return found


def percent(line: str, what: str) -> int:
    """Return how much of the time `line` gives to `what`; 0 if it says nothing."""
    match = re.search(rf"{what} [<>]?(\d+) %", line)
    return int(match[1]) if match else 0


def test_fio_says_gigabytes_and_the_save_runs_at_megabytes(ask: Ask) -> None:
    """Size, depth and latency of the requests, against what this storage gives."""
    found = ask("tiny")
    assert re.match(r"1,00\d of 4\.06 KiB, one at a time, .* each = .*/s", found["writes"])
    assert re.search(r"1 MiB: (direct|buffered) writes .*/s \(depth \d\)", found["here"])


def test_is_it_the_disk_the_code_or_a_sync(ask: Ask) -> None:
    """Two jobs that look alike from outside."""
    assert percent(ask("tiny")["save"], "own code") > 60
    assert percent(ask("synced")["save"], "syncs") > 50
    assert "sync each file once" in ask("synced")["change"]


def test_are_we_waiting_for_another_rank_and_for_which(ask: Ask) -> None:
    """Rank 1 comes a second late; rank 0 waits for it."""
    torchrun = str(Path(sys.executable).with_name("torchrun"))
    found = ask("straggler", torchrun, "--nproc_per_node", "2")
    match = re.search(r"rank 1 last, others wait ([\d.]+) (m?s)", found["save"])
    assert match, found["save"]
    assert 0.3 < float(match[1]) / (1000 if match[2] == "ms" else 1) < 30


def test_how_often_is_every_byte_read_and_the_file_opened(ask: Ask) -> None:
    """Two ranks that load the whole file."""
    found = ask("everything")
    assert re.search(r"read 16\.0 MiB \(2x, all\.pt opened by 2 ranks\)", found["bytes"])
    assert "broadcast" in found["advice"]  # which comes first depends on the storage


def test_what_is_left_if_the_node_dies_in_the_middle(ask: Ask) -> None:
    """Under its own name, or renamed into place."""
    assert "in place: a kill leaves a torn file" in ask("tiny")["durable"]
    assert "renamed: a kill leaves the old file" in ask("renamed")["durable"]


def test_is_it_on_disk_when_save_returns(ask: Ask) -> None:
    """No engine but one syncs."""
    assert ask("tiny")["durable"].startswith("no: 0 of 1 file synced at return")
    assert ask("synced")["durable"].startswith("yes: 1 file synced at return")


def test_unexpected_pos_is_told_as_what_happened(ask: Ask) -> None:
    """The first error with its file and tensor, before any time."""
    found = ask("limit")
    assert list(found)[:2] == ["trace", "error"]
    assert "File too large (EFBIG)" in found["error"]
    assert "limit.pt" in found["error"] and "tensor l" in found["error"]
    assert "before it a write moved" in found["error"]


def test_does_an_asynchronous_save_run_in_the_background(ask: Ask) -> None:
    """How long the call took, what ran behind the job, what it waited in the end."""
    found = ask("datastates-llm")
    assert re.match(
        r"call 2\.23 ms; 100 % of .* of I/O behind the job, which waited 303 µs", found["async"]
    )


def test_why_is_the_file_bigger_than_the_model(ask: Ask) -> None:
    """A view drags its whole storage along: 8 MiB for 40 bytes."""
    found = ask("view")
    assert found["bytes"].startswith("wrote 8.00 MiB (209,752x the tensors")
    assert "clone()" in found["change"]


def test_was_that_number_from_the_page_cache(ask: Ask) -> None:
    """A load of what was just saved."""
    assert re.search(r"\((> 99|>= \d+) % cached\)", ask("everything")["reads"])
