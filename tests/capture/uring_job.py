"""Jobs that use rings under capture, and their requests as the programs print them."""

from __future__ import annotations

from pathlib import Path

from .preload_job import Captured, Request, capture


def run(program: Path, folder: Path, *case: str) -> Captured:
    """Return what came of one case, which must end well."""
    (folder / "files").mkdir()
    captured = capture([program, folder / "files", *case], folder / "logs")
    assert captured.done.returncode == 0, captured.done.stderr
    return captured


def asynchronous(captured: Captured) -> list[Request]:
    """Return the requests through rings, in the order of submission."""
    return [request for request in captured.requests() if request.api == "io_uring"]


def lines(requests: list[Request]) -> list[str]:
    """Return requests as the programs print them."""
    return [f"{r.op} {r.name or '-'} {r.offset} {r.length} {r.result}" for r in requests]


def assert_all_accounted(captured: Captured) -> None:
    """Check that nothing was dropped, and nothing came that could not be told apart."""
    for log in captured.logs:
        outside = log.header.outside
        assert (outside.unmatched_completions, outside.unknown_submissions) == (0, 0)
        assert outside.dropped_records == log.torn_records == 0
