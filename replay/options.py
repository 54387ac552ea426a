"""How a plan is to be replayed."""

from dataclasses import dataclass
from pathlib import Path

from iotrace.replay.executors.executor import Executor
from iotrace.replay.executors.null import NullExecutor
from iotrace.replay.executors.posix import PosixExecutor
from iotrace.replay.executors.uring import UringExecutor
from iotrace.replay.loop import probe_uring
from iotrace.replay.schedule import TIMINGS
from iotrace.replay.source import SOURCES
from iotrace.traces.errors import PlanError, ReplayError

MAX_ROUND_TRIP_SECONDS = 1.0
MAX_QUEUE_DEPTH = 1 << 16  # more than io_uring takes at a time
ALLOCATIONS = ("pooled", "fresh", "huge")
EXECUTORS = ("io_uring", "posix", "null")


@dataclass(frozen=True)
class ReplayOptions:
    """How a plan is to be replayed.

    Attributes:
        executor: one of EXECUTORS; `null` is a dry run.
        queue_depth: requests in flight per stream; 1 keeps the program order of blocking calls.
        repeat: timed runs, at least 1, each on fresh files.
        warmup: runs before these that are not timed.
        verify: prove afterwards that every byte is where it belongs.
        root: existing directory that the workspace is made in.
        stage: existing directory on fast storage: what is written is staged there and then
            drained to `root`, see `lasting`; None: everything happens in `root`.
        keep: leave the workspace there.
        workers: processes that share the ranks out; None: one per recorded rank, see `fold`.
        timeout_seconds: most time without any request completed, recorded pauses beside, before
            workers are given up on.
        allocate: `fresh`: time apart how long the kernel takes to give the memory that loads read
            into; `huge`: the same in huge pages; `pooled`: it is there.
        source: of SOURCES: time apart how long what is saved takes from there to pinned memory;
            None: it is there.
        round_trip_seconds: how much longer each request takes, to see what a network file system
            would make of it; such results are simulated.
        timing: `asap`, `think` or `recorded`, see `schedule`.
        time_scale: recorded pauses and times are multiplied by it.
        warm: let loads find in the page cache what it holds.
        strict: make every degradation an error.
        stop_on_error: start nothing more after the first failed request.
        registered_buffers, registered_files: let io_uring use them where it can.
        submission_thread: let a thread of the kernel take requests off the ring (SQPOLL).
        uncached: what is not direct goes through the page cache and is dropped from it at once,
            which is RWF_DONTCACHE.
        seed: which random bytes the payload is made of.
    """

    executor: str = "io_uring"
    queue_depth: int = 1
    repeat: int = 1
    warmup: int = 0
    verify: bool = False
    root: Path = Path()
    stage: Path | None = None
    keep: bool = False
    workers: int | None = None
    timeout_seconds: float = 300.0
    allocate: str = "pooled"
    source: str | None = None
    round_trip_seconds: float = 0.0
    timing: str = "asap"
    time_scale: float = 1.0
    warm: bool = False
    strict: bool = False
    stop_on_error: bool = True
    registered_buffers: bool = True
    registered_files: bool = True
    submission_thread: bool = False
    uncached: bool = False
    seed: int = 0

    @property
    def runs_in(self) -> Path:
        """The directory that the requests are issued below."""
        return self.stage or self.root

    def check(self) -> None:
        """Refuse what cannot be done.

        Raises:
            PlanError: naming the option to change.
        """
        checks = (
            (self.executor in EXECUTORS, f"--executor must be one of {', '.join(EXECUTORS)}"),
            (self.timing in TIMINGS, f"--timing must be one of {', '.join(TIMINGS)}"),
            (
                1 <= self.queue_depth <= MAX_QUEUE_DEPTH,
                f"--queue-depth must lie between 1 and {MAX_QUEUE_DEPTH}",
            ),
            (self.workers is None or self.workers >= 1, "--workers must be at least 1"),
            (self.allocate in ALLOCATIONS, f"--allocate must be one of {', '.join(ALLOCATIONS)}"),
            (self.source in (None, *SOURCES), f"--source must be {' or '.join(SOURCES)}"),
            (self.timeout_seconds > 0, "--timeout must be more than 0"),
            (
                0 <= self.round_trip_seconds <= MAX_ROUND_TRIP_SECONDS,
                "--rtt must lie between 0 and 1s",
            ),
            (
                self.stage is None or not self.round_trip_seconds,
                "--stage drains without the round trips of --rtt; leave one of them out",
            ),
            (
                not self.submission_thread or self.executor == "io_uring",
                "--sqpoll is a way to use io_uring; leave out --executor, or --sqpoll",
            ),
            (self.repeat >= 1, "--repeat must be at least 1"),
            (self.warmup >= 0, "--warmup must not be negative"),
            (0 <= self.time_scale < 1e6, "--time-scale must lie between 0 and 1000000"),
        )
        for holds, message in checks:
            if not holds:
                raise PlanError(message)


def choose_executor(options: ReplayOptions) -> tuple[Executor, tuple[str, ...]]:
    """Return the executor, and what is done otherwise than asked.

    Raises:
        ReplayError: io_uring cannot be used and `strict` asks for it.
    """
    if options.executor == "null":
        return NullExecutor(), ()
    if options.executor == "posix":
        return PosixExecutor(), ()
    cause = probe_uring()
    if cause is None:
        return UringExecutor(), ()
    if options.strict:
        raise ReplayError(f"io_uring cannot be used here: {cause}; use --executor posix")
    return PosixExecutor(), (f"posix executor instead of io_uring: {cause}",)
