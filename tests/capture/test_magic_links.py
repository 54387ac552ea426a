"""Files that are opened through links of /proc: what they lead to is written and read."""

import os
from pathlib import Path

import pytest

from iotrace.capture.collector import collect
from iotrace.traces.check import check_trace
from iotrace.traces.trace import Trace

from .collected import rows
from .preload_job import PYTHON, capture, compile_program

LINKS = (
    *("/proc/self/fd/0", "/proc/thread-self/fd/0", "PID/fd/0"),
    *("/dev/fd/0", "/dev/stdin", "/dev/stdout", "/proc/self/cwd/file", "/proc/self/root@/file"),
)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Writes a file, opens it anew by a link, writes and reads it."""
    return compile_program(tmp_path_factory.mktemp("program"), "links.c", "-O2", "-luring")


def inside(folder: Path) -> dict[str, str]:
    return {"IOTRACE_INCLUDE": f"{folder}/*"}


def collected(folder: Path) -> Trace:
    trace = collect(folder / "logs", ["job"])
    assert check_trace(trace) == []
    assert trace.metadata.completeness.problems() == []
    return trace


@pytest.mark.parametrize("way", ["open", "fopen", "uring"])
@pytest.mark.parametrize("link", LINKS)
def test_what_goes_through_a_link_is_of_the_file_it_leads_to(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, link: str, way: str
) -> None:
    """21 writes of 2,000,000 bytes and 20 reads of 1,000,000, as the kernel sees them."""
    folder = tmp_path / "files"
    folder.mkdir()
    monkeypatch.chdir(folder)
    link = link.replace("@", os.fspath(folder))
    captured = capture([program, folder / "file", link, way], tmp_path / "logs", inside(folder))
    assert captured.done.returncode == 0, captured.done.stderr
    trace = collected(tmp_path)
    path = os.fspath(folder / "file")
    assert rows(trace, "path", "result", op="write") == [(path, 1_000_000)] + 20 * [(path, 50_000)]
    assert rows(trace, "path", "result", op="read") == 20 * [(path, 50_000)]


@pytest.mark.parametrize("spelling", ["/proc/./self/fd/{fd}", "/proc/self/../self/fd/{fd}"])
@pytest.mark.parametrize("before", ["", "os.unlink('file')", "os.rename('file', 'other')"])
def test_odd_spellings_and_files_that_lost_their_name(
    tmp_path: Path, spelling: str, before: str
) -> None:
    """What a link leads to is asked when the file is open."""
    code = (
        f"import os; os.chdir({os.fspath(tmp_path)!r})\n"
        "fd = os.open('file', os.O_RDWR | os.O_CREAT)\n"
        f"os.write(fd, b'12'); {before or 'pass'}\n"
        f"again = os.open(f'{spelling}', os.O_RDWR)\n"
        "os.pwrite(again, b'345', 0)\nos.pread(again, 3, 0)\n"
    )
    captured = capture([*PYTHON, code], tmp_path / "logs", inside(tmp_path))
    assert captured.done.returncode == 0, captured.done.stderr
    trace = collected(tmp_path)
    assert rows(trace, "result", op="write") == [(2,), (3,)]
    assert rows(trace, "result", op="read") == [(3,)]
    (path,) = rows(trace, "path", op="read")[0]
    assert path == os.fspath(tmp_path / ("other" if "rename" in before else "file"))


def test_pipes_and_files_of_the_kernel_behind_links_are_none_of_ours(tmp_path: Path) -> None:
    code = (
        "import os; fds = (*os.pipe(), os.memfd_create('m'), os.open('/proc/self/stat', 0))\n"
        "[os.close(os.open(f'{f}/{fd}', 0)) for fd in fds for f in ('/proc/self/fd', '/dev/fd')]\n"
        f"open({os.fspath(tmp_path / 'file')!r}, 'w').close()\n"
    )
    captured = capture([*PYTHON, code], tmp_path / "logs", inside(tmp_path))
    assert captured.done.returncode == 0, captured.done.stderr
    opened = {path for (path,) in rows(collected(tmp_path), "path", op="open")}
    assert opened == {os.fspath(tmp_path / "file")}
