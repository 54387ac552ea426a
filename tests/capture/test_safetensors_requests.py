"""The requests of safetensors: what the kernel saw is what the trace says."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from iotrace.capture.collector import collect
from iotrace.traces.check import check_trace
from iotrace.traces.trace import Trace
from tests.integration.strace import STRACE

from .hooked_job import environment

JOBS = Path(__file__).parent / "jobs"
ENGINE = "safetensors"


CALLS = {
    "openat": "open",
    "close": "close",
    "write": "write",
    "read": "read",
    "pread64": "read",
    "ftruncate": "truncate",
    "renameat": "rename",
    "mmap": "map",
}
# How the counters open a file to ask what the page cache holds of it; nobody else does.
COUNTERS_OPEN = "O_RDONLY|O_NONBLOCK|O_CLOEXEC"
SYSTEM_CALL = re.compile(r"^(\w+)\((.*)\) += (-?\w+)")


def kernel_view(logs: Path, folder: Path) -> tuple[Counter[tuple[str, str]], Counter[str]]:
    """Return calls by (file, op) and bytes by op that strace saw on the files of a folder.

    Temporary names, which differ from run to run, are those the files were renamed to.
    """
    renames: dict[str, str] = {}
    calls: list[tuple[str, str, int]] = []
    lines = [line for log in sorted(logs.iterdir()) for line in log.read_text().splitlines()]
    for line in lines:
        match = SYSTEM_CALL.match(line)
        paths = re.findall(rf"{re.escape(str(folder))}/([\w.]+)", line)
        if match is None or not paths or match[1] not in CALLS or match[3].startswith("-"):
            continue
        op = CALLS[match[1]]
        if op == "open" and COUNTERS_OPEN in line:
            calls.append((paths[0], "own", 0))
            continue
        if op == "rename":
            renames[paths[0]] = paths[1]
        calls.append((paths[0], op, int(match[3], 0)))
    counts = Counter((renames.get(path, path), op) for path, op, _ in calls)
    for path in {path for path, op in counts if op == "own"}:
        counts[path, "close"] -= counts.pop((path, "own"))
    moved = Counter[str]()
    for _, op, result in calls:
        if op in ("read", "write"):
            moved[op] += result
    return counts, moved


def trace_view(trace: Trace, folder: Path) -> tuple[Counter[tuple[str, str]], Counter[str]]:
    """Return the same as the trace tells it; a file goes by its last name."""
    requests = trace.layer("request")
    last = {file.file: file.path for file in trace.metadata.completeness.files}
    counts, moved = Counter[tuple[str, str]](), Counter[str]()
    columns = zip(
        requests.strings("op"),
        requests.strings("path"),
        requests.ints("file").tolist(),
        requests.ints("result").tolist(),
        strict=True,
    )
    for op, path, file, result in columns:
        name = Path(last.get(file, path or "/"))
        if name.parent != folder or op not in CALLS.values():
            continue
        counts[name.name, str(op)] += 1
        if op in ("read", "write"):
            moved[str(op)] += result
    return counts, moved


@pytest.fixture(scope="module")
def straced(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Trace]:
    """A job under capture and strace at once: its folder, what strace wrote, its trace."""
    base = tmp_path_factory.mktemp("straced")
    script = base / "job.py"
    script.write_text(
        "import sys, torch\n"
        "from safetensors.torch import load_file, save_file\n"
        "folder = sys.argv[1]\n"
        "state = {f'layer.{i}': torch.full((i * 3000,), float(i)) for i in range(60)}\n"
        "for name in ('a', 'b', 'a'):\n"
        "    save_file(state, f'{folder}/{name}.safetensors')\n"
        "load_file(f'{folder}/a.safetensors')\n"
        "load_file(f'{folder}/b.safetensors', backend='pread')\n"
    )
    folder = base / "files"
    logs = base / "logs"
    kernel = base / "kernel"
    for made in (folder, logs, kernel):
        made.mkdir()
    settings = [f"--env={name}={value}" for name, value in environment(logs).items()]
    output = ("-s0", "-e", f"trace={','.join(CALLS)}", "-o", kernel / "log")
    command = (sys.executable, script, folder)
    subprocess.run([*STRACE, *output, *settings, *command], check=True)
    return folder, kernel, collect(logs, ("python", "job.py"))


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_the_kernel_saw_what_the_trace_says(straced: tuple[Path, Path, Trace]) -> None:
    """Calls and bytes per file, with the rename that the library makes by itself."""
    folder, logs, trace = straced
    kernel, kernel_bytes = kernel_view(logs, folder)
    told, told_bytes = trace_view(trace, folder)

    assert told == kernel
    assert told_bytes == kernel_bytes
    assert kernel["a.safetensors", "rename"] == 2
    assert kernel["b.safetensors", "read"] > 0


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_the_rename_that_nobody_wraps_is_a_row_without_api(
    straced: tuple[Path, Path, Trace],
) -> None:
    """It was found at the close, not seen: when, and by which call, is not known."""
    folder, _, trace = straced
    renames = trace.where(trace.row_mask(layer="request", op="rename"))
    saves = trace.where(trace.row_mask(layer="tensor", op="save"))

    assert renames.strings("api") == [None] * 3
    assert renames.strings("target") == [
        str(folder / name) for name in ("a.safetensors", "b.safetensors", "a.safetensors")
    ]
    assert set(saves.ints("file").tolist()) == set(renames.ints("file").tolist())
    assert check_trace(trace) == []


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_every_request_knows_its_engine_and_step(straced: tuple[Path, Path, Trace]) -> None:
    """Those of the temporary file too, and what follows when a mapping ends."""
    folder, _, trace = straced
    requests = trace.layer("request")
    labels = Counter(
        (engine, step)
        for path, engine, step in zip(
            requests.strings("path"),
            requests.strings("engine"),
            requests.ints("step").tolist(),
            strict=True,
        )
        if (path or "").startswith(f"{folder}/")
    )

    assert set(labels) == {(ENGINE, 0), (ENGINE, 1), (ENGINE, 2)}
