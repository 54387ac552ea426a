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
    captured = capture([program, folder / "files", case], folder / "logs")
    assert captured.done.returncode == 0, captured.done.stderr
    printed = [line.split() for line in captured.done.stdout.decode().splitlines()]
    trace = collect(folder / "logs", [case])
    assert check_trace(trace) == []
    assert trace.metadata.completeness.problems() == []
    return trace, printed


@pytest.mark.parametrize("case", ["positions", "short", "chosen"])
def test_links_are_recorded_as_the_kernel_ran_them(
    program: Path, tmp_path: Path, case: str
) -> None:
    """Silent ones move the position in the order of the chain; none moves more than it asks for."""
    trace, printed = run(program, tmp_path, case)
    names = ("op", "offset", "length", "result", "offset_source", "api")
    seen = [row for row in rows(trace, *names) if row[-1] == "io_uring"]
    numbers = [[op, *map(str, numbers)] for op, *numbers, _, _ in seen]
    assert numbers == [[op, *expected] for op, _, *expected in printed]
    assert {row[-2] for row in seen} == {"tracked" if case == "positions" else "argument"}
