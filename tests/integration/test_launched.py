"""A replay under a launcher: its processes share the ranks out, the first one tells of all."""

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from iotrace.replay.group import launched_size
from iotrace.replay.sketch import sketch_trace
from iotrace.replay.target import probe_target
from iotrace.traces.writer import write_trace

TRACE = Path(__file__).parents[2] / "traces" / "corpus" / "dcp.parquet"
BIN = Path(sys.executable).parent
SHORT_OF_MEMORY = Path(__file__).parent / "jobs" / "short_of_memory.py"
SIZE_BYTES = 4 << 20


@pytest.mark.skipif(shutil.which(str(BIN / "torchrun")) is None, reason="needs torch")
def test_two_processes_replay_a_job_of_two_ranks(tmp_path: Path) -> None:
    """Cross-rank order, byte proof and one result, without memory in common."""
    launch = [str(BIN / "torchrun"), "--standalone", "--nproc_per_node", "2", "--no-python"]
    replay = ["replay", str(TRACE), "--root", str(tmp_path), "--verify", "--json", "-"]
    done = subprocess.run(
        [*launch, str(BIN / "iotrace"), *replay], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert "next:" not in done.stderr  # alone it would be another measurement
    result = json.loads(done.stdout)
    assert (result["workers"], result["verified"], result["errors"]) == (2, True, [])
    assert result["replayed"]["bytes_written"] == result["planned"]["bytes_written"]
    assert result["fidelity"]["result_mismatches"] == 0
    assert [one["rank"] for one in result["ranks"]] == [0, 1]
    assert list(tmp_path.iterdir()) == []


def launch(tmp_path: Path, size: int, step: str, *options: str) -> list[tuple[int, str, str]]:
    """Replay a job of processes that read one file and write their own; return how each ended."""
    pytest.importorskip("torch")
    lines = []
    for own in range(size):
        lines += [f"process {own}", "open shared r", f"read shared 0 {SIZE_BYTES}", "close shared"]
        lines += [f"open {own} w+create", f"write {own} 0 {SIZE_BYTES}", f"close {own}"]
    trace, root = tmp_path / "job.parquet", tmp_path / "root"
    write_trace(sketch_trace("\n".join(lines)), trace)
    root.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
    command = [sys.executable, str(SHORT_OF_MEMORY), step, "replay", str(trace)]
    started = [
        subprocess.Popen(
            [*command, "--root", str(root), *options],
            env={**os.environ, "PMI_RANK": str(rank), "PMI_SIZE": str(size), "MASTER_PORT": port},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(size)
    ]
    told = [process.communicate(timeout=300) for process in started]
    assert list(root.iterdir()) == []
    return [(process.returncode, *streams) for process, streams in zip(started, told, strict=True)]


@pytest.mark.parametrize(("kept_bytes", "warm"), [(128 << 10, False), (256 << 10, True)])
def test_what_stays_cached_of_a_file_counts_once_however_many_read_it(
    tmp_path: Path, kept_bytes: int, warm: bool
) -> None:
    """3 % of it, told by each of three processes, would be more than a cold load may find."""
    if not probe_target(tmp_path).evicts:
        pytest.skip("what is cached here stays so")
    ended = launch(tmp_path, 3, str(kept_bytes), "--json", str(tmp_path / "result.json"))
    assert ended[0][0] == 0, ended  # it tells of all
    result = json.loads((tmp_path / "result.json").read_text())
    told = f"{kept_bytes} of {SIZE_BYTES} prepared bytes stayed in the page cache"
    assert result["degraded"] == ([f"{told}: reads of them were warm"] if warm else [])


@pytest.mark.parametrize("step", ["evict", "spend"])
def test_what_stops_one_process_before_a_run_is_told_by_all(tmp_path: Path, step: str) -> None:
    """That one was lost, which is all that the others would know, does not help to mend it."""
    for status, _, said in launch(tmp_path, 2, step, "--source", "host"):
        assert status != 0
        assert "Cannot allocate memory" in said and "was lost" not in said, said


def test_a_result_that_may_not_be_written_ends_all_at_once(tmp_path: Path) -> None:
    """The others would wait for the first, an hour by default, or say that it was lost."""
    there = tmp_path / "result.json"
    there.write_text("kept")
    for status, _, said in launch(tmp_path, 2, "0", "--json", str(there)):
        assert status != 0
        assert f"{there} exists" in said and "was lost" not in said, said
    assert there.read_text() == "kept"


@pytest.mark.parametrize(
    ("environment", "place"),
    [
        ({}, (0, 1)),
        ({"RANK": "3", "WORLD_SIZE": "8"}, (3, 8)),
        ({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}, (1, 2)),
        ({"PMI_RANK": "1", "PMI_SIZE": "4"}, (1, 4)),
        ({"SLURM_PROCID": "2", "SLURM_STEP_NUM_TASKS": "3"}, (2, 3)),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "64"}, (0, 1)),
    ],
)
def test_each_launcher_says_who_is_who(environment: dict[str, str], place: tuple[int, int]) -> None:
    """A batch script itself is no launch, whatever its job may start."""
    assert launched_size(environment) == place
