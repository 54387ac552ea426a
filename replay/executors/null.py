"""The dry run: everything succeeds at once and nothing is touched."""

import time
from dataclasses import dataclass

import numpy as np

from iotrace.replay.executors.executor import LoopOptions, LoopReport, Run
from iotrace.replay.job import DATA_OPS, TIMING, Job, check_job
from iotrace.replay.loop import Tape


@dataclass(frozen=True)
class NullExecutor:
    """Checks the job and reports every request as whole, in no time."""

    name: str = "null"

    def run(self, job: Job, tape: Tape, root_fd: int, options: LoopOptions) -> Run:
        """Check `job` and pretend; see Executor.run."""
        check_job(job)
        now = time.monotonic_ns()
        timings = np.zeros(len(job.requests), TIMING)
        timings["start_ns"] = timings["end_ns"] = now
        data = np.isin(job.requests["op"], DATA_OPS)
        timings["result"][data] = job.requests["length"][data]
        timings.flags.writeable = False
        return Run(timings, LoopReport(start_ns=now, end_ns=now))
