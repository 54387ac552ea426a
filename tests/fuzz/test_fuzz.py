"""The fuzzer runs, and finds nothing in a few hundred executions; `make fuzz` runs a million."""

import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
EXECUTIONS = 400


def test_a_short_run_finds_nothing(tmp_path: Path) -> None:
    """Another seed every day: CI adds up."""
    seed = int(time.time()) // 86_400
    command = [sys.executable, "-m", "tests.fuzz.run", "--executions", str(EXECUTIONS)]
    command += ["--seed", str(seed), "--findings", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{EXECUTIONS} executions, 0 findings" in done.stdout
