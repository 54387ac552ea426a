"""Python under the preload library: the hooks are there, and nothing else has changed."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

from .hooked_job import BOOT, run_job

OLDEST, NEWEST = (3, 9), (3, 14)
IS_BOOTED = "import sys, uuid; print('_iotrace_hooks' in sys.modules)"
KIND = (
    "import sys, sysconfig;"
    "print(*sys.version_info[:2], sysconfig.get_config_var('Py_ENABLE_SHARED'))"
)


def candidates() -> Iterator[Path]:
    """Yield where interpreters may be: this one, the system's, those beside this one's base."""
    yield Path(sys.executable)
    yield from (Path(found) for found in [shutil.which("python3", path=os.defpath)] if found)
    yield from sorted(Path(sys.base_prefix).parent.glob("*/bin/python3.[0-9]*"))


def interpreters() -> dict[str, Path]:
    """Return a supported interpreter for each version and kind of build found here."""
    found: dict[str, Path] = {}
    for path in candidates():
        if not re.fullmatch(r"python(3(\.\d+)?)?", path.name):
            continue
        answer = subprocess.run([path, "-c", KIND], capture_output=True, text=True, check=False)
        if answer.returncode:
            continue
        major, minor, shared = answer.stdout.split()
        if OLDEST <= (int(major), int(minor)) <= NEWEST:
            name = f"{major}.{minor} {'shared' if shared == '1' else 'static'}"
            found.setdefault(name, path)
    return found


INTERPRETERS = interpreters()


@pytest.fixture(params=INTERPRETERS)
def python(request: pytest.FixtureRequest) -> Path:
    """Each interpreter that is here."""
    return INTERPRETERS[request.param]


@pytest.mark.parametrize(
    "flags", [(), ("-I", "-E", "-S"), ("-O", "-B")], ids=lambda flags: " ".join(flags) or "none"
)
def test_hooks_start_in_every_python(python: Path, flags: tuple[str, ...], tmp_path: Path) -> None:
    """Also where neither site nor the environment is read."""
    job = run_job(tmp_path / "logs", "-c", IS_BOOTED, python=(python, *flags))

    assert job.done.stdout == "True\n"


def test_every_file_of_the_hooks_runs_on_every_python(python: Path, tmp_path: Path) -> None:
    """The job's Python is not ours to choose; nor is our folder its to write byte code into."""
    hooks = shutil.copytree(BOOT.parent, tmp_path / "hooks", ignore=lambda *_: ["__pycache__"])
    files = sorted(path.stem for path in hooks.glob("*.py") if path.stem != "__init__")
    script = tmp_path / "job.py"
    script.write_text(
        "import importlib, sys\n"
        "for name in sys.argv[1:]:\n"
        "    importlib.import_module('_iotrace_hooks.' + name)\n"
        "from _iotrace_hooks import process, zip_layout\n"
        "assert process.describe()['libraries'] is not None\n"
        "print(zip_layout.place_record(0, 10, 100, 64))\n"
    )

    job = run_job(tmp_path / "logs", script, *files, python=(python,), boot=hooks / "boot.py")

    assert job.done.stdout == "Extent(offset=64, next_header=180)\n"
    assert not (hooks / "__pycache__").exists()


def test_hooks_start_however_the_job_is_started(tmp_path: Path) -> None:
    """Scripts, modules, packages and standard input are all ways to train."""
    (tmp_path / "job.py").write_text(IS_BOOTED)
    (tmp_path / "__main__.py").write_text(IS_BOOTED)
    environ = {**os.environ, "PYTHONPATH": str(tmp_path)}
    ways = [(tmp_path / "job.py",), ("-m", "job"), (tmp_path,), ("-",)]

    outputs = [
        run_job(tmp_path / "logs", *way, environ=environ, stdin=IS_BOOTED).done.stdout
        for way in ways
    ]

    assert outputs == ["True\n"] * len(ways)


def test_hooks_start_under_pytest(tmp_path: Path) -> None:
    """It rewrites imports itself; many save in their tests."""
    (tmp_path / "test_job.py").write_text(
        "import sys\ndef test_booted():\n    assert '_iotrace_hooks' in sys.modules\n"
    )

    job = run_job(tmp_path / "logs", "-m", "pytest", "-q", "-p", "no:cacheprovider", tmp_path)

    assert "1 passed" in job.done.stdout


def test_hooks_start_in_every_kind_of_child(python: Path, tmp_path: Path) -> None:
    """Ranks, loaders and asynchronous checkpoints are children."""
    script = tmp_path / "job.py"
    script.write_text(
        "import multiprocessing, sys\n"
        "def report(queue):\n"
        "    queue.put('_iotrace_hooks' in sys.modules)\n"
        "if __name__ == '__main__':\n"
        "    for method in ('fork', 'spawn', 'forkserver'):\n"
        "        context = multiprocessing.get_context(method)\n"
        "        queue = context.SimpleQueue()\n"
        "        child = context.Process(target=report, args=(queue,))\n"
        "        child.start()\n"
        "        print(method, queue.get())\n"
        "        child.join()\n"
    )

    job = run_job(tmp_path / "logs", script, python=(python,))

    assert job.done.stdout == "fork True\nspawn True\nforkserver True\n"


