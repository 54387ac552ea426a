"""Worker processes: each runs its share of a job, all start together, none is waited for forever.

They are forked from this process after the payload was made and before any ring is set up, and
share the payload, the timings and the progress of the job: a request that waits for one of
another worker waits for it as for its own.
"""

import ctypes
import errno
import gc
import io
import os
import pickle
import selectors
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import NoReturn

import numpy as np

from iotrace.replay.executors.executor import Executor, LoopOptions, LoopReport, Run
from iotrace.replay.fold import Fold
from iotrace.replay.job import Job, check_job
from iotrace.replay.loop import SharedRun, Tape
from iotrace.replay.memory_phases import MemoryPhases, MemorySeconds
from iotrace.traces.errors import IotraceError, ReplayError
from iotrace.traces.remedies import with_remedy

_LOOK_SECONDS = 0.1
_GRACE_SECONDS = 5.0  # at most, for what is in flight once nothing more is started
_TELL_SECONDS = 1.0
_PR_SET_PDEATHSIG = 1
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True, eq=False)
class _Task:
    """What one worker runs."""

    executor: Executor
    share: Job
    tape: Tape
    root_fd: int
    options: LoopOptions
    ready: Callable[[], MemorySeconds]


@dataclass(frozen=True)
class _Answer:
    """What one worker tells of it."""

    report: LoopReport
    memory: MemorySeconds


@dataclass(frozen=True)
class _Worker:
    """A process, the pipe it answers through, and whose requests it runs.

    The pipe is closed once the process is gone, and knows that it is: its number may be another's.
    """

    pid: int
    pipe: io.FileIO
    name: str


def run_in_workers(
    executor: Executor,
    job: Job,
    fold: Fold,
    tape: Tape,
    root_fd: int,
    options: LoopOptions,
    patience_seconds: float,
    memory: MemoryPhases,
    report: Callable[[int], None] = lambda done: None,
) -> Run:
    """Run `job` in one process per worker of `fold`; see Executor.run.

    Args:
        executor: what each worker runs its share with.
        job: all of it.
        fold: which streams are whose.
        tape: the payload.
        root_fd: the directory.
        options: how to run it.
        patience_seconds: most time without any request completed, recorded pauses beside. Then,
            and when a worker is lost, nothing more is started, and `Run.failures` tells.
        memory: what each worker does before the run, timed apart.
        report: called now and then with how many requests are complete.

    Raises:
        PlanError: the job is malformed.
        ReplayError: a worker could not run its share.
    """
    check_job(job)
    shared = SharedRun(len(job.requests), job.file_count, fold.count)
    workers: list[_Worker] = []
    try:
        with _signals_held():
            for number, name in enumerate(fold.names):
                share = fold.share(job, number)
                ready = partial(memory.spend, fold.worker == number, number)
                how = replace(options, shared=shared)
                workers.append(_start(_Task(executor, share, tape, root_fd, how, ready), name))
        patience = patience_seconds + longest_pause_seconds(job)
        answers, failures = _Watch(shared, patience, report).collect(workers)
    except BaseException:
        _Watch(shared, _GRACE_SECONDS).collect(workers, stopped=True)
        raise
    for answer in answers:
        if isinstance(answer, IotraceError):
            raise answer
    runs = [answer for answer in answers if isinstance(answer, _Answer)]
    if failures:
        lost = (shared.timings["end_ns"] == 0) & (shared.timings["result"] == 0)
        shared.timings["result"][lost] = -errno.ECANCELED
    shared.timings.flags.writeable = False
    slowest = MemorySeconds.slowest(one.memory for one in runs)
    joined = join_reports([one.report for one in runs])
    return Run(shared.timings, joined, tuple(failures), slowest)


@contextmanager
def _signals_held() -> Iterator[None]:
    """Act on a signal that ends the program afterwards: a fork runs hooks of Python's own, in which
    what a handler raises is printed and lost."""
    if threading.current_thread() is not threading.main_thread():
        yield  # handlers do not run here
        return
    came: list[int] = []
    handlers = {number: signal.getsignal(number) for number in _ENDING}
    own = {number: handler for number, handler in handlers.items() if callable(handler)}
    try:
        for number in own:
            signal.signal(number, lambda number, frame: came.append(number))
        yield
    finally:
        for number, handler in own.items():
            signal.signal(number, handler)
    if came:
        signal.raise_signal(came[0])


def _start(task: _Task, name: str) -> _Worker:
    reader, writer = os.pipe()
    parent = os.getpid()
    pid = os.fork()
    if pid:
        os.close(writer)
        return _Worker(pid, io.FileIO(reader), name)
    try:
        _settle_in(parent)
        _answer(writer, task)
    finally:
        os._exit(1)


def _settle_in(parent: int) -> None:
    """Leave Ctrl-C to the parent, and do not outlive it."""
    gc.disable()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in _ENDING[1:]:
        signal.signal(number, signal.SIG_DFL)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _answer(writer: int, task: _Task) -> NoReturn:
    answer: _Answer | IotraceError
    try:
        seconds = task.ready()
        run = task.executor.run(task.share, task.tape, task.root_fd, task.options)
        answer = _Answer(run.report, seconds)
    except IotraceError as error:
        answer = error
    except OSError as error:
        answer = ReplayError(f"a worker could not run: {with_remedy(error)}")
    except BaseException as error:
        answer = ReplayError(f"a worker could not run: {error!r}")
    with os.fdopen(writer, "wb") as pipe:
        pickle.dump(answer, pipe)
    os._exit(0)


