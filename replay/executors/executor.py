"""What every executor takes and gives back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from iotrace.replay.job import Job
from iotrace.replay.memory_phases import MemorySeconds

if TYPE_CHECKING:
    from iotrace.replay.loop import SharedRun, Tape


@dataclass(frozen=True)
class LoopOptions:
    """How a job is run.

    Attributes:
        queue_depth: requests in flight per stream, at least 1.
        staging_bytes: buffer per request whose data are copied or checked, a multiple of
            4096; 0: what the largest such request needs. A request larger than its buffer
            is cut. All buffers together take 1 GiB at most, or `landing_bytes` where that is
            less, but for one there is always.
        landing_bytes: most memory that what is read lands in, in equal parts for the requests
            in flight; 0: no bound. A part has room for the longest read, within this bound, and
            is no less than 64 KiB; a read longer than its part is cut.
        start_ns: CLOCK_MONOTONIC time at which the first request may start, so that workers
            start together after their set-up; 0: at once.
        check_reads: compare what was read with the tape, outside the timed part.
        registered_buffers: register tape, landing and staging memory with io_uring where allowed.
        registered_files: register files with io_uring where it pays.
        submission_thread: let a thread of the kernel take what is submitted to io_uring.
        uncached: let the page cache drop at once what is not direct (RWF_DONTCACHE).
        stop_on_error: start nothing more after the first failed request; the requests left
            out get the result -ECANCELED.
        round_trip_ns: how much longer each request takes, as if its answer came from far away.
        shared: what this worker has in common with the others of the run, of which the job is
            then this one's share; None: there are none.
    """

    queue_depth: int = 1
    staging_bytes: int = 0
    landing_bytes: int = 0
    start_ns: int = 0
    check_reads: bool = False
    registered_buffers: bool = True
    registered_files: bool = True
    submission_thread: bool = False
    uncached: bool = False
    stop_on_error: bool = False
    round_trip_ns: int = 0
    shared: SharedRun | None = None


@dataclass(frozen=True)
class LoopReport:
    """What a run did besides its timings.

    Attributes:
        features: io_uring features in use, and huge pages behind the payload, by name.
        refused: features tried and refused by the kernel, by name.
        in_flight_wanted: requests that streams and queue depth would let be in flight at once.
        in_flight_limit: the same as threads, ring entries and staging memory allowed; for
            staged requests alone where memory is the limit.
        submissions: io_uring_enter calls that submitted something.
        resubmissions: continuations of short transfers.
        retries: EAGAIN and EINTR answered by another try.
        cut_reads: reads done in several calls, because `landing_bytes` did not go so far.
        staged_bytes: bytes copied into or out of staging buffers.
        mismatched_bytes: bytes read that differ from the tape (only with check_reads).
        first_mismatch: lowest index of a request with such bytes, or None.
        start_ns: CLOCK_MONOTONIC at the start of the run, set-up excluded.
        end_ns: CLOCK_MONOTONIC after the last completion.
        cpu_user_ns: user CPU time of the process between the two.
        cpu_system_ns: system CPU time, kernel workers of the ring included.
        first_error: lowest index of a request that failed or moved too few bytes, or None.
    """

    features: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    in_flight_wanted: int = 0
    in_flight_limit: int = 0
    submissions: int = 0
    resubmissions: int = 0
    retries: int = 0
    cut_reads: int = 0
    staged_bytes: int = 0
    mismatched_bytes: int = 0
    first_mismatch: int | None = None
    start_ns: int = 0
    end_ns: int = 0
    cpu_user_ns: int = 0
    cpu_system_ns: int = 0
    first_error: int | None = None


@dataclass(frozen=True, eq=False)
class Run:
    """One run of a job.

    Attributes:
        timings: one TIMING row per request, in the job's order.
        report: of the executor; of all workers together.
        failures: workers that were lost or given up on, one sentence each.
        memory: what was spent in memory before, in the slowest worker.
    """

    timings: npt.NDArray[np.void]
    report: LoopReport
    failures: tuple[str, ...] = ()
    memory: MemorySeconds = field(default_factory=MemorySeconds)


class Executor(Protocol):
    """Runs a job below a directory."""

    @property
    def name(self) -> str:
        """Name on the command line and in results."""

    def run(self, job: Job, tape: Tape, root_fd: int, options: LoopOptions) -> Run:
        """Run every request of `job` below a directory.

        An exception raised by a signal handler, such as KeyboardInterrupt, starts nothing more,
        waits for what is in flight, and is passed on.

        Args:
            job: what to run.
            tape: where payload comes from.
            root_fd: the directory, open for reading (O_PATH is not enough to sync it).
            options: how to run it.

        Raises:
            PlanError: the job is malformed, or its fences can never open.
            ReplayError: the executor cannot run here; a request's own failure is no
                exception but the `result` in its timing.
        """
