"""What the hooks cost, with many tensors of hardly any bytes: the worst there is."""

from __future__ import annotations

import json
from pathlib import Path

from .hooked_job import run_job

JOB = Path(__file__).parent / "jobs" / "torch_many.py"
TENSORS = 3000
COST_MAX_US = 120  # per tensor; 6 to 10 where nothing else runs, and CI is not such a place


def test_thousands_of_tensors_cost_microseconds_each(tmp_path: Path) -> None:
    """A checkpoint must not get slower for being watched."""
    arguments = (JOB, tmp_path, str(TENSORS))

    bare = json.loads(run_job(None, *arguments).done.stdout)
    job = run_job(tmp_path / "logs", *arguments)

    hooked = json.loads(job.done.stdout)
    costs = {op: hooked[op] - bare[op] for op in bare}
    assert {op: cost for op, cost in costs.items() if cost > COST_MAX_US} == {}
    assert len(job.notes("tensor", op="save", step=4)) == TENSORS
