"""Ranks of a job that starts them itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from .engine_job import run_engine_job


def test_spawned_ranks_are_known_by_their_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a task of srun all of them have the task's variables; one may leave the group early."""
    monkeypatch.setenv("SLURM_PROCID", "0")
    monkeypatch.setenv("SLURM_NTASKS", "1")

    job = run_engine_job(tmp_path, "spawned_ranks.py")

    rows = [(job.name(row), row["rank"]) for row in job.rows("tensor", op="save")]
    names = [(f"{name}{rank}.pt", rank) for name in ("first", "second") for rank in (0, 1)]
    assert sorted(rows) == names
    places = {(p.rank, p.local_rank, p.world_size) for p in job.trace.metadata.processes}
    assert places >= {(0, -1, 2), (1, -1, 2)}
    steps = {job.name(row): row["step"] for row in job.rows("span", op="save")}
    assert steps == {"first0.pt": 0, "first1.pt": 0, "second0.pt": 1, "second1.pt": 1}
