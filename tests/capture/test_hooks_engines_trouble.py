"""Engines in trouble, and engines of other versions, under the real library."""

from __future__ import annotations

from pathlib import Path

import pytest

from iotrace.capture.collector import collect

from .engine_job import JOBS, EngineJob, run_engine_job
from .hooked_job import run_job


@pytest.fixture(scope="module")
def trouble(tmp_path_factory: pytest.TempPathFactory) -> EngineJob:
    """The finished job of engine_trouble.py."""
    return run_engine_job(tmp_path_factory.mktemp("trouble"), "engine_trouble.py")


def test_errors_and_signatures_are_the_same(trouble: EngineJob, tmp_path: Path) -> None:
    """Each line that the job prints is something a job may depend on."""
    bare = run_job(None, JOBS / "engine_trouble.py", tmp_path)

    assert trouble.job.done.stdout.splitlines() == bare.done.stdout.splitlines()
    assert bare.done.stdout.count("good") == 4


@pytest.mark.parametrize("name", ["good", "good2", "snap2", "snap3"])
def test_a_failure_does_not_hide_the_next_step(trouble: EngineJob, name: str) -> None:
    """A span left open would swallow all that comes after it."""
    (span,) = trouble.rows("span", below=name, op="save")
    rows = trouble.rows("tensor", below=name, op="save", step=span["step"])

    assert "a" in {row["name"].removeprefix("m.") for row in rows}
    for row in rows:
        assert len(trouble.bytes_at(row)) == row["length"]
    writes = trouble.rows("request", below=name, op="write")
    assert {row["step"] for row in writes} == {span["step"]}


def test_steps_of_failed_saves_are_counted_once(trouble: EngineJob) -> None:
    """A failed save is a step too: its requests were made."""
    spans = trouble.rows("span")
    for engine in ("dcp", "torchsnapshot"):
        for op in ("save", "load"):
            # Both engines count on: steps are the process's.
            steps = [s["step"] for s in spans if s["op"] == op and s["engine"] == engine]
            assert len(set(steps)) == len(steps) > 0


NEWER = """
import sys
from importlib.machinery import PathFinder

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name != {module!r}:
            return None
        spec = PathFinder.find_spec(name, path)
        run = spec.loader.exec_module
        def exec_module(module):
            run(module)
            function = module.{function}
            module.{function} = lambda *args, **kwargs: function(*args, **kwargs)
        spec.loader.exec_module = exec_module
        return spec

names = [type(finder).__name__ for finder in sys.meta_path]
sys.meta_path.insert(names.index("PostImportFinder") + 1, Finder())
import runpy
sys.argv = {argv!r}
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.mark.parametrize(
    ("module", "function", "hook", "parameter", "script"),
    [
        (
            "torch.distributed.checkpoint.filesystem",
            "_write_item",
            "dcp_write",
            "write_item",
            "dcp_cases.py",
        ),
        (
            "torchsnapshot.snapshot",
            "prepare_write",
            "torchsnapshot_take",
            "obj",
            "snapshot_cases.py",
        ),
    ],
)
def test_another_version_is_captured_without_its_tensors(
    tmp_path: Path, module: str, function: str, hook: str, parameter: str, script: str
) -> None:
    """A hook that no longer fits says so; the requests are all there."""
    folder = tmp_path / "files"
    folder.mkdir()
    job = tmp_path / "job.py"
    argv = [str(JOBS / script), str(folder)]
    job.write_text(NEWER.format(module=module, function=function, argv=argv))

    done = run_job(tmp_path / "raw", job)

    (note,) = done.notes("hook", bound=False)
    assert note["name"] == hook
    assert note["detail"].endswith(f"has no parameter {parameter}")
    trace = EngineJob(folder, done, collect(tmp_path / "raw", [script]))
    assert trace.rows("tensor", op="save", engine=note["engine"]) == []
    assert note["detail"] in " ".join(trace.trace.metadata.completeness.problems())
    written = {name: calls.bytes_written for name, calls in trace.calls().items()}
    files = {
        str(path.relative_to(folder)): path.stat().st_size
        for path in folder.rglob("*")
        if path.is_file()
    }
    assert {name: written[name] for name in files if ".metadata" not in name} == {
        name: size for name, size in files.items() if ".metadata" not in name
    }
