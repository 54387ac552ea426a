"""The io_uring executor."""

from dataclasses import dataclass

from iotrace.replay.executors.executor import LoopOptions, Run
from iotrace.replay.job import Job
from iotrace.replay.loop import Tape, run_uring


@dataclass(frozen=True)
class UringExecutor:
    """One ring per run; what the kernel refuses is left out and said in the report."""

    name: str = "io_uring"

    def run(self, job: Job, tape: Tape, root_fd: int, options: LoopOptions) -> Run:
        """Run `job`; see Executor.run."""
        return run_uring(job, tape, root_fd, options)
