"""`iotrace replay`: the same I/O again, as recorded or transformed."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np

from iotrace.replay import session
from iotrace.replay.build import plan_from_trace
from iotrace.replay.fidelity import compare_requests
from iotrace.replay.group import join_group, once
from iotrace.replay.options import ReplayOptions
from iotrace.replay.parts import parts_of
from iotrace.replay.plan import Plan
from iotrace.replay.result import RecordedSummary
from iotrace.replay.tally import Tally, tally_parts
from iotrace.replay.target import probe_target
from iotrace.replay.transforms.select import Select
from iotrace.tools.arguments import TraceArgument
from iotrace.tools.comparison import Setting, print_outcome, print_tally, recorded_latency_us
from iotrace.tools.explanation import print_explanation
from iotrace.tools.next_command import free_name, say_next
from iotrace.tools.output import STDOUT, save_trace, write_json
from iotrace.tools.panels.output import OutputPanel
from iotrace.tools.panels.panel import with_panels
from iotrace.tools.panels.run import PlacePanel, RunPanel, replay_options
from iotrace.tools.panels.shape import LayerName, ShapePanel
from iotrace.tools.progress import progress
from iotrace.tools.reading import read
from iotrace.tools.render import Terminal
from iotrace.tools.shape import Shape, transforms
from iotrace.traces.columns import Mask
from iotrace.traces.errors import PlanError
from iotrace.traces.reader import read_trace
from iotrace.traces.requests import Requests
from iotrace.traces.stores import shown, without_secrets
from iotrace.traces.trace import Trace

# What the next run is not to be given: its files are kept already, and it is to touch some.
_ONCE = ("--keep", "--dry-run", "--executor=null")


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
    direct I/O), or a byte is not where it belongs. DEGRADED otherwise ends with 0: the requests
    are those asked for, issued or measured another way (posix for io_uring).

    \b
    Examples:
      iotrace replay trace.parquet
      iotrace replay trace.parquet --coalesce --direct --root /scratch --repeat 5
      iotrace replay trace.parquet --align --verify -o result.parquet
      iotrace replay trace.parquet --stage /dev/shm --root /scratch --verify
      iotrace replay trace.parquet --aggregate rank --coalesce --explain
    """
    shape = requests.shape()
    options = replay_options(run, place, requests.executor())
    options.check()
    group = join_group(options.timeout_seconds)
    if options.round_trip_seconds:
        for given, option in (
            (shape.prefetch_bytes, "--prefetch"),
            (shape.map_advice, "--as mmap"),
        ):
            if given:
                raise PlanError(
                    "--rtt makes reads that find their data in the page cache wait as well; leave "
                    f"out {option}"
                )
    if requests.explain and (result.output is not None or result.json_to is not None):
        raise PlanError("--explain runs nothing; leave out --json and -o")
    once(group, lambda: result.check(trace))

    dry = options.executor == "null"
    if dry and _needs_totals_alone(shape, requests, result):
        with progress() as report:
            tally = tally_parts(parts_of(trace, progress=report), options.queue_depth)
        if group.rank == 0:
            print_tally(Terminal(), tally, trace)
        if group.size == 1:
            say_next(*_next_words(trace, shape, options, result))
        return 0
    recording = read(trace) if group.rank == 0 else read_trace(trace)  # one line for all
    plan = plan_from_trace(recording, requests.layer.value)
    compared = _compared(recording, plan, shape.op)
    plans = [plan]
    for transform in transforms(shape, None if dry else options.runs_in):
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
    if result.json_to != STDOUT and dry:
        print_tally(Terminal(), Tally.of(outcome, recording.metadata), trace)
    elif result.json_to != STDOUT:
        missing = tuple(recording.metadata.completeness.problems())
        setting = Setting(trace, _place(options), options.queue_depth, not options.warm, missing)
        print_outcome(Terminal(), outcome, setting, recorded_latency_us(compared))
    if result.json_to is not None:
        write_json(outcome.to_json(trace), result.json_to)
    if result.output is not None:
        save_trace(outcome.to_trace(trace, recording.metadata), result.output, force=result.force)
    if outcome.failed:
        return 1
    if group.size == 1 or result.output is not None:  # how it was launched is not known here
        say_next(*_next_words(trace, shape, options, result))
    return 0


def _needs_totals_alone(shape: Shape, requests: ShapePanel, result: OutputPanel) -> bool:
    """Return whether a dry run tells nothing but totals of the recorded requests."""
    tells_more = requests.explain or result.output is not None or result.json_to is not None
    return shape == Shape() and requests.layer is LayerName.REQUEST and not tells_more


def _place(options: ReplayOptions) -> str:
    root = str(options.root.resolve())
    return root if options.stage is None else f"{options.stage.resolve()}, drained to {root}"


def _compared(recording: Trace, plan: Plan, op: str) -> Trace:
    """Return the recorded requests that a replay stands beside.

    Args:
        recording: all of it.
        plan: made of it, untransformed; one of tensors stands beside what was done to their files.
        op: `write`, `read` or `all`.
    """
    of_tensors = dict(plan.history[0].parameters)["layer"] == "tensor"
    if op == "all" and not of_tensors:
        return recording
    chosen = _on_tensor_files(recording) if of_tensors else np.ones(len(recording), np.bool_)
    if op != "all":
        of_op = np.zeros(len(recording), np.bool_)
        try:
            requests = plan_from_trace(recording) if of_tensors else plan
            rows = Select(ops=(op,))(requests).requests["source_row"]
            of_op[rows[rows >= 0]] = True
        except PlanError:
            pass  # tensors alone were recorded of it
        if of_tensors and op == "read":  # of a mapped load these are what took its time
            of_op |= recording.row_mask(layer="request", op=("map", "fault"))
        chosen &= of_op
    return recording.where(chosen)


def _on_tensor_files(recording: Trace) -> Mask:
    """Return which rows are requests on files that tensors lie in, by the files' last names."""
    requests = Requests.of(recording)
    wanted = np.unique(requests.homes_of(recording.layer("tensor")))
    recorded = recording.row_mask(layer="request")
    chosen = recorded if recorded.any() else recording.row_mask(layer="replay")
    chosen[chosen] = np.isin(requests.home, wanted[wanted >= 0])
    return chosen


def _next_words(trace: str, shape: Shape, options: ReplayOptions, result: OutputPanel) -> list[str]:
    """Return what is most worth typing after this replay."""
    if result.output is not None:
        return ["compare", trace, shown(result.output)]
    given = [without_secrets(word) for word in sys.argv[1:] if word not in _ONCE]
    for place in range(len(given) - 1, 0, -1):
        if given[place - 1 : place + 1] == ["--executor", "null"]:
            del given[place - 1 : place + 1]
    if result.writes_json and not result.force:
        given.append("--force")  # the file is there now
    if options.executor == "null":
        return given
    if shape.is_recorded:
        direct = probe_target(options.runs_in).direct_is_effective
        if direct:
            return [*(word for word in given if word != "--uncached"), "--coalesce", "--direct"]
        return [*given, "--coalesce"]
    if not options.verify:
        return [*given, "--verify"]
    if options.repeat == 1:
        return [*given, "--repeat", "5"]
    return [*given, "-o", free_name("result.parquet")]
