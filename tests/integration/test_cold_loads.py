"""Loads through mapped files that are not in memory: the kernel's own counts are the oracle."""

import json
import mmap
import os
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from iotrace.traces.reader import read_trace
from tests.replay.slow_mount import REQUEST_BYTES, slow_mount
from tests.tools.command import iotrace

FILE_BYTES = 64 << 20
TENSORS = 16
# What one process counted of itself, around a load and around the use of what was loaded.
COUNTED = """
import json, sys
from pathlib import Path
import torch
torch.set_num_threads(1)
def counted():
    io = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(io["read_bytes"])
"""
LOAD_FILE = """
from safetensors.torch import load_file
before = counted()
loaded = load_file(sys.argv[1])
print(counted() - before)
"""
SAFE_OPEN = """
from safetensors import safe_open
before = counted()
with safe_open(sys.argv[1], "pt") as file:
    taken = [file.get_tensor(name) for name in list(file.keys())[::4]]
sum(float(tensor.sum()) for tensor in taken)
print(counted() - before)
"""
MAPPED_LOAD = """
loaded = torch.load(sys.argv[1], mmap=True)
before = counted()
sum(float(tensor.sum()) for tensor in list(loaded.values())[: len(loaded) // 2])
print(counted() - before)
"""


@dataclass(frozen=True)
class Cold:
    """A captured load of a file that was not in memory.

    Attributes:
        trace: its trace.
        said: what `capture` said of it.
        read_bytes: that the job saw read from storage for it.
        episode: the load, as `why --json` tells it; `advice` what it advises.
    """

    trace: Path
    said: str
    read_bytes: int
    episode: dict[str, Any]
    advice: list[dict[str, Any]]


def captured(job: str, file: Path) -> Cold:
    """Capture a job that loads `file`, which is dropped from the page cache before."""
    folder, trace = file.parent, file.parent / "trace.parquet"
    (folder / "job.py").write_text(COUNTED + job)
    with file.open("rb+") as opened:
        os.fsync(opened.fileno())
        os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    done = iotrace(
        *("capture", "-o", str(trace), "--", sys.executable, "job.py", str(file)), cwd=folder
    )
    assert done.returncode == 0, done.stderr
    read_bytes = json.loads(done.stdout)
    if read_bytes < file.stat().st_size // 4:
        pytest.skip("this file system keeps files in memory, or does not count what it reads")
    if "(page faults: " in done.stderr:
        pytest.skip("page faults may not be watched here")
    why = iotrace("why", str(trace), "--no-probe", "--json", "-", cwd=folder)
    assert why.returncode == 0, why.stderr
    told = json.loads(why.stdout)
    (episode,) = told["episodes"]
    return Cold(trace, done.stderr.splitlines()[0], read_bytes, episode, told["advice"])


@pytest.fixture(scope="module")
def safetensors_load(tmp_path_factory: pytest.TempPathFactory) -> Cold:
    """Return a load of all of a safetensors file."""
    torch, save_file = safetensors()
    file = tmp_path_factory.mktemp("cold") / "m.safetensors"
    save_file({f"layer.{i}": tensor(torch) for i in range(TENSORS)}, file)
    return captured(LOAD_FILE, file)


@pytest.fixture(scope="module")
def torch_load(tmp_path_factory: pytest.TempPathFactory) -> Cold:
    """Return a torch.load(mmap=True) of which one half was used afterwards."""
    torch, _ = safetensors()
    file = tmp_path_factory.mktemp("cold") / "m.pt"
    torch.save({f"layer.{i}": tensor(torch) for i in range(TENSORS)}, file)
    return captured(MAPPED_LOAD, file)


def safetensors() -> tuple[Any, Any]:
    """Return torch, and the function that saves a safetensors file."""
    torch = pytest.importorskip("torch")
    return torch, pytest.importorskip("safetensors.torch").save_file


