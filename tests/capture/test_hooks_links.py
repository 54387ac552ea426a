"""Checkpoints behind symbolic links: tensors and requests are of the same files."""

from __future__ import annotations

from pathlib import Path

import pytest

from iotrace.traces.check import check_trace

from .engine_job import EngineJob, run_engine_job


@pytest.fixture(scope="module")
def linked(tmp_path_factory: pytest.TempPathFactory) -> EngineJob:
    """The finished job of linked.py."""
    return run_engine_job(tmp_path_factory.mktemp("linked"), "linked.py")


@pytest.mark.parametrize(
    ("op", "name", "file"),
    [
        ("save", "by_path", "by_path.pt"),
        ("save", "relative", "relative.pt"),
        ("save", "descriptor", "descriptor.tmp"),
        ("save", "renamed", "renamed.safetensors"),
        ("load", "relative", "latest.pt"),
        ("load", "renamed", "renamed.safetensors"),
    ],
)
def test_tensors_and_requests_are_of_one_file(
    linked: EngineJob, op: str, name: str, file: str
) -> None:
    """The kernel knows no link on the way; the job knows nothing else."""
    (row,) = linked.rows("tensor", op=op, name=name)
    requests = linked.rows("request", file=row["file"])

    assert linked.name(row) == f"link/{file}"
    assert row["file"] >= 0
    assert {request["op"] for request in requests} >= {"open", "close"}
    spans = linked.rows("span", op=op, step=row["step"])
    assert [linked.name(span) for span in spans] == [f"link/{file}"]


def test_a_rename_that_nobody_saw_keeps_the_folder_the_job_knows(linked: EngineJob) -> None:
    """safetensors renames by itself, in the folder that it was given."""
    trace = linked.trace
    targets = [path for path in trace.strings("target") if path]

    assert f"{linked.folder}/link/renamed.safetensors" in targets
    assert not [path for path in targets if Path(path).parent.name == "far"]
    assert check_trace(trace) == []
    assert [note for note in trace.metadata.completeness.notes if "rename" in note] == []


def test_a_link_to_a_descriptor_is_the_file_behind_it(linked: EngineJob) -> None:
    """Engines in containers are given /dev/stdout or /dev/fd/3 as their path."""
    for op in ("save", "load"):
        (row,) = linked.rows("tensor", op=op, name="given")
        assert linked.name(row) == "far/given.pt"
        assert {r["op"] for r in linked.rows("request", file=row["file"])} >= {"read", "write"}
