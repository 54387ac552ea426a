"""Runs of one plan: each on fresh files, by workers here or in the processes of a launch."""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce
from operator import or_

import numpy as np
import numpy.typing as npt

from iotrace.replay.across import run_across
from iotrace.replay.durability import are_synced
from iotrace.replay.executors.executor import Executor, LoopOptions, Run
from iotrace.replay.fold import Fold, fold
from iotrace.replay.group import Group, each, once
from iotrace.replay.job import Op
from iotrace.replay.lasting import drain, sync_files
from iotrace.replay.loop import Tape
from iotrace.replay.memory import affordable_landing_bytes
from iotrace.replay.memory_phases import MemoryPhases, MemorySeconds
from iotrace.replay.options import ReplayOptions
from iotrace.replay.plan import Plan
from iotrace.replay.prepare import Prepared, evict_prepared, prepare, prepare_copies
from iotrace.replay.requests import Requests
from iotrace.replay.schedule import Schedule, schedule
from iotrace.replay.workers import run_in_workers
from iotrace.replay.workspace import Workspace
from iotrace.traces.errors import ReplayError
from iotrace.traces.remedies import with_remedy


@dataclass(frozen=True, eq=False)
class Runner:
    """Runs a plan as often as asked.

    Attributes:
        plan: what to run.
        options: how.
        executor: what workers run their shares with.
        tape: the payload.
        workspace: where requests are issued.
        destination: where files belong; another place than the workspace if staged.
        group: the processes of a launch, which all do the same with their own runner.
        steady: names of prepared files that a run leaves as it found them.
    """

    plan: Plan
    options: ReplayOptions
    executor: Executor
    tape: Tape
    workspace: Workspace
    destination: Workspace
    group: Group
    steady: frozenset[str]

    @property
    def staged(self) -> bool:
        """Whether what is written is to be drained to another place."""
        return self.destination is not self.workspace

    @cached_property
    def folded(self) -> Fold:
        """Which worker runs which streams: the processes of a launch are the workers."""
        workers = self.options.workers if self.group.size == 1 else self.group.size
        return fold(self.plan.streams, self.plan.requests, workers)

    def schedule(self, checked: bool) -> Schedule:
        """Return the plan's job; `checked` as for `schedule`."""
        options = self.options
        return schedule(
            self.plan,
            options.queue_depth,
            options.timing,
            options.time_scale,
            options.warm,
            checked,
            # The processes of a launch may be on machines of their own.
            cache=self.folded.worker if self.group.size > 1 else None,
        )

    def make_room(self) -> None:
        """Let the destination hold what is there before a drain, off the clock."""
        if self.staged:
            once(self.group, self._make_room)

    def _make_room(self) -> None:
        try:
            self.destination.clear()
            prepare_copies(self.plan, self.tape, self.destination.fd)
        except OSError as error:
            raise self._at_destination("the destination could not be made ready", error) from error

    def make_last(self, job: Schedule) -> float:
        """Sync what a run wrote and did not sync, or drain it; return the seconds that took."""
        return max(each(self.group, self._drain if self.staged else partial(self._sync, job)))

    def _sync(self, job: Schedule) -> float:
        """Sync, as the workers would, what they wrote; in a launch each process what it wrote."""
        alone, rows = self.group.size == 1, job.requests
        own = self._is_own(rows)
        written = np.zeros(len(self.plan.files), np.bool_)
        written[rows["file"][own & (rows["op"] == Op.WRITE)]] = True
        file = np.flatnonzero(written)
        written[file[are_synced(rows, file, np.full(len(file), len(rows)), own)]] = False
        threads = self.folded.count if alone else 1
        rtt_seconds = self.options.round_trip_seconds
        return sync_files(self.plan, written, self.workspace.fd, rtt_seconds, threads)

    def _is_own(self, rows: Requests) -> npt.NDArray[np.bool_]:
        """Return which requests are issued by this process, or by workers of it."""
        own = (self.folded.worker == self.group.rank) | (self.group.size == 1)
        return np.asarray(own[rows["stream"]])

    def _drain(self) -> float:
        tier, root = self.workspace.fd, self.destination.fd
        try:
            return drain(self.plan, tier, root, self.folded.count)
        except OSError as error:
            raise self._at_destination("the drain stopped", error) from error

    def _at_destination(self, what: str, error: OSError) -> ReplayError:
        return ReplayError(f"{what}: {with_remedy(error, f'look at {self.options.root}')}")

    def _prepare(self) -> Prepared:
        """Make the files that the plan finds there, cold wherever they are used."""
        once(self.group, self._make_files)
        files, rows = self.plan.files, self.plan.requests
        used = np.zeros(len(files) + 1, np.bool_)  # the last: no file
        used[rows["file"][self._is_own(rows)]] = True
        evict = partial(evict_prepared, self.plan, used[:-1], self.workspace.fd)
        # Of a file that several processes use, the most that the cache of one holds: some share
        # a cache, and the reads of the others are no warmer for it.
        resident = reduce(or_, each(self.group, evict)).total()
        size_bytes = int(files.initial_size_bytes[files.exists].sum())
        return Prepared(int(files.exists.sum()), size_bytes, resident)

    def _make_files(self) -> None:
        self.workspace.clear(self.steady)
        self.workspace.make_directories(self.plan)
        prepare(self.plan, self.tape, self.workspace.fd)

    def _workers_here(self) -> int:
        """Return how many workers share this machine's memory."""
        if self.group.size == 1:
            return max(self.folded.count, 1)
        host = os.uname().nodename
        return self.group.gather(host).count(host)

    def run(
        self,
        job: Schedule,
        check_reads: bool = False,
        report: Callable[[int], None] = lambda done: None,
    ) -> tuple[Run, Prepared]:
        """Run a job once on fresh files; `report` as for `run_in_workers`."""
        prepared, folded = self._prepare(), self.folded
        options = LoopOptions(
            queue_depth=self.options.queue_depth,
            landing_bytes=affordable_landing_bytes(self._workers_here()),
            check_reads=check_reads,
            registered_buffers=self.options.registered_buffers,
            registered_files=self.options.registered_files,
            submission_thread=self.options.submission_thread,
            uncached=self.options.uncached,
            stop_on_error=self.options.stop_on_error,
            round_trip_ns=round(self.options.round_trip_seconds * 1e9),
        )
        memory = MemoryPhases.of(self.plan, self.options.allocate, self.options.source)
        how = (self.tape, self.workspace.fd, options, self.options.timeout_seconds)
        if self.group.size == 1:
            run = run_in_workers(self.executor, job.job, folded, *how, memory, report)
            return run, prepared
        spend = partial(memory.spend, folded.worker == self.group.rank, self.group.rank)
        spent = MemorySeconds.slowest(each(self.group, spend))
        run = run_across(self.group, self.executor, job.job, folded, *how)
        return replace(run, memory=spent), prepared
