"""Replays of one trace, as sides of an alternation."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from iotrace.replay.build import plan_from_trace
from iotrace.replay.options import ReplayOptions
from iotrace.replay.plan import Plan
from iotrace.replay.result import RecordedSummary
from iotrace.replay.session import replay
from iotrace.tools.shape import Shape, transforms
from iotrace.traces.elapsed import busy_ns
from iotrace.traces.reader import read_trace

from .rows import Row, Side


@dataclass(frozen=True, eq=False)
class Replays:
    """Makes sides of a trace.

    Attributes:
        plan: of all of it.
        recorded: its totals.
        root: where to replay.
    """

    plan: Plan
    recorded: RecordedSummary
    root: Path

    @classmethod
    def of(cls, trace: Path, root: Path) -> Replays:
        """Read the trace."""
        recording = read_trace(str(trace))
        return cls(plan_from_trace(recording), RecordedSummary.of(recording), root)

    def reshaped(self, shape: Shape) -> Plan:
        """Return the plan with its requests reshaped."""
        plan = self.plan
        for transform in transforms(shape, self.root):
            plan = transform(plan)
        return plan

    def side(
        self,
        shape: Shape,
        queue_depth: int = 1,
        *,
        warmup: int = 0,
        pause_seconds: float = 0.0,
        executor: str = "io_uring",
        timing: str = "asap",
        allocate: str = "pooled",
    ) -> Side:
        """Return a replay to be run again and again; the transforms are applied once, here.

        Args:
            shape: how to reshape the requests.
            queue_depth, executor, timing, allocate: as for ReplayOptions.
            warmup: runs right before the one that is told of.
            pause_seconds: before all of it.
        """
        plan = self.reshaped(shape)
        options = ReplayOptions(
            executor=executor,
            queue_depth=queue_depth,
            warmup=warmup,
            root=self.root,
            timing=timing,
            allocate=allocate,
        )

        def run() -> Row:
            time.sleep(pause_seconds)
            done = replay(plan, self.recorded, options)
            if done.errors or done.refused:
                raise SystemExit(f"a replay failed: {(*done.errors, *done.refused)[0]}")
            one = done.repetitions[-1]
            times = one.timings[one.timings["start_ns"] > 0]
            return Row(
                seconds=one.write_seconds or one.read_seconds,
                durable_seconds=one.durable_seconds or one.read_seconds,
                io_seconds=busy_ns(times["start_ns"], times["end_ns"]) / 1e9,
                system_seconds=one.report.cpu_system_ns / 1e9,
                allocate_seconds=one.allocate_seconds,
            )

        return run
