"""The pread/pwrite executor: the baseline, and the way out where io_uring is forbidden."""

from dataclasses import dataclass

from iotrace.replay.executors.executor import LoopOptions, Run
from iotrace.replay.job import Job
from iotrace.replay.loop import Tape, run_posix


@dataclass(frozen=True)
class PosixExecutor:
    """A thread per request in flight, at most 512; with one, the calling thread."""

    name: str = "posix"

    def run(self, job: Job, tape: Tape, root_fd: int, options: LoopOptions) -> Run:
        """Run `job`; see Executor.run."""
        return run_posix(job, tape, root_fd, options)
