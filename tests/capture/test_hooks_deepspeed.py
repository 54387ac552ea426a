"""DeepSpeed's fast engine hands torch.save a writer of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from .engine_job import run_engine_job

torch = pytest.importorskip("torch")


def test_each_tensor_lies_where_its_row_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In both formats; the writer that calls libaio needs pinned memory, so an accelerator."""
    monkeypatch.setenv("DS_ACCELERATOR", "cpu")
    pytest.importorskip("deepspeed")
    job = run_engine_job(tmp_path, "deepspeed_job.py")
    for name in ("zip.pt", "legacy.pt"):
        saved = torch.load(job.folder / name)
        for op in ("save", "load"):
            rows = job.rows("tensor", below=name, op=op)
            assert {row["name"] for row in rows} == {"w", "b"}
            # The legacy format sorts storages by a key that begins with their address.
            assert [row["offset"] for row in rows] == sorted(row["offset"] for row in rows)
            for row in rows:
                assert job.bytes_at(row) == saved[row["name"]].numpy().tobytes()
