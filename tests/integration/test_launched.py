"""A replay under a launcher: its processes share the ranks out, the first one tells of all."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from iotrace.replay.group import launched_size

TRACE = Path(__file__).parents[2] / "traces" / "corpus" / "dcp.parquet"
BIN = Path(sys.executable).parent


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
