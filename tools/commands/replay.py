"""`iotrace replay`: the same I/O again, as recorded or transformed."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from iotrace.replay import session
from iotrace.replay.build import plan_from_trace
from iotrace.replay.fidelity import compare_requests
from iotrace.replay.group import join_group
from iotrace.replay.options import ReplayOptions
from iotrace.replay.plan import Plan
from iotrace.replay.result import RecordedSummary
from iotrace.replay.transforms.select import Select
from iotrace.tools.arguments import TraceArgument
from iotrace.tools.comparison import Setting, print_outcome, recorded_latency_us
from iotrace.tools.explanation import print_explanation
from iotrace.tools.output import STDOUT, save_trace, write_json
from iotrace.tools.panels.output import OutputPanel
from iotrace.tools.panels.panel import with_panels
from iotrace.tools.panels.run import PlacePanel, RunPanel, replay_options
from iotrace.tools.panels.shape import ShapePanel
from iotrace.tools.progress import progress
from iotrace.tools.render import Terminal
from iotrace.tools.shape import Shape, transforms
from iotrace.traces.errors import PlanError
from iotrace.traces.reader import read_trace
from iotrace.traces.trace import Trace


@with_panels
def replay(
    trace: TraceArgument,
    requests: ShapePanel,
    run: RunPanel,
    place: PlacePanel,
    result: OutputPanel,
) -> int:
    """Replay a trace and compare with the recording.

    Unchanged, a replay issues exactly the recorded requests. Options reshape them first. Ends
    with status 1 when a request failed, was not carried out as asked (--direct where there is no
    direct I/O), or a byte is not where it belongs.

    \b
    Examples:
      iotrace replay trace.parquet
      iotrace replay trace.parquet --coalesce --direct --root /scratch --repeat 5
      iotrace replay trace.parquet --align --verify -o result.parquet
      iotrace replay trace.parquet --aggregate rank --coalesce --explain
    """
    group = join_group()
    shape = requests.shape()
    options = replay_options(run, place)
    if requests.explain and (result.output is not None or result.json_to is not None):
        raise PlanError("--explain runs nothing; leave out --json and -o")
    if group.rank == 0:
        result.check(trace)

    recording = read_trace(trace)
    plan = plan_from_trace(recording, requests.layer.value)
    compared = _compared(recording, plan, shape.op)
    dry = options.executor == "null"
    plans = [plan]
    for transform in transforms(shape, None if dry else options.root):
        plan = transform(plan)
        plans = [*plans, plan] if requests.explain else [plan]
    if requests.explain:
        if group.rank == 0:
            print_explanation(Terminal(), plans)
        return 0
    with progress() as report:
        outcome = session.replay(plan, RecordedSummary.of(compared), options, report, group)
    if group.rank != 0:
        return 1 if outcome.failed else 0  # the first process tells of all
    if not dry:
        timings = outcome.repetitions[-1].timings
        outcome = replace(outcome, fidelity=compare_requests(outcome.plan, timings, recording))

    # The screen first: a full disk must not cost the figures as well.
    if result.json_to != STDOUT:
        missing = tuple(recording.metadata.completeness.problems())
        setting = Setting(
            trace, str(options.root.resolve()), options.queue_depth, not options.warm, dry, missing
        )
        print_outcome(Terminal(), outcome, setting, recorded_latency_us(compared))
    if result.json_to is not None:
        write_json(outcome.to_json(trace), result.json_to)
    if result.output is not None:
        save_trace(outcome.to_trace(trace, recording.metadata), result.output, force=result.force)
    if outcome.failed:
        return 1
    next_command = _next_command(shape, options, result.output)
    print(f"iotrace: next: {next_command}", file=sys.stderr)
    return 0


def _compared(recording: Trace, plan: Plan, op: str) -> Trace:
    """Return the recorded requests that a replay of `op` stands beside.

    Args:
        recording: all of it.
        plan: made of it, untransformed: of its requests, or of its tensors.
        op: `write`, `read` or `all`.
    """
    if op == "all":
        return recording
    chosen = np.zeros(len(recording), np.bool_)
    try:
        if dict(plan.history[0].parameters)["layer"] != "request":
            plan = plan_from_trace(recording)
        rows = Select(ops=(op,))(plan).requests["source_row"]
        chosen[rows[rows >= 0]] = True
    except PlanError:
        pass  # tensors alone were recorded of it
    return recording.where(chosen)


def _next_command(shape: Shape, options: ReplayOptions, output: Path | None) -> str:
    """Return what is most worth typing after this replay."""
    if output is not None:
        return f"iotrace show {shlex.quote(str(output))}"
    given = [word for word in sys.argv[1:] if word != "--dry-run"]
    if options.executor == "null":
        return shlex.join(["iotrace", *given])
    if shape.is_recorded:
        return shlex.join(["iotrace", *given, "--coalesce", "--direct"])
    if not options.verify:
        return shlex.join(["iotrace", *given, "--verify"])
    if options.repeat == 1:
        return shlex.join(["iotrace", *given, "--repeat", "5"])
    return shlex.join(["iotrace", *given, "-o", "result.parquet"])
