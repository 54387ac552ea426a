"""Saves, loads and ranks of real jobs: `show` and `why` count the same, and no launchers."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

BIN = Path(sys.executable).parent
pytestmark = pytest.mark.skipif(shutil.which(str(BIN / "torchrun")) is None, reason="needs torch")

LOAD = "import torch; assert len(torch.load('saved')) == 2"
READ = "assert len(open('saved', 'rb').read()) > 1 << 16"
ASYNC = """
import torch, torch.distributed as dist, torch.distributed.checkpoint as dcp
dist.init_process_group("gloo", init_method="file://{0}/meet", rank=0, world_size=1)
dcp.async_save({{"a": torch.ones(1 << 20)}}, checkpoint_id="{0}/step").result()
"""


def asked(folder: Path, *command: str) -> tuple[str, str]:
    """Capture a job; return what `show` and `why` say it holds."""

    def run(*words: str) -> str:
        done = subprocess.run(
            [str(BIN / "iotrace"), *words], cwd=folder, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    run("capture", "-o", "t.parquet", "--", *command)
    shown, why = run("show", "t.parquet"), run("why", "t.parquet", "--no-probe")
    return (
        re.search(r"^holds +(.*), \d+ files?", shown, re.MULTILINE)[1],  # type: ignore[index]
        re.search(r"^trace +t.parquet: (.*)", why, re.MULTILINE)[1],  # type: ignore[index]
    )


@pytest.mark.parametrize(("code", "engine"), [(LOAD, "torch.save"), (READ, "no engine recognised")])
def test_the_file_of_a_launcher_is_no_save(tmp_path: Path, code: str, engine: str) -> None:
    """torchrun writes four bytes of its own before its ranks load."""
    save = f"import torch; torch.save([torch.ones(1 << 14)] * 2, '{tmp_path}/saved')"
    subprocess.run([sys.executable, "-c", save], check=True)
    (tmp_path / "job.py").write_text(code)
    command = (str(BIN / "torchrun"), "--nproc_per_node", "2", "job.py")
    held, told = asked(tmp_path, *command)
    assert held == "0 saves, 1 load, 3 processes, 2 ranks"
    assert told.startswith(f"{engine}, 1 load, 2 ranks")


def test_the_file_by_which_processes_meet_is_no_load(tmp_path: Path) -> None:
    """A save in the background, of a job that reads nothing."""
    held, told = asked(tmp_path, sys.executable, "-c", ASYNC.format(tmp_path))
    assert held == "1 save, 0 loads, 1 process, 1 rank"
    assert re.match("dcp, 1 save(,|$)", told)
