"""A process that runs a job, so that the replay can end it at any time."""

import ctypes
import os
import pickle
import signal
import warnings
from typing import NoReturn

from iotrace.replay.executors.executor import Executor, LoopOptions, Run
from iotrace.replay.job import Job
from iotrace.replay.loop import Tape
from iotrace.traces.errors import ReplayError

_PR_SET_PDEATHSIG = 1


def run_in_worker(
    executor: Executor, job: Job, tape: Tape, root_fd: int, options: LoopOptions
) -> Run:
    """Run `job` in a forked process; see Executor.run.

    An exception here, such as Ctrl-C, kills the worker before it goes on: nothing uses tape or
    root afterwards.

    Raises:
        ReplayError: besides what the executor raises, when the worker was killed.
    """
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        # The child runs C code and leaves: it needs no lock that another thread may hold.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if not child:
        os.close(reader)
        _work(executor, job, tape, root_fd, options, writer)
    os.close(writer)
    try:
        with open(reader, "rb") as answers:
            answer = answers.read()
    except BaseException:
        os.kill(child, signal.SIGKILL)
        raise
    finally:
        _, status = os.waitpid(child, 0)
    if not answer:
        code = os.waitstatus_to_exitcode(status)
        raise ReplayError(f"the replay's worker process ended early (status {code}); try again")
    outcome: Run | Exception = pickle.loads(answer)
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


def _work(
    executor: Executor, job: Job, tape: Tape, root_fd: int, options: LoopOptions, writer: int
) -> NoReturn:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    outcome: Run | Exception
    try:
        outcome = executor.run(job, tape, root_fd, options)
    except Exception as error:
        outcome = error
    with open(writer, "wb") as answers:
        answers.write(pickle.dumps(outcome, protocol=5))
    os._exit(0)
