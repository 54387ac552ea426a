"""What an input may take of memory, and what of it may stay, held by the real fuzzer."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz import trial
from tests.fuzz.run import BACKSTOP_MIB

ROOT = Path(__file__).parents[2]
CHILD = """
import atheris
import numpy as np
from tests.fuzz import child, trial
from iotrace.replay.job import check_job
from iotrace.replay.schedule import schedule
from iotrace.replay.sketch import sketch
from iotrace.replay.transforms.align import Align
from iotrace.replay.transforms.prefetch import Prefetch
from iotrace.replay.transforms.split import Split

kept = []

@atheris.instrument_func
def attempt(content, folder):
    {does}

trial.attempt = attempt
child.main()
"""
MIB = 1 << 20


def fuzzed(tmp_path: Path, does: str, runs: int) -> str:
    """Return what a child says that does this with each input; "" if it ended well."""
    pytest.importorskip("atheris", reason="there is no coverage to guide by on this machine")
    counts, work = tmp_path / "counts", tmp_path / "work"
    counts.write_bytes(bytes(8 * len(trial.NAMES) + 8))
    work.mkdir(exist_ok=True)
    command = [sys.executable, "-c", CHILD.format(does=does)]
    command += [str(counts), str(work), f"-runs={runs}", "-seed=1"]
    command += [f"-rss_limit_mb={BACKSTOP_MIB}", f"-artifact_prefix={tmp_path}/"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    said = done.stdout + done.stderr
    assert (done.returncode != 0) == ("ERROR" in said), said
    return said if done.returncode else ""


def test_what_a_comparison_makes_is_freed(tmp_path: Path) -> None:
    """Atheris alone keeps a mebibyte of each."""
    runs = 2 * trial.GROWN_BYTES // MIB
    assert fuzzed(tmp_path, f"np.zeros({MIB}) < 1", runs) == ""


def test_memory_that_inputs_leave_is_a_finding(tmp_path: Path) -> None:
    """However little each of them takes."""
    runs = 2 * trial.GROWN_BYTES // MIB
    said = fuzzed(tmp_path, f"kept.append(np.ones({MIB} >> 3))", runs)
    assert "MiB are kept of inputs that are over: a leak" in said


def test_an_input_may_take_what_the_fuzzer_does_not(tmp_path: Path) -> None:
    """Also in a child that keeps almost as much as it may."""
    grows = f"len(kept) < 4 and kept.append(np.ones({100 * MIB} >> 3))"
    assert fuzzed(tmp_path, f"{grows}; np.ones({750 * MIB} >> 3)", 6) == ""


def test_an_input_that_takes_more_is_a_finding(tmp_path: Path) -> None:
    """It is told apart from what the fuzzer holds."""
    assert "more than a gigabyte" in fuzzed(tmp_path, f"np.ones({trial.MEMORY_BYTES} >> 3)", 5)


def test_the_largest_plan_fits(tmp_path: Path) -> None:
    """Of two requests, in bytes: as many cuts as may be, and half as many blocks."""
    half = trial.MOST_REQUESTS // 2 << 10
    lines = f"open a w+create,write a 0 {half},close a,open a r,read a 0 {half},close a"
    plan = f"plan = sketch({lines!r}.replace(',', chr(10)))"
    steps = "Split(1024), Align(512), Prefetch(1024, 1024)"
    planned = (
        f"{plan}; [plan := step(plan) for step in ({steps})]; check_job(schedule(plan, 4).job)"
    )
    assert fuzzed(tmp_path, planned, 1) == ""
    assert "PlanError" in fuzzed(tmp_path, f"{plan}; Split(512)(plan)", 1)
