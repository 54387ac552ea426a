"""The fuzzer runs, and finds nothing in a few hundred executions; `make fuzz` runs a million."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz import trial
from tests.fuzz.choices import Choices
from tests.fuzz.run import confirmed
from tests.fuzz.wild import wild_trace

ROOT = Path(__file__).parents[2]
EXECUTIONS = 400


def test_a_short_run_finds_nothing(tmp_path: Path) -> None:
    """The same executions in every run."""
    pytest.importorskip("atheris", reason="there is no coverage to guide by on this machine")
    command = [sys.executable, "-m", "tests.fuzz.run", "--executions", str(EXECUTIONS)]
    command += ["--seed", "1", "--findings", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    ran = re.search(r"(\d+) executions, 0 findings.*edges (\d+), .* corpus (\d+)", done.stdout)
    assert ran is not None, done.stdout
    executions, edges, kept = map(int, ran.groups())
    assert executions >= EXECUTIONS
    assert edges > 1000 and kept > 50
    for kind in trial.NAMES:
        assert re.search(rf"{kind} [1-9]", done.stdout), done.stdout


def test_a_finding_is_tried_again_alone(tmp_path: Path) -> None:
    """What is slow on a busy machine is none; what fails again is, and its traceback is kept."""
    pytest.importorskip("atheris", reason="there is no coverage to guide by on this machine")
    slow, failed = tmp_path / "timeout-1", tmp_path / "crash-1"
    slow.write_bytes(trial.selector("iolog") + b"fio version 3 iolog\n")
    failed.write_bytes(b"")  # the one input that no attempt takes
    assert confirmed(slow) is None
    assert "IndexError" in (confirmed(failed) or "")


def test_choices_make_traces_that_can_be_planned(tmp_path: Path) -> None:
    """Otherwise the plan's code is never reached."""
    came = {trial.try_rows(bytes([b]) * 400, tmp_path) for b in (0, 1)}
    assert "done" in came
    assert len(wild_trace(Choices(bytes(range(256)) * 4))) > 0
