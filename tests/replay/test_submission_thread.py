"""A ring whose entries a thread of the kernel takes (SQPOLL)."""

from pathlib import Path

import pytest

from iotrace.replay.executors.executor import LoopOptions
from iotrace.replay.executors.uring import UringExecutor
from iotrace.replay.loop import Tape
from iotrace.replay.sketch import sketch
from iotrace.traces.errors import PlanError

from .job_builder import CREATE, JobBuilder, run
from .session_run import SAVE_AND_LOAD
from .session_run import run as replay


def test_the_thread_submits_and_not_the_loop(tape: Tape, tmp_path: Path) -> None:
    """The loop calls the kernel to submit only where the thread had gone to sleep."""
    job = JobBuilder()
    handle = job.open("a", CREATE)
    for i in range(2000):
        job.write(handle, i * 4096, 4096)
    job.sync(handle)
    job.close(handle)
    options = LoopOptions(queue_depth=8, submission_thread=True)
    by_thread = run(UringExecutor(), job.build(), tape, tmp_path, options).report
    by_calls = run(UringExecutor(), job.build(), tape, tmp_path, LoopOptions(queue_depth=8)).report
    assert by_thread.first_error is None and by_calls.first_error is None
    assert "submission thread" in by_thread.features
    assert "deferred task work" not in by_thread.features
    assert "submission thread" not in by_calls.features + by_calls.refused
    assert by_thread.submissions < by_calls.submissions


def test_a_replay_submitted_by_the_thread_is_verified(root: Path) -> None:
    """Names, syncs, loads and checked reads included."""
    outcome = replay(
        sketch(SAVE_AND_LOAD), root, submission_thread=True, queue_depth=4, verify=True
    )
    assert outcome.verified and not outcome.failed
    assert "submission thread" in outcome.repetitions[-1].report.features


def test_a_thread_without_a_ring_is_refused(tmp_path: Path) -> None:
    """It would be ignored."""
    with pytest.raises(PlanError, match="--sqpoll"):
        replay(sketch(SAVE_AND_LOAD), tmp_path, submission_thread=True, executor="posix")