class _Watch:
    """Waits for workers while requests are completed.

    Args:
        shared: of the run.
        patience_seconds: most time without one.
        report: called with how many requests are complete, about once a second: what it draws
            takes time from what is measured.
    """

    def __init__(
        self,
        shared: SharedRun,
        patience_seconds: float,
        report: Callable[[int], None] = lambda done: None,
    ) -> None:
        self._shared = shared
        self._report = report
        self._reported_at = time.monotonic()
        self._patience_seconds = patience_seconds
        self._done = shared.done
        self._moved_at = time.monotonic()
        self._stopped_at: float | None = None

    def collect(
        self, workers: Sequence[_Worker], stopped: bool = False
    ) -> tuple[list[_Answer | IotraceError], list[str]]:
        """Return what the workers answered, and what became of those that did not.

        Args:
            workers: to wait for; those that an interrupted call has seen the end of are passed.
            stopped: start nothing more from the beginning.
        """
        if stopped:
            self._stop()
        said = {worker: b"" for worker in workers if not worker.pipe.closed}
        answers: list[_Answer | IotraceError] = []
        failures: list[str] = []
        with selectors.DefaultSelector() as selector:
            for worker in said:
                selector.register(worker.pipe, selectors.EVENT_READ, worker)
            while selector.get_map():
                for key, _ in selector.select(_LOOK_SECONDS):
                    worker = key.data
                    part = worker.pipe.read(1 << 20)
                    if part:
                        said[worker] += part
                        continue
                    status = _status_of(worker.pid)
                    selector.unregister(worker.pipe)
                    worker.pipe.close()
                    if said[worker]:
                        answers.append(pickle.loads(said[worker]))
                        if isinstance(answers[-1], IotraceError):
                            self._stop()
                    else:
                        failures.append(f"the worker of {worker.name} was lost: {status}")
                        self._stop()
                self._tell()
                left = [key.data for key in selector.get_map().values()]
                if self._is_late():
                    names = ", ".join(worker.name for worker in left)
                    failures.append(
                        f"no request was completed in {self._patience_seconds:.0f} s; given up "
                        f"on {names} (--timeout waits longer)"
                    )
                    self._stop()
                if self._is_over():
                    for worker in left:
                        _kill(worker.pid)
                        selector.unregister(worker.pipe)
                        worker.pipe.close()
        return answers, failures

    def _stop(self) -> None:
        self._shared.stop()
        self._stopped_at = self._stopped_at or time.monotonic()

    def _tell(self) -> None:
        if time.monotonic() - self._reported_at > _TELL_SECONDS:
            self._report(self._shared.done)
            self._reported_at = time.monotonic()

    def _is_late(self) -> bool:
        done = self._shared.done
        if done != self._done:
            self._done, self._moved_at = done, time.monotonic()
        waited = time.monotonic() - self._moved_at
        return self._stopped_at is None and waited > self._patience_seconds

    def _is_over(self) -> bool:
        """Whether even what was in flight has had its time."""
        if self._stopped_at is None:
            return False
        grace_seconds = min(_GRACE_SECONDS, self._patience_seconds)
        return time.monotonic() - self._stopped_at > grace_seconds


def _kill(pid: int) -> None:
    """End a process; one that is stuck in the kernel is left there."""
    deadline = time.monotonic() + _GRACE_SECONDS
    with suppress(ProcessLookupError, ChildProcessError):  # an interrupted call has ended it
        os.kill(pid, signal.SIGKILL)
        while not os.waitpid(pid, os.WNOHANG)[0] and time.monotonic() < deadline:
            time.sleep(_LOOK_SECONDS / 10)


def _status_of(pid: int) -> str:
    """Take leave of a process that has closed its pipe, and say how it ended."""
    try:
        _, status = os.waitpid(pid, 0)
    except ChildProcessError:  # an interrupted call has taken leave of it
        return "ended"
    code = os.waitstatus_to_exitcode(status)
    return f"ended by {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"


def longest_pause_seconds(job: Job) -> float:
    """Return the longest time in which a job may rightly complete nothing, in seconds."""
    due = np.sort(job.requests["due_ns"])
    longest_ns = int(np.diff(due, prepend=0).max(initial=0)) + int(
        job.requests["think_ns"].max(initial=0)
    )
    return longest_ns / 1e9


def join_reports(reports: Sequence[LoopReport]) -> LoopReport:
    """Return the report of all workers together."""
    if not reports:
        return LoopReport()
    return LoopReport(
        features=tuple(dict.fromkeys(f for one in reports for f in one.features)),
        refused=tuple(dict.fromkeys(f for one in reports for f in one.refused)),
        in_flight_wanted=sum(one.in_flight_wanted for one in reports),
        in_flight_limit=sum(one.in_flight_limit for one in reports),
        submissions=sum(one.submissions for one in reports),
        resubmissions=sum(one.resubmissions for one in reports),
        retries=sum(one.retries for one in reports),
        cut_reads=sum(one.cut_reads for one in reports),
        staged_bytes=sum(one.staged_bytes for one in reports),
        mismatched_bytes=sum(one.mismatched_bytes for one in reports),
        first_mismatch=_least(one.first_mismatch for one in reports),
        start_ns=min(one.start_ns for one in reports),
        end_ns=max(one.end_ns for one in reports),
        cpu_user_ns=sum(one.cpu_user_ns for one in reports),
        cpu_system_ns=sum(one.cpu_system_ns for one in reports),
        first_error=_least(one.first_error for one in reports),
    )


def _least(values: Iterable[int | None]) -> int | None:
    return min((value for value in values if value is not None), default=None)
