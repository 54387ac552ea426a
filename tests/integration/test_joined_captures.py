"""Captures of one host, joined: what was several files stays several, what was one stays one."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from iotrace.traces.reader import read_trace
from iotrace.traces.writer import write_trace
from tests.tools.command import IOTRACE, iotrace

# Each checkpoint is written under another name first; 1000 bytes and its step.
SAVE = """
import os, sys
for step in sys.argv[2:]:
    name = f"{sys.argv[1]}/step{step}.pt"
    with open(name + ".tmp", "wb") as file:
        file.write(bytes(1000 + int(step)))
    os.rename(name + ".tmp", name)
"""
LOAD = """
import sys
for path in sys.argv[1:]:
    open(path, "rb").read()
"""
# A rank writes its quarter of a file of all and a file of its own, in turns with the others.
RANK = """
import os, sys, time
folder, rank = sys.argv[1], int(sys.argv[2])
open(f"{folder}/ready{rank}", "w").close()
while len([name for name in os.listdir(folder) if name.startswith("ready")]) < 4:
    time.sleep(0.01)
shared = os.open(f"{folder}/all.pt", os.O_WRONLY | os.O_CREAT)
with open(f"{folder}/__{rank}_0.distcp", "wb", buffering=0) as own:
    for part in range(5):
        os.pwrite(shared, bytes(4096), (4 * part + rank) * 4096)
        own.write(bytes(1000 + rank))
        time.sleep(0.02)
os.close(shared)
"""


def capture(output: Path, program: str, *arguments: object) -> None:
    command = (sys.executable, "-c", program, *arguments)
    done = iotrace("capture", "-q", "-o", output, "--", *command)
    assert done.returncode == 0, done.stderr


def replay(trace: Path, root: Path) -> tuple[dict[str, Any], dict[str, int]]:
    """Return what a verified replay says, and the size of each file that it made."""
    root.mkdir()
    done = iotrace("replay", trace, "--root", root, "--keep", "--verify", "--json", "-")
    assert done.returncode == 0, done.stdout + done.stderr
    files = (path for path in root.rglob("*") if path.is_file())
    return json.loads(done.stdout), {file.name: file.stat().st_size for file in files}


@pytest.fixture
def parts(tmp_path: Path) -> Path:
    (tmp_path / "parts").mkdir()
    (tmp_path / "job").mkdir()
    return tmp_path / "parts"


@pytest.fixture(params=["folder", "merged"])
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def joined(parts: Path, way: str) -> Path:
    if way == "folder":
        return parts
    merged = parts.parent / "merged.parquet"
    assert iotrace("merge", parts, "-o", merged).returncode == 0
    return merged


def test_files_of_two_captures_are_not_mixed(parts: Path, tmp_path: Path, way: str) -> None:
    for name, steps in (("a", (100, 200)), ("b", (300, 400))):
        capture(parts / f"{name}.parquet", SAVE, tmp_path / "job", *steps)
    said, files = replay(joined(parts, way), tmp_path / "root")
    assert files == {f"step{step}.pt": 1000 + step for step in (100, 200, 300, 400)}
    assert said["verified"] is True
    assert said["recorded"]["files"] == said["replayed"]["files"] == 4


def test_a_file_that_one_capture_saves_and_another_loads_is_one(
    parts: Path, tmp_path: Path, way: str
) -> None:
    """The loads are in another order, so their numbers are those of other files."""
    capture(parts / "a.parquet", SAVE, tmp_path / "job", 1, 2, 3)
    paths = [tmp_path / "job" / f"step{step}.pt" for step in (3, 1, 2)]
    capture(parts / "b.parquet", LOAD, *paths)
    said, files = replay(joined(parts, way), tmp_path / "root")
    assert files == {f"step{step}.pt": 1000 + step for step in (1, 2, 3)}
    assert said["planned"]["files"] == 3
    assert said["replayed"]["bytes_read"] == 3006


def test_ranks_that_are_captured_apart_at_once_are_replayed_together(
    parts: Path, tmp_path: Path, way: str
) -> None:
    jobs = [
        subprocess.Popen(
            (
                *(IOTRACE, "capture", "-q", "--exclude", "*/ready*"),
                *("-o", parts / f"rank{rank}.parquet", "--"),
                *(sys.executable, "-c", RANK, tmp_path / "job", str(rank)),
            )
        )
        for rank in range(4)
    ]
    assert [job.wait(120) for job in jobs] == [0] * 4
    said, files = replay(joined(parts, way), tmp_path / "root")
    own = {f"__{rank}_0.distcp": 5 * (1000 + rank) for rank in range(4)}
    assert files == own | {"all.pt": 20 * 4096}
    assert said["verified"] is True


def on_host(trace: Path, name: str, file_system: str) -> None:
    """Let a capture be of another host, with its files on some file system."""
    whole = read_trace(trace)
    metadata = replace(
        whole.metadata,
        hosts=tuple(replace(host, name=name, boot_id=name) for host in whole.metadata.hosts),
        mounts=tuple(replace(one, file_system=file_system) for one in whole.metadata.mounts),
    )
    write_trace(whole.with_metadata(metadata), trace, force=True)


@pytest.mark.parametrize(("file_system", "count"), [("ext4", 2), ("lustre", 1)])
def test_one_name_on_two_hosts_is_one_file_on_shared_storage_alone(
    parts: Path, tmp_path: Path, way: str, file_system: str, count: int
) -> None:
    for name in ("a", "b"):
        capture(parts / f"{name}.parquet", SAVE, tmp_path / "job", 7)
        on_host(parts / f"{name}.parquet", name, file_system)
    trace = joined(parts, way)
    said, _ = replay(trace, tmp_path / "root")
    dry = iotrace("replay", trace, "--dry-run").stdout
    assert ("each host has to itself" in dry) == (count == 2)
    made = [path for path in (tmp_path / "root").rglob("*") if path.is_file()]
    assert [file.stat().st_size for file in made] == [1007] * count
    assert said["verified"] is True
    assert said["recorded"]["files"] == count
    shown = json.loads(iotrace("show", trace, "--json", "-").stdout)
    assert [file["bytes_written"] for file in shown["files"]] == [2014 // count] * count
