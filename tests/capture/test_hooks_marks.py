"""Spans that a job marks itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from iotrace.capture.collector import collect
from iotrace.traces.check import check_trace
from iotrace.traces.trace import Trace

from .hooked_job import run_job

JOB = Path(__file__).parent / "jobs" / "marked.py"


def marked(tmp_path: Path, *arguments: str) -> Trace:
    """Run the job under capture and return its trace."""
    (tmp_path / "files").mkdir()
    job = run_job(tmp_path / "logs", JOB, tmp_path / "files", *arguments)
    assert job.done.stdout == "raised\n"
    trace = collect(tmp_path / "logs", ("python", JOB.name))
    assert check_trace(trace) == []
    return trace


def spans(trace: Trace) -> list[tuple[str | None, str | None, str | None, int]]:
    """Return op, engine, name and step of the spans in order of start."""
    rows = trace.where(trace.row_mask(layer="span"))
    columns = (rows.strings("op"), rows.strings("engine"), rows.strings("name"))
    return list(zip(*columns, rows.ints("step").tolist(), strict=True))


def steps(trace: Trace) -> dict[str, tuple[str | None, int]]:
    """Return engine and step of the writes by file name."""
    rows = trace.where(trace.row_mask(layer="request", op="write"))
    names = (Path(path or "").name for path in rows.strings("path"))
    return dict(
        zip(
            names,
            zip(rows.strings("engine"), rows.ints("step").tolist(), strict=True),
            strict=True,
        )
    )


def test_a_job_runs_the_same_without_capture(tmp_path: Path) -> None:
    """The snippet of the documentation has no dependency."""
    job = run_job(None, JOB, tmp_path)
    assert job.done.stdout == "raised\n"
    assert (tmp_path / "mine100").read_bytes() == b"22"


def test_marks_are_rows_and_give_requests_their_step(tmp_path: Path) -> None:
    """An op that is not known makes no row, an error passes through, a bad step is none.

    Nothing that a mark is given raises in the job, and a working folder that is gone neither.
    """
    trace = marked(tmp_path)
    assert spans(trace) == [
        ("save", None, "mine", 100),
        ("save", None, "mine", 200),
        ("barrier", None, None, -1),
        ("wait", None, "here", 300),
        ("wait", None, None, -1),
        ("wait", None, "7", -1),
        ("load", None, None, -1),
        ("load", None, None, -1),
        ("load", None, None, -1),
    ]
    paths = trace.where(trace.row_mask(layer="span", op="wait")).strings("path")
    assert paths == [str(tmp_path / "files" / "before"), None, None]
    paths = trace.where(trace.row_mask(layer="span", op="load")).strings("path")
    assert paths == [None, None, "/abs/x"]
    assert steps(trace) == {
        "before": (None, -1),
        "mine100": (None, 100),
        "mine200": (None, 200),
        "barrier": (None, -1),
    }


def test_an_engine_inside_a_mark_keeps_its_name_and_takes_the_step(tmp_path: Path) -> None:
    """The job counts its steps better than we can."""
    pytest.importorskip("torch")
    trace = marked(tmp_path, "torch")
    assert [one for one in spans(trace) if one[1]] == [
        ("save", "torch.save", None, 100),
        ("save", "torch.save", None, 200),
    ]
    found = steps(trace)
    assert found["100.pt"] == ("torch.save", 100)
    assert found["200.pt"] == ("torch.save", 200)
    assert found["mine200"] == (None, 200)
