"""Jobs in trouble see what they would have seen; the trace tells what was done until then."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from .hooked_job import BOOT, Job, run_job

JOBS = Path(__file__).parent / "jobs"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the job works in."""
    return tmp_path_factory.mktemp("trouble")


@pytest.fixture(scope="module")
def job(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Job:
    """The finished job of torch_trouble.py."""
    return run_job(tmp_path_factory.mktemp("logs"), JOBS / "torch_trouble.py", folder)


@pytest.fixture(scope="module")
def bare_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the same job without the library."""
    return tmp_path_factory.mktemp("bare")


@pytest.fixture(scope="module")
def bare(bare_folder: Path) -> Job:
    """The same job without the library."""
    return run_job(None, JOBS / "torch_trouble.py", bare_folder)


def test_errors_warnings_signatures_and_lifetimes_are_the_same(job: Job, bare: Job) -> None:
    """Each line that the job prints is something a job may depend on."""
    assert job.done.stdout.splitlines() == bare.done.stdout.splitlines()
    assert job.done.stderr == bare.done.stderr
    assert "None None None" in bare.done.stdout


@pytest.mark.usefixtures("job", "bare")
def test_failed_saves_leave_the_same_bytes(folder: Path, bare_folder: Path) -> None:
    """Half a file is evidence; it must be the half that torch wrote."""
    for name in ("unpicklable.pt", "closed.pt", "after.pt"):
        assert (folder / name).read_bytes() == (bare_folder / name).read_bytes(), name


def test_a_failed_save_does_not_hide_the_next_one(job: Job, folder: Path) -> None:
    """A span left open would swallow all later checkpoints."""
    (span,) = job.notes("span", op="save", path=str(folder / "after.pt"))
    (row,) = job.notes("tensor", op="save", path=str(folder / "after.pt"))

    assert row["step"] == span["step"]


def test_a_failed_load_tells_what_it_had_read(job: Job, folder: Path) -> None:
    """A load that dies on the device had read its bytes; their names died with it."""
    path = str(folder / "good.pt")
    unnamed = [row for row in job.notes("tensor", op="load", path=path) if row["name"] is None]

    assert {(row["dtype"], row["length"]) for row in unnamed} == {("uint8", 4000)}
    content = (folder / "good.pt").read_bytes()
    for row in unnamed:
        assert content[row["offset"]] == content[row["offset"] + 3996]
        assert content[row["offset"] :][:4] == b"\x00\x00\x80\x3f"  # 1.0


def test_threads_keep_their_saves_apart(job: Job, folder: Path) -> None:
    """Asynchronous engines save from several threads at once."""
    for index in range(4):
        for turn in range(5):
            path = str(folder / f"thread{index}_{turn}.pt")
            rows = job.notes("tensor", path=path)
            spans = job.notes("span", path=path)

            assert [row["name"] for row in rows] == [f"thread{index}"] * 2
            assert [row["op"] for row in rows] == [span["op"] for span in spans]
            assert [row["step"] for row in rows] == [span["step"] for span in spans]
            assert len({note["thread"] for note in rows + spans}) == 1
    steps = [span["step"] for span in job.notes("span", op="save", pid=job.logs[0].header.pid)]
    assert len(set(steps)) == len(steps)


def test_a_forked_child_counts_its_own_steps(job: Job, folder: Path) -> None:
    """A step is an ordinal of its process."""
    (row,) = job.notes("tensor", path=str(folder / "child.pt"))
    parents = {note["pid"] for note in job.notes("tensor", path=str(folder / "after.pt"))}

    assert row["step"] == 0
    assert row["pid"] not in parents


def test_a_compiled_job_is_compiled_as_before(tmp_path: Path) -> None:
    """torch.compile would trace into the hooks, and warn of what it finds there."""
    script = tmp_path / "job.py"
    script.write_text(
        "import torch\n"
        "from torch._dynamo.testing import CompileCounter\n"
        "counter = CompileCounter()\n"
        "@torch.compile(backend=counter)\n"
        "def step(x):\n"
        "    y = x + 1\n"
        "    torch.save({'y': y}, 'y.pt')\n"
        "    return y + torch.load('y.pt')['y']\n"
        "print(step(torch.ones(3)), counter.frame_count, counter.op_count)\n"
        "print(sum(torch._dynamo.utils.counters['graph_break'].values()))\n"
    )
    environ = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}
    command = ("-c", f"import os, runpy; os.chdir({str(tmp_path)!r}); runpy.run_path('job.py')")

    hooked = run_job(tmp_path / "logs", *command, environ=environ)
    bare = run_job(None, *command, environ=environ)

    assert (hooked.done.stdout, hooked.done.stderr) == (bare.done.stdout, bare.done.stderr)
    assert [note["bound"] for note in hooked.notes("hook", name="torch_compile")] == [True]
    assert [row["name"] for row in hooked.notes("tensor")] == ["y", "y"]


def test_a_hook_that_does_not_fit_says_why(tmp_path: Path) -> None:
    """A torch that has moved on is captured without tensors, and the trace says so."""
    script = tmp_path / "job.py"
    script.write_text(
        "import sys\n"
        "from importlib.machinery import SourceFileLoader\n"
        "class Newer(SourceFileLoader):\n"
        "    def exec_module(self, module):\n"
        "        super().exec_module(module)\n"
        "        module._write_archive = module.__dict__.pop('_save')\n"
        "class Finder:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name != 'torch.serialization':\n"
        "            return None\n"
        "        from importlib.util import spec_from_file_location\n"
        "        file = path[0] + '/serialization.py'\n"
        "        return spec_from_file_location(name, file, loader=Newer(name, file))\n"
        "names = [type(finder).__name__ for finder in sys.meta_path]\n"
        "sys.meta_path.insert(names.index('PostImportFinder') + 1, Finder())\n"
        "import torch\n"
        "print('trained')\n"
    )

    job = run_job(tmp_path / "logs", script)

    assert job.done.stdout == "trained\n"
    (note,) = job.notes("hook", name="torch_save")
    assert (note["bound"], note["detail"]) == (False, "torch.serialization has no _save")
    assert [hook["bound"] for hook in job.notes("hook", name="torch_load")] == [True]


def test_a_torch_that_passes_more_arguments_works_as_before(tmp_path: Path) -> None:
    """A later version may add one to any call that a wrapper stands before."""
    job = run_job(tmp_path / "logs", JOBS / "newer_torch.py", tmp_path / "w.pt")

    assert job.done.stdout == "[1.0, 1.0, 1.0]\n"
    rows = [(row["op"], row["name"], row["length"]) for row in job.notes("tensor")]
    assert rows == [("save", "w", 12), ("load", "w", 12)]


def test_a_library_that_raises_when_it_is_asked_is_no_reason_to_fail(tmp_path: Path) -> None:
    """Modules that import lazily raise whatever their import does, also for a version."""
    script = tmp_path / "job.py"
    script.write_text(
        "import sys, types, torch\n"
        "class Broken(types.ModuleType):\n"
        "    def __getattr__(self, name):\n"
        "        raise RuntimeError(name)\n"
        "torch.save({'w': torch.ones(3)}, sys.argv[1])\n"
        "sys.modules['lightning'] = Broken('lightning')\n"
        "print(torch.load(sys.argv[1])['w'].tolist())\n"
    )

    job = run_job(tmp_path / "logs", script, tmp_path / "w.pt")

    assert job.done.stdout == "[1.0, 1.0, 1.0]\n"
    rows = [(row["op"], row["name"]) for row in job.notes("tensor")]
    assert rows == [("save", "w"), ("load", "w")]


def test_modules_of_others_are_not_touched(tmp_path: Path) -> None:
    """Packages put objects among the modules that import something when they are asked."""
    script = tmp_path / "job.py"
    script.write_text(
        "import sys, types\n"
        "class Lazy(types.ModuleType):\n"
        "    def __getattribute__(self, name):\n"
        "        print(name)\n"
        "        raise ImportError(name)\n"
        "sys.modules['lazy'] = Lazy('lazy')\n"
        "import numpy\n"
        "from safetensors.numpy import load_file, save_file\n"
        "save_file({'w': numpy.ones(3, 'f4')}, sys.argv[1])\n"
        "load_file(sys.argv[1])\n"
    )

    hooked = run_job(tmp_path / "logs", script, tmp_path / "w")
    bare = run_job(None, script, tmp_path / "w")

    assert hooked.done.stdout == bare.done.stdout
    assert hooked.notes("hook", bound=False) == []
    rows = [(row["op"], row["name"]) for row in hooked.notes("tensor")]
    assert rows == [("save", "w"), ("load", "w")]


def test_without_the_library_the_hooks_do_nothing(tmp_path: Path) -> None:
    """A child may inherit the hooks' module and lose the preload library."""
    script = tmp_path / "job.py"
    script.write_text(
        "import sys\n"
        f"boot = {str(BOOT)!r}\n"
        "exec(open(boot).read(), {'__name__': '_iotrace_hooks.boot', '__file__': boot})\n"
        "import torch\n"
        "print('_iotrace_hooks' in sys.modules)\n"
        "print(hasattr(torch.serialization._save, '__wrapped__'))\n"
    )

    done = run_job(None, script).done

    assert done.stdout == "True\nFalse\n"
