"""Kills at any moment, and a million requests by several threads."""

import os
import random
import signal
import subprocess
import time
from pathlib import Path

import numpy as np

from iotrace.capture.collector import collect
from iotrace.capture.rawlog import read_raw_log

from .preload_job import capture, capture_environment, compile_program

KILLS = 100
RECORD_BYTES = 512  # of killed.c
THREADS, CALLS = 8, 1_000_000
BLOCK_BYTES, PART_BLOCKS = 4096, 256  # of million.c


def test_a_kill_loses_at_most_the_request_in_flight(tmp_path: Path) -> None:
    """A node that fails is when people look into a trace; it must hold all that was done."""
    program = compile_program(tmp_path, "killed.c", "-O2")
    seed = random.Random(7)
    lost = []
    for attempt in range(KILLS):
        logs, data = tmp_path / f"logs{attempt}", tmp_path / "data"
        logs.mkdir()
        process = subprocess.Popen(
            [program, data], env={**os.environ, **capture_environment(logs)}, stdout=subprocess.PIPE
        )
        assert process.stdout and process.stdout.read(1) == b"x"
        time.sleep(seed.uniform(0, 0.004))
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        (path,) = logs.glob("*.raw")
        log = read_raw_log(path)
        written = log.records[log.rows("write")]
        assert (written["result"] == RECORD_BYTES).all()
        assert (np.diff(written["offset"]) == RECORD_BYTES).all()
        lost.append(data.stat().st_size - len(written) * RECORD_BYTES)
        if attempt % 25 == 0:
            trace = collect(logs, [])
            assert trace.row_mask(op="write").sum() == len(written)
            assert any("was killed" in p for p in trace.metadata.completeness.problems())
    assert set(lost) <= {0, RECORD_BYTES}


def test_a_million_requests_of_eight_threads_are_all_there(tmp_path: Path) -> None:
    """Nothing may be dropped when the job is busiest, and each thread's order is the true one."""
    program = compile_program(tmp_path, "million.c", "-O2", "-pthread")
    captured = capture([program, tmp_path / "data", str(THREADS), str(CALLS)], tmp_path / "logs")
    assert captured.done.returncode == 0, captured.done.stderr
    log = captured.log
    assert log.header.outside.dropped_records == log.torn_records == 0
    rows = log.rows("write")
    rows = rows[np.argsort(log.column("start_ns")[rows], kind="stable")]  # as in the trace
    blocks = log.column("offset")[rows] // BLOCK_BYTES
    threads, starts = log.threads[rows], log.column("start_ns")[rows]
    assert len(rows) == CALLS + THREADS * PART_BLOCKS
    one_thread = np.arange(CALLS // THREADS)
    expected = np.append(np.arange(PART_BLOCKS), one_thread) % PART_BLOCKS
    assert len(np.unique(threads)) == THREADS
    for thread in np.unique(threads):
        own = threads == thread
        assert (np.diff(starts[own].astype(np.int64)) > 0).all()
        part = blocks[own][0] // PART_BLOCKS
        assert (blocks[own] - part * PART_BLOCKS == expected).all()