def test_hooks_start_beside_a_subinterpreter(python: Path, tmp_path: Path) -> None:
    """Embedding servers run jobs in them; the hooks live in the main interpreter."""
    script = tmp_path / "job.py"
    script.write_text(
        "import sys\n"
        "try:\n"
        "    import _interpreters as interpreters\n"
        "except ImportError:\n"
        "    import _xxsubinterpreters as interpreters\n"
        "other = interpreters.create()\n"
        "interpreters.run_string(other, 'import colorsys; print(colorsys.ONE_THIRD > 0)')\n"
        "interpreters.destroy(other)\n"
        "print('_iotrace_hooks' in sys.modules)\n"
    )

    job = run_job(tmp_path / "logs", script, python=(python,))

    assert job.done.stdout == "True\nTrue\n"


def test_the_job_finds_itself_unchanged(python: Path, tmp_path: Path) -> None:
    """Arguments, environment, path, handlers, threads: what a job may look at."""
    script = tmp_path / "job.py"
    script.write_text(
        "import json, os, signal, sys, threading, warnings\n"
        "hidden = ('IOTRACE_', 'LD_PRELOAD')\n"
        "print(json.dumps({\n"
        "    'argv': sys.argv, 'path': sys.path, 'flags': repr(sys.flags),\n"
        "    'environ': {k: v for k, v in os.environ.items() if not k.startswith(hidden)},\n"
        "    'modules': sorted(k for k in sys.modules if not k.startswith('_iotrace_hooks')),\n"
        "    'handlers': [repr(signal.getsignal(s)) for s in signal.valid_signals()],\n"
        "    'threads': threading.active_count(), 'filters': repr(warnings.filters),\n"
        "    'hooks': [sys.excepthook is sys.__excepthook__, sys.gettrace(), sys.getprofile()],\n"
        "    'path_hooks': len(sys.path_hooks), 'main': sorted(vars(sys.modules['__main__'])),\n"
        "    'builtins': sorted(vars(sys.modules['builtins'])),\n"
        "}))\n"
    )
    arguments = (script, "--epochs", "3")

    hooked = json.loads(run_job(tmp_path / "logs", *arguments, python=(python,)).done.stdout)
    bare = json.loads(run_job(None, *arguments, python=(python,)).done.stdout)

    assert set(hooked["modules"]) - set(bare["modules"]) <= {"__future__"}
    assert hooked | {"modules": []} == bare | {"modules": []}


@pytest.mark.parametrize(
    "source",
    ["raise RuntimeError('broken')", "import a_module_that_is_nowhere", "this is not Python"],
)
def test_broken_hooks_leave_the_job_alone(source: str, tmp_path: Path) -> None:
    """The worst that a hook may cost is the tensor layer of a trace."""
    boot = tmp_path / "boot.py"
    boot.write_text(source)

    job = run_job(tmp_path / "logs", "-c", "import uuid; print('trained')", boot=boot)

    assert (job.done.stdout, job.done.stderr) == ("trained\n", "")


def test_missing_hooks_leave_the_job_alone(tmp_path: Path) -> None:
    """An uninstalled package must not take running jobs with it."""
    job = run_job(
        tmp_path / "logs", "-c", "import uuid; print('trained')", boot=tmp_path / "nowhere.py"
    )

    assert (job.done.stdout, job.done.stderr) == ("trained\n", "")


def test_an_interrupt_while_the_hooks_start_is_the_jobs(python: Path, tmp_path: Path) -> None:
    """Ctrl-C must never be swallowed, not even in the millisecond that is ours."""
    boot = tmp_path / "boot.py"
    boot.write_text(
        "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nfor _ in range(9): 0\n"
    )

    job = run_job(
        tmp_path / "logs", "-c", "import colorsys", python=(python,), boot=boot, check=False
    )

    assert job.done.returncode != 0
    assert "KeyboardInterrupt" in job.done.stderr or job.done.returncode == -signal.SIGINT


def test_a_program_that_is_not_python_is_left_alone(tmp_path: Path) -> None:
    """Launchers are shells; a shell opens more files than the search waits for."""
    source = "for i in $(seq 200); do read -r line < /etc/passwd; done; echo done"

    job = run_job(tmp_path / "logs", "-c", source, python=("/bin/bash",))

    assert (job.done.stdout, job.done.stderr) == ("done\n", "")


def test_an_interpreter_that_arrives_late_is_found(tmp_path: Path) -> None:
    """Frozen programs and servers load libpython with dlopen()."""
    library = Path(sysconfig.get_config_var("LIBDIR"), sysconfig.get_config_var("LDLIBRARY"))
    if library.suffix != ".so":
        pytest.skip("this Python has no shared library")
    program = tmp_path / "embed.c"
    program.write_text(
        """
        #include <dlfcn.h>
        #include <fcntl.h>
        #include <unistd.h>
        int main(int argc, char **argv)
        {
            void *python = dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL);
            ((void (*)(void))dlsym(python, "Py_Initialize"))();
            for (int i = 0; i < 64; i++)
                close(open("/dev/null", O_RDONLY));
            return ((int (*)(const char *))dlsym(python, "PyRun_SimpleString"))(argv[2]);
        }
        """
    )
    subprocess.run(["cc", "-o", tmp_path / "embed", program, "-ldl"], check=True)
    environ = {**os.environ, "PYTHONHOME": sys.base_prefix}

    job = run_job(
        tmp_path / "logs", library, IS_BOOTED, python=(tmp_path / "embed",), environ=environ
    )

    assert job.done.stdout == "True\n"
