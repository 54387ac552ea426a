"""What the ranks counted apart becomes the steps of the job."""

from pathlib import Path

from .engine_job import run_engine_job


def test_a_save_of_one_rank_alone_does_not_shift_its_later_steps(tmp_path: Path) -> None:
    """Different checkpoints of different ranks are never one step."""
    job = run_engine_job(tmp_path, "uneven_ranks.py", ranks=2)
    rows = [*job.rows("span"), *job.rows("tensor"), *job.rows("counter")]
    places = [row for row in rows if row["path"] and row["step"] is not None]
    saves, loads = (
        {
            (row["step"], Path(row["path"]).relative_to(job.folder).parts[0], row["rank"])
            for row in places
            if (row["op"] == "load") == is_load and row["op"] != "counter"
        }
        for is_load in (False, True)
    )
    both = {0: "dcp0", 2: "own0", 3: "dcp1", 5: "own1", 6: "later"}
    alone = {(1, "alone0.pt", 0), (4, "alone1.pt", 0)}
    assert saves == alone | {(step, name, rank) for step, name in both.items() for rank in (0, 1)}
    assert loads == {(0, "dcp1", rank) for rank in (0, 1)}
    for row in job.rows("request", op="write"):
        name = Path(row["path"]).relative_to(job.folder).parts[0]
        assert (row["step"], name) in {(step, name) for step, name, _ in saves}, row
