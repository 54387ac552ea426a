"""Links of a ring: each runs after the one before, and only the last may say that it is done."""

from pathlib import Path

import pytest

from iotrace.capture.collector import collect
from iotrace.traces.check import check_trace
from iotrace.traces.trace import Trace

from .collected import rows
from .preload_job import capture, compile_program


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Chains of links, by the shared liburing."""
    return compile_program(tmp_path_factory.mktemp("program"), "uring_chains.c", "-O2", "-luring")


def run(program: Path, folder: Path, case: str) -> tuple[Trace, list[list[str]]]:
    """Return the trace of one case, and what the program printed."""
    (folder / "files").mkdir()
    extra = {"IOTRACE_EXCLUDE": "*/elsewhere"}
    captured = capture([program, folder / "files", case], folder / "logs", extra)
    assert captured.done.returncode == 0, captured.done.stderr
    printed = [line.split() for line in captured.done.stdout.decode().splitlines()]
    trace = collect(folder / "logs", [case])
    assert check_trace(trace) == []
    return trace, printed


@pytest.mark.parametrize(
    "case", ["positions", "short", "chosen", "slot", "outside", "silent outside"]
)
def test_links_are_recorded_as_the_kernel_ran_them(
    program: Path, tmp_path: Path, case: str
) -> None:
    """Silent ones move the position in the order of the chain; none moves more than it asks for."""
    trace, printed = run(program, tmp_path, case)
    names = ("op", "offset", "length", "result", "offset_source", "api")
    seen = [row for row in rows(trace, *names) if row[-1] == "io_uring"]
    numbers = [[op, *map(str, numbers)] for op, *numbers, _, _ in seen]
    assert numbers == [[op, *expected] for op, _, *expected in printed]
    is_tracked = case in ("positions", "slot")
    assert {row[-2] for row in seen} == {"tracked" if is_tracked else "argument"}
    assert trace.metadata.completeness.problems() == []


@pytest.mark.parametrize("case", ["appends", "silent appends", "appends elsewhere"])
def test_appends_in_one_chain_are_certain(program: Path, tmp_path: Path, case: str) -> None:
    """They run one after the other, each to where the one before has ended."""
    trace, printed = run(program, tmp_path, case)
    assert rows(trace, "offset", "result", "offset_source", op="write")[1:] == [
        (int(offset), int(result), "queried") for _, _, offset, _, result in printed
    ]
    assert trace.metadata.completeness.problems() == []


def test_appends_of_two_chains_at_once_are_a_doubt(program: Path, tmp_path: Path) -> None:
    """Which chain was first nobody can tell."""
    trace, _ = run(program, tmp_path, "two chains")
    (problem,) = trace.metadata.completeness.problems()
    assert problem.startswith("8 writes to the end of a file")


def test_a_shared_position_is_asked_for_beside_other_requests(
    program: Path, tmp_path: Path
) -> None:
    """What is in flight on another file does not move it; a splice does, as a write."""
    trace, _ = run(program, tmp_path, "splices")
    assert rows(trace, "offset", "result", "offset_source", op="write")[1:] == [
        (50, 30, "queried"),
        (80, 200, "queried"),
    ]
    assert trace.metadata.completeness.problems() == []


def test_a_registered_file_is_asked_for_its_position_by_its_descriptor(
    program: Path, tmp_path: Path
) -> None:
    """What comes after by the descriptor is behind it."""
    trace, _ = run(program, tmp_path, "slot")
    assert rows(trace, "offset", "result", op="write")[-1] == (300, 7)


def test_a_registered_file_without_a_descriptor_cannot_be_asked(
    program: Path, tmp_path: Path
) -> None:
    """The reason is told, and is no other request."""
    trace, _ = run(program, tmp_path, "closed slot")
    assert rows(trace, "offset", "result", op="write") == [(None, 100)] * 3
    assert trace.metadata.completeness.problems() == [
        "3 requests without an offset: no descriptor of the file was open by which the kernel "
        "tells its position or end"
    ]
