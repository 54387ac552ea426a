"""Lightning saves into memory first: its tensors are found in the file all the same."""

from __future__ import annotations

import pytest

from .engine_job import EngineJob, run_engine_job

torch = pytest.importorskip("torch")
pytest.importorskip("lightning")


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> EngineJob:
    """Return a captured job that saved twice and loaded."""
    return run_engine_job(tmp_path_factory.mktemp("lightning"), "lightning_job.py")


def test_each_tensor_lies_where_its_row_says(job: EngineJob) -> None:
    """`Trainer.save_checkpoint` hands torch.save a BytesIO, and its bytes to a temporary file."""
    saved = torch.load(job.folder / "model.ckpt", weights_only=False)
    weight = saved["state_dict"]["layer.weight"]
    for op, steps in (("save", (0, 1)), ("load", (0,))):
        for step in steps:
            rows = job.rows("tensor", op=op, step=step)
            assert len(rows) == 8
            (row,) = [row for row in rows if row["name"] == "state_dict.layer.weight"]
            assert (row["shape"], row["dtype"]) == ((70, 300), "float32")
            assert job.bytes_at(row) == weight.numpy().tobytes()
    assert [row["step"] for row in job.rows("span", op="save")] == [0, 1]


def test_the_requests_of_a_save_are_of_its_step(job: EngineJob) -> None:
    """They come after torch.save is done, and go to a file that is given its name at last."""
    writes = job.trace.where(job.trace.row_mask(layer="request", op="write"))
    large = writes.where(writes.ints("result") > 80_000)
    assert large.ints("step").tolist() == [0, 1]
    tensors = job.trace.where(job.trace.row_mask(layer="tensor", op="save"))
    assert set(large.ints("file").tolist()) == set(tensors.ints("file").tolist())