def tensor(torch: Any) -> Any:
    """Return one of the tensors of a file."""
    return torch.ones(FILE_BYTES // TENSORS // 4)


def test_capture_and_show_tell_what_came_from_storage(safetensors_load: Cold) -> None:
    """No request moved a byte of it, and that is not to pass for a load of nothing."""
    said = safetensors_load.said
    assert "64.0 MiB mapped, " in said or "64 MiB mapped, " in said
    assert " page faults: " in said and "read from storage by read-ahead on 1 file" in said
    assert "0 B" not in said and "; INCOMPLETE: " in said
    shown = iotrace("show", str(safetensors_load.trace), "--json", "-")
    paging = json.loads(shown.stdout)["paging"]
    assert paging == safetensors_load.episode["paging"]


def test_the_bytes_of_a_load_are_those_that_the_kernel_read(safetensors_load: Cold) -> None:
    """Those of its first fault too, which is the header's: to read on, the kernel takes 8 MiB."""
    episode = safetensors_load.episode
    paging = episode["paging"]
    assert not paging["at_most"]
    assert paging["mapped_bytes"] == pytest.approx(FILE_BYTES, rel=0.01)
    assert paging["read_bytes"] == pytest.approx(safetensors_load.read_bytes, rel=0.005)
    assert episode["bytes"] == paging["read_bytes"]
    assert "fault" not in episode["requests"]
    assert episode["amplification"]["moved_bytes"] == 0


def test_a_file_that_comes_with_its_header_is_counted(tmp_path: Path) -> None:
    """One fault is all there is of it."""
    torch, save_file = safetensors()
    file = tmp_path / "small.safetensors"
    save_file({"w": torch.ones(48 << 10)}, file)
    cold = captured(LOAD_FILE, file)
    paging = cold.episode["paging"]
    assert (paging["faults"], paging["at_most"]) == (1, False)
    assert paging["read_bytes"] == cold.read_bytes >= 192 << 10


def test_tensors_that_are_used_after_the_call_are_within_the_bound(tmp_path: Path) -> None:
    """What came with the header is of the load too."""
    torch, save_file = safetensors()
    file = tmp_path / "m.safetensors"
    save_file({f"layer.{i}": tensor(torch) for i in range(TENSORS)}, file)
    cold = captured(SAFE_OPEN, file)
    paging = cold.episode["paging"]
    assert paging["at_most"]
    assert cold.read_bytes <= paging["read_bytes"] <= 1.2 * cold.read_bytes


def test_not_running_between_page_faults_is_a_wait_for_them(safetensors_load: Cold) -> None:
    """And nothing else to look for with a profiler."""
    (rank,) = safetensors_load.episode["ranks"]
    parts = ("io", "sync", "rank", "fault", "between")
    assert sum(rank[f"{part}_seconds"] for part in parts) == pytest.approx(rank["seconds"])
    assert rank["fault_seconds"] > 0
    assert not any("py-spy" in one["change"] for one in safetensors_load.advice)


def test_the_advice_is_to_read_and_its_replay_reads_the_tensors(
    safetensors_load: Cold, tmp_path: Path
) -> None:
    """A replay of the recorded requests would move nothing."""
    first = safetensors_load.advice[0]
    assert "backend='pread'" in first["change"]
    assert "page faults: " in first["because"]
    words = shlex.split(first["command"])
    assert words.pop(0) == "iotrace"
    done = iotrace(*words, "--root", str(tmp_path), "--json", "-")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    recorded, replayed = result["recorded"], result["replayed"]
    rows = read_trace(safetensors_load.trace)
    requests, faults = (rows.where(rows.row_mask(op=op)) for op in ("open", "fault"))
    until_ns = faults.ints("start_ns").max() - requests.ints("start_ns").min()
    assert recorded["read_seconds"] == pytest.approx(until_ns / 1e9, rel=0.02)
    assert replayed["bytes_read"] == FILE_BYTES
    assert len(replayed["read_seconds"]) == 5


def test_what_is_read_after_the_load_is_told_as_a_bound(torch_load: Cold) -> None:
    """torch.load returns at once; the counts around it say nothing of what comes later."""
    paging = torch_load.episode["paging"]
    assert paging["at_most"]
    assert paging["faults"] >= 1
    assert paging["mapped_bytes"] == pytest.approx(FILE_BYTES, rel=0.01)
    assert torch_load.read_bytes >= FILE_BYTES // 2
    assert torch_load.read_bytes <= paging["read_bytes"]
    assert " mapped, " in torch_load.said and "at most " in torch_load.said
    assert "; INCOMPLETE: " in torch_load.said
    (advice,) = [one for one in torch_load.advice if "mmap=False" in one["change"]]
    assert "at most " in advice["because"]


def test_storage_that_does_not_count_for_processes_is_seen_by_the_page_cache(
    tmp_path: Path,
) -> None:
    """FUSE adds what it reads to no process's count."""
    torch, save_file = safetensors()
    served = tmp_path / "served"
    served.mkdir()
    with slow_mount(served, 0.001, cached=True) as mount:
        file = served / "m.safetensors"
        save_file({f"layer.{i}": tensor(torch) for i in range(TENSORS)}, file)
        with file.open("rb") as opened:
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        (tmp_path / "job.py").write_text(COUNTED + LOAD_FILE)
        mount.seen.clear()
        command = ("capture", "-o", "trace.parquet", "--", sys.executable, "job.py", str(file))
        done = iotrace(*command, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        reads = mount.seen["read"]
    if json.loads(done.stdout) > reads * mmap.PAGESIZE:
        pytest.skip("this kernel counts what FUSE reads")
    shown = iotrace("show", str(tmp_path / "trace.parquet"), "--json", "-")
    found = json.loads(shown.stdout)["paging"]
    assert found["faults"] == pytest.approx(reads, abs=2)
    assert found["fault_bytes"] < found["read_bytes"] <= reads * REQUEST_BYTES
    assert not found["at_most"]
