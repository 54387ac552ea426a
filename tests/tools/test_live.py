"""`iotrace why --live PID` on jobs that are really stuck."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from iotrace.capture.live import Doing, look
from tests.replay.slow_mount import slow_mount

from .command import assert_fits, assert_one_line_error, iotrace

LOCKED = """
import fcntl, os, sys, threading
read_end, write_end = os.pipe()
threading.Thread(target=os.read, args=(read_end, 512), daemon=True).start()
held = open(sys.argv[1], "w")
fcntl.flock(held, fcntl.LOCK_EX)
fcntl.flock(open(sys.argv[1]), fcntl.LOCK_EX)
"""
READING = """
import os, sys
os.pread(os.open(sys.argv[1], os.O_RDONLY), 8192, 4096)
"""
AT_POSITION = """
import os
read_end, write_end = os.pipe()
os.preadv(read_end, [bytearray(1)], -1, os.RWF_HIPRI)
"""
PARENT = """
import subprocess, sys
subprocess.run([sys.executable, "-c", *sys.argv[1:]], env={"RANK": "3"})
"""

TWO_RANKS = """
import os, subprocess, sys
ranks = ("import os; os.read(os.pipe()[0], 512)", "while True: pass")
jobs = [
    subprocess.Popen([sys.executable, "-c", code], env={"RANK": str(rank)})
    for rank, code in enumerate(ranks)
]
jobs[0].wait()
"""


@contextmanager
def running(*command: object) -> Iterator[int]:
    """Run Python with `command` for a while; yields its number."""
    with subprocess.Popen([sys.executable, "-c", *map(str, command)], process_group=0) as job:
        try:
            yield job.pid
        finally:
            os.killpg(job.pid, 9)


def wait_for(pid: int, wanted: Callable[[Doing], bool]) -> Doing:
    """Return the thread that does what is wanted, as soon as one does."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        for one in look(pid):
            if wanted(one):
                return one
        time.sleep(0.02)
    raise AssertionError(f"nothing of the kind in {look(pid)}")


def test_a_job_stuck_in_a_lock_is_seen(tmp_path: Path) -> None:
    """With the file; a thread that waits in a pipe for work is no cause."""
    lock = tmp_path / "lock"
    with running(LOCKED, lock) as pid:
        wait_for(pid, lambda one: one.op == "flock" and (one.idle_seconds or 0) > 1.2)
        shown = iotrace("why", "--live", pid).stdout
        told = json.loads(iotrace("why", "--live", pid, "--json", "-").stdout)
    assert_fits(shown)
    assert "in flock, lock for" in shown and "waiting for a file lock" in shown
    calls = {one["op"]: one for one in told["threads"]}
    assert calls["flock"]["path"] == str(lock)
    assert calls["read"]["path"].startswith("pipe:") and calls["read"]["length"] == 512
    assert 1.2 < calls["flock"]["idle_seconds"] < 60


def test_a_rank_stuck_in_a_read_of_a_remote_file_system_is_seen(tmp_path: Path) -> None:
    """Its rank, what it reads and where, and that the server does not answer."""
    there = tmp_path / "there"
    there.mkdir()
    with slow_mount(there, 0) as mount:
        (there / "model.pt").write_bytes(bytes(16384))
        mount.delay_seconds = 3
        with running(PARENT, READING, there / "model.pt") as pid:
            found = wait_for(
                pid, lambda one: one.op == "read" and one.length == 8192 and one.rank == 3
            )
            shown = iotrace("why", "--live", pid).stdout
    assert (found.path, found.offset, found.length) == (str(there / "model.pt"), 4096, 8192)
    assert found.waits_for == "the FUSE server"
    assert any(
        line.startswith("3 ") and "read 8 KiB" in line and "the FUSE server" in line
        for line in shown.splitlines()
    ), shown


def test_a_read_at_the_position_of_its_file_is_told_there() -> None:
    """preadv2 asks for that by an offset of -1."""
    with running(AT_POSITION) as pid:
        found = wait_for(pid, lambda one: one.op == "read" and one.length is None)
    assert found.path is not None and found.path.startswith("pipe:")
    assert found.offset == 0


def test_a_job_that_computes_is_not_called_stuck() -> None:
    """It is in no request at all."""
    with running("while True: pass") as pid:
        wait_for(pid, lambda one: one.op == "running" and one.state == "R")
        shown = iotrace("why", "--live", pid).stdout
    assert "1 running, 0 in requests" in shown and "no request has been going on" in shown


def test_each_rank_is_told_of() -> None:
    """Also the one that is in no request."""
    with running(TWO_RANKS) as pid:
        wait_for(pid, lambda one: one.rank == 0 and one.op == "read")
        wait_for(pid, lambda one: one.rank == 1 and one.op == "running")
        rows = [line.split() for line in iotrace("why", "--live", pid).stdout.splitlines()]
    told = {row[0]: row[2] for row in rows if row and row[0] in ("0", "1")}
    assert told == {"0": "read", "1": "running"}


@pytest.mark.parametrize("given", [(), ("x.parquet", "--live", 1), ("--live", 2**22 + 1)])
def test_one_job_or_one_trace_is_named(given: tuple[object, ...]) -> None:
    """One line says so."""
    assert_one_line_error(iotrace("why", *given), 2)
