"""A job of many short processes: replayed in few workers, in time, and ended quietly."""

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.tools.command import IOTRACE, iotrace

COUNT = 64
JOB = f"for i in $(seq {COUNT}); do dd if=/dev/zero of=out/$i bs=32k count=2 2>/dev/null; done"


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the trace of processes that wrote a file each, one after the other."""
    folder = tmp_path_factory.mktemp("short")
    (folder / "out").mkdir()
    words = ("--", "sh", "-c", JOB)
    done = iotrace("capture", "-o", folder / "trace.parquet", *words, cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder / "trace.parquet"


def test_processes_that_never_ran_at_once_take_turns_in_a_worker(trace: Path, root: Path) -> None:
    """A worker each costs its start: time that grows with the processes, for nothing."""
    done = iotrace("replay", trace, "--root", root, "--verify", "--json", "-")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["verified"] is True
    assert told["replayed"]["files"] == COUNT
    assert told["replayed"]["bytes_written"] == COUNT * 65536
    assert told["workers"] <= 3


def test_a_worker_for_each_is_there_for_the_asking(trace: Path, root: Path) -> None:
    done = iotrace("replay", trace, "--root", root, "--workers", COUNT, "--verify", "--json", "-")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["verified"] is True
    assert told["workers"] == COUNT


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_while_workers_start_ends_all_without_a_word(
    number: signal.Signals, trace: Path, tmp_path: Path
) -> None:
    """What a handler raises in the hooks that Python runs around a fork is printed and lost."""
    command = [IOTRACE, "replay", trace, "--root", tmp_path, "--workers", str(COUNT)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as replay:
        children = Path(f"/proc/{replay.pid}/task/{replay.pid}/children")
        while replay.poll() is None and len(children.read_text().split()) < 4:
            time.sleep(0.001)
        replay.send_signal(number)
        out, err = replay.communicate(timeout=60)
    assert (replay.returncode, out, err) == (128 + number, b"", b"")
    assert not list(tmp_path.iterdir())
