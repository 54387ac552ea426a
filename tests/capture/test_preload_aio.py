"""libaio and POSIX aio under capture."""

from pathlib import Path

import pytest

from .preload_job import Captured, capture, compile_program


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("program")
    return compile_program(folder, "aio.c", "-O2", "-laio", "-pthread")


def run(program: Path, folder: Path, case: str) -> Captured:
    (folder / "files").mkdir()
    captured = capture([program, folder / "files", case], folder / "logs")
    assert captured.done.returncode == 0, captured.done.stderr
    return captured


@pytest.mark.parametrize(
    ("case", "file", "api"), [("libaio", "kernel", "libaio"), ("posix", "posix", "posix")]
)
def test_each_asynchronous_request_is_recorded(
    program: Path, tmp_path: Path, case: str, file: str, api: str
) -> None:
    """DeepSpeed writes by libaio; submitted in one thread, the end is seen in another."""
    captured = run(program, tmp_path, case)
    requests = [r for r in captured.of(file) if r.op not in ("open", "close")]
    seen = [f"{r.op} {r.name} {r.offset} {r.length} {r.result}" for r in requests]
    assert seen == captured.done.stdout.decode().splitlines()
    assert {request.api for request in requests} == {api}
    assert all(request.end_ns > request.start_ns for request in requests)
    assert captured.log.header.outside.dropped_records == captured.log.torn_records == 0
