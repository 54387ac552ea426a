"""One run by the processes of a launch: each runs its share, on any machine.

They have no memory in common. Each counts in its own what it has completed, and every millisecond
all of them add up their counts: a request that waits for one elsewhere starts that much later.
"""

import errno
import threading
import time
from dataclasses import replace

import numpy as np

from iotrace.replay.executors.executor import Executor, LoopOptions, LoopReport, Run
from iotrace.replay.fold import Fold
from iotrace.replay.group import Group
from iotrace.replay.job import Job, check_job
from iotrace.replay.loop import SharedRun, Tape
from iotrace.replay.pieces import Ints
from iotrace.replay.workers import join_reports, longest_pause_seconds
from iotrace.traces.errors import ReplayError

_TICK_SECONDS = 0.001
_HEAD_START_NS = 20_000_000


def run_across(
    group: Group,
    executor: Executor,
    job: Job,
    fold: Fold,
    tape: Tape,
    root_fd: int,
    options: LoopOptions,
    patience_seconds: float,
) -> Run:
    """Run `job` in the processes of `group`; every one of them gets the whole result.

    Args:
        group: the processes; worker i of `fold` is process i.
        executor: what each runs its share with.
        job: all of it.
        fold: which streams are whose.
        tape: the payload.
        root_fd: the directory, on storage that all of them see.
        options: how to run it.
        patience_seconds: as for `run_in_workers`.

    Raises:
        ReplayError: a process was lost, in all that are left but the first: it tells what there
            is to tell.
    """
    check_job(job)
    group.gather(None)  # from here on nobody waits for another for long
    shared = SharedRun(len(job.requests), job.file_count, 0)
    ticker = _Ticker(group, shared, _common_files(job, fold))
    patience = patience_seconds + longest_pause_seconds(job)
    thread = threading.Thread(target=ticker.run, args=(patience,))
    thread.start()
    report = LoopReport()
    failures: list[str] = []
    try:
        share = fold.share(job, group.rank)
        report = executor.run(share, tape, root_fd, replace(options, shared=shared)).report
    except Exception as error:  # the others must not wait for this one
        shared.stop()
        failures.append(f"process {group.rank} could not run: {error}")
    finally:
        ticker.finished = True
        thread.join()
    failures += ticker.failures
    if group.lost and group.rank:
        raise ReplayError(failures[0])
    begin_ns = report.start_ns
    own = shared.timings.copy()
    ran = own["end_ns"] > 0
    own["start_ns"][ran] -= begin_ns
    own["end_ns"][ran] -= begin_ns
    columns = np.concatenate([own["start_ns"], own["end_ns"], own["result"], ran])
    start_ns, end_ns, result, ran_there = np.split(group.sum(columns), 4)
    told = group.gather((report, failures))
    timings = own
    done = ran_there > 0
    timings["start_ns"] = np.where(done, start_ns + begin_ns, 0)
    timings["end_ns"] = np.where(done, end_ns + begin_ns, 0)
    timings["result"] = result
    if group.lost:
        timings["result"][~done & (result == 0)] = -errno.ECANCELED
    timings.flags.writeable = False
    reports = [one for one, _ in told]
    duration_ns = max(one.end_ns - one.start_ns for one in reports)
    joined = replace(join_reports(reports), start_ns=begin_ns, end_ns=begin_ns + duration_ns)
    everyones = tuple(dict.fromkeys(text for _, texts in told for text in texts))
    return Run(timings, joined, everyones)


def _common_files(job: Job, fold: Fold) -> Ints:
    """Return the files that several workers order their requests by."""
    rows = job.requests[job.requests["file"] >= 0]
    worker = fold.worker[rows["stream"]]
    least, most = np.full(job.file_count, np.iinfo(np.int64).max), np.full(job.file_count, -1)
    np.minimum.at(least, rows["file"], worker)
    np.maximum.at(most, rows["file"], worker)
    return np.flatnonzero((most >= 0) & (least < most))


class _Ticker:
    """Adds up, again and again, what the processes have done."""

    def __init__(self, group: Group, shared: SharedRun, files: Ints) -> None:
        self.finished = False
        self.failures: list[str] = []
        self._group = group
        self._shared = shared
        self._files = files
        self._others = np.zeros(2 + 2 * len(files), np.int64)

    def run(self, patience_seconds: float) -> None:
        """Go on until all have finished; without it, nothing goes on."""
        try:
            self._run(patience_seconds)
        except Exception as error:  # whatever it is, the requests that wait must not go on waiting
            self.failures.append(str(error) or type(error).__name__)
            self._shared.stop()

    def _run(self, patience_seconds: float) -> None:
        done, moved_at, started = -1, time.monotonic(), False
        while True:
            own = self._shared.counts(self._files) - self._others
            late = time.monotonic() - moved_at > patience_seconds
            flags = [self.finished, self._shared.stopped or late, self._shared.ready]
            total = self._group.tick(np.concatenate([np.array(flags, np.int64), own]))
            finished, stopped, ready = total[:3].tolist()
            if late and not self.failures:
                self.failures.append(f"no request was completed in {patience_seconds:.0f} s")
            if stopped:
                self._shared.stop()
            news = total[3:] - own - self._others
            self._shared.add(self._files, news)
            self._others += news
            if ready == self._group.size and not started:
                self._shared.start(time.monotonic_ns() + _HEAD_START_NS)
                started = True
            if finished == self._group.size:
                return
            if int(total[3]) != done:
                done, moved_at = int(total[3]), time.monotonic()
            time.sleep(_TICK_SECONDS)
