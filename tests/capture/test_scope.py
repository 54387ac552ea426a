"""Which files a capture records, as the preload library applies it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from iotrace.capture.collector import collect
from iotrace.capture.preload import job_environment, library_path
from iotrace.capture.scope import Scope
from iotrace.traces.errors import IotraceError

READ = "import sys; [open(path, 'rb').read(1) for path in sys.argv[2:]]"
WRITE = "import sys; [open(path, 'wb').write(b'x') for path in sys.argv[2:]]"


def recorded(folder: Path, scope: Scope, program: str, *paths: Path) -> list[Path]:
    """Run a program under capture and return which of `paths` were recorded."""
    raw_dir = folder / "raw"
    raw_dir.mkdir()
    environ = job_environment(os.environ, str(library_path()), raw_dir, scope)
    subprocess.run([sys.executable, "-c", program, "-", *paths], env=environ, check=True)
    seen = set(collect(raw_dir, ()).codes("path")[1])
    return [path for path in paths if str(path) in seen]


@pytest.mark.parametrize(
    "name",
    ["lib/python3.12/json/x.txt", "site-packages/torch/x.json", "a.py", "b.pyc", "c.so", "d.so.6",
     ".git/HEAD", "venv/pyvenv.cfg"],
)  # fmt: skip
def test_what_every_program_reads_is_left_out_unless_it_is_written(
    tmp_path: Path, name: str
) -> None:
    """The interpreter's own files would bury the checkpoint; a job that writes one means it."""
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x")
    (tmp_path / "read").mkdir()
    (tmp_path / "write").mkdir()
    assert recorded(tmp_path / "read", Scope(), READ, path) == []
    assert recorded(tmp_path / "write", Scope(), WRITE, path) == [path]


def test_what_looks_like_a_checkpoint_or_data_is_recorded(tmp_path: Path) -> None:
    """Names that end like a library, or begin like a system folder, are none."""
    paths = [tmp_path / name for name in ("x.pt", "x.pth", "etc/x", "usr/x", "x.sofa", "x.pyx")]
    for path in paths:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"x")
    assert recorded(tmp_path, Scope(), READ, *paths) == paths


def test_include_and_exclude_narrow_what_is_recorded(tmp_path: Path) -> None:
    """`*` also matches slashes: one glob names a tree."""
    paths = [tmp_path / name for name in ("a/x.pt", "a/b/y.pt", "a/b/z.log", "c/w.pt")]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
    scope = Scope.of(include=[f"{tmp_path}/a/*"], exclude=["*.log"])
    assert recorded(tmp_path, scope, READ, *paths) == paths[:2]


def test_everything_means_reads_of_the_interpreter_too(tmp_path: Path) -> None:
    """Start-up cost on a shared file system is what some users come for."""
    module = Path(os.__file__)
    assert recorded(tmp_path, Scope.of(everything=True), READ, module) == [module]


def test_a_relative_glob_is_below_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Jobs name their folders relatively; the library sees absolute paths."""
    monkeypatch.chdir(tmp_path)
    scope = Scope.of(include=["ckpt/*", "*.pt", "/data/*"])
    assert scope.include == (f"{tmp_path}/ckpt/*", "*.pt", "/data/*")


@pytest.mark.parametrize("glob", ["", "a\nb"])
def test_a_glob_that_cannot_be_passed_on_is_refused(glob: str) -> None:
    """Globs reach the library separated by newlines."""
    with pytest.raises(IotraceError, match="no pattern"):
        Scope.of(include=[glob])
