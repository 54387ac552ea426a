"""A replay from beginning to end: workspace, files, runs, measurements, proof."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

import numpy as np

from iotrace.replay.allocation import has_huge_pages, loaded_bytes
from iotrace.replay.executors.executor import Executor, LoopOptions, Run
from iotrace.replay.executors.null import NullExecutor
from iotrace.replay.fallocate_modes import fit_modes, modes_of, refused_modes
from iotrace.replay.group import Group, Solo, once
from iotrace.replay.job import Op
from iotrace.replay.loop import SPAN_BYTES, Tape
from iotrace.replay.measure import (
    describe_request,
    find_errors,
    find_eviction_errors,
    flush_seconds,
    lateness_us,
    moved_by,
    phase_seconds,
)
from iotrace.replay.memory import TAPE_BYTES
from iotrace.replay.options import ReplayOptions, choose_executor
from iotrace.replay.pieces import Ints
from iotrace.replay.plan import Plan
from iotrace.replay.prepare import NOTHING, Prepared, steady_files
from iotrace.replay.result import Outcome, RecordedSummary, Repetition
from iotrace.replay.runner import Runner
from iotrace.replay.schedule import Schedule, schedule
from iotrace.replay.site import Site
from iotrace.replay.suitability import (
    cached_direct,
    copied_on_write,
    direct_requests,
    fit_to_target,
    stayed_warm,
    surprises,
    unlike_files,
    warm_reads,
)
from iotrace.replay.target import probe_target
from iotrace.replay.verify import find_mismatch
from iotrace.replay.workspace import Workspace
from iotrace.traces.errors import PlanError, ReplayError
from iotrace.traces.phases import Phase
from iotrace.traces.remedies import with_remedy
from iotrace.traces.words import plural

Progress = Callable[[str, int, int], None]

# A tape longer than what is moved costs time to fill, and a span longer than the longest request
# costs address space.
_TAPE_LEAST_BYTES = 4 << 20
_SPAN_LEAST_BYTES = 1 << 20


def replay(
    plan: Plan,
    recorded: RecordedSummary,
    options: ReplayOptions,
    progress: Progress = lambda stage, done, total: None,
    group: Group | None = None,
) -> Outcome:
    """Run `plan` below `options.root`, or staged, and measure it.

    Args:
        plan: what to do.
        recorded: totals of the recording, carried into the outcome.
        options: how to do it.
        progress: called with a stage (`run`, `verify`), what is done and what there is to do: of
            runs their requests.
        group: the processes of a launch, which all call this and share the ranks out; the first
            keeps the workspace, on storage that all of them see. Each gets the whole outcome.

    Raises:
        PlanError: the plan or the options cannot be used here; nothing was written.
        ReplayError: the replay could not be carried out.
    """
    options.check()
    plan.validate()
    if options.executor == "io_uring" and plan.requests["mapping"].any():
        raise PlanError("a read of a mapped file keeps its thread waiting; use --executor posix")
    if options.uncached and plan.requests["mapping"].any():
        raise PlanError("what is mapped stays in the page cache; leave out --uncached")
    if options.uncached and not np.any(plan.is_data() & ~direct_requests(plan)):
        raise PlanError("no read or write goes through the page cache; leave out --uncached")
    executor, degraded = choose_executor(options)
    if options.executor == "null":
        one = dry_run(plan, options.queue_depth)
        return Outcome(plan, recorded, executor.name, (one,), None, degraded, ())
    group = group or Solo()
    with _tape(plan, options, group) as tape:
        if options.stage is not None and group.size > 1:
            raise PlanError("--stage is for one process; leave it out, or the launcher")
        with ExitStack() as places:
            kept = places.enter_context(Workspace(options.root, options.keep, group))
            tier = None if options.stage is None else Workspace(options.stage, option="--stage")
            workspace = kept if tier is None else places.enter_context(tier)
            how = (options, executor, tape, workspace, kept, group)
            try:
                outcome = _replay(plan, recorded, how, progress)
            except OSError as error:
                raise ReplayError(
                    f"the replay stopped: {with_remedy(error, f'look at {options.runs_in}')}"
                ) from error
    outcome = replace(outcome, degraded=degraded + outcome.degraded)
    _refuse_if_strict(options, outcome.degraded)
    return outcome


def dry_run(plan: Plan, queue_depth: int = 1) -> Repetition:
    """Return what a run of `plan` would be in which all goes well, and takes no time.

    Raises:
        PlanError: it cannot be run.
    """
    job = schedule(plan, queue_depth)
    with Tape(_TAPE_LEAST_BYTES) as tape:  # nothing looks at it
        run = NullExecutor().run(job.job, tape, -1, LoopOptions(queue_depth))
    return _measure(plan, job, run, np.zeros(len(plan.streams), np.int64))


def _tape(plan: Plan, options: ReplayOptions, group: Group) -> Tape:
    longest = int(plan.requests["length"][plan.is_data()].max(initial=0))
    moved = int(plan.files.initial_bytes.sum()) + plan.counts().bytes_written
    size_bytes = None if moved >= TAPE_BYTES else max(moved, _TAPE_LEAST_BYTES)
    span_bytes = min(max(longest, _SPAN_LEAST_BYTES), SPAN_BYTES)
    tape = Tape(size_bytes, options.seed, span_bytes)
    least_bytes = min(group.gather(tape.size_bytes))  # of the machine with the least memory
    if least_bytes == tape.size_bytes:
        return tape
    tape.close()
    return Tape(least_bytes, options.seed, span_bytes)


def _replay(
    plan: Plan,
    recorded: RecordedSummary,
    how: tuple[ReplayOptions, Executor, Tape, Workspace, Workspace, Group],
    progress: Progress,
) -> Outcome:
    options, executor, tape, workspace, destination, group = how
    for place in dict.fromkeys((workspace, destination)):
        once(group, partial(place.check_space, plan))
    target = once(group, lambda: probe_target(workspace.path))
    plan, refused = fit_to_target(plan, target)
    if options.uncached and target.uncached_refusal:
        options = replace(options, uncached=False)
        refused += (f"kept in the page cache: {target.uncached_refusal}",)
    modes = modes_of(plan)
    missing = once(group, lambda: refused_modes(workspace.path, modes))
    plan, replaced = fit_modes(plan, missing, target.file_system)
    warm = () if options.warm else warm_reads(plan, target)
    copied = once(group, lambda: copied_on_write(plan, destination.path))
    loads = loaded_bytes(plan.requests, plan.streams).any()
    if options.allocate == "huge" and loads and not all(group.gather(has_huge_pages())):
        replaced += ("pages of the usual size: the kernel gives no huge ones",)
    degraded = refused + replaced + warm + unlike_files(plan) + copied
    _refuse_if_strict(options, degraded)
    steady = steady_files(plan, payload_stays=not options.verify)
    runner = Runner(plan, options, executor, tape, workspace, destination, group, steady)
    degraded += runner.folded.degraded
    folders = tuple(dict.fromkeys((destination.path, workspace.path)))
    site = Site.of(folders, plan.streams, runner.folded, group)
    repetitions, errors = _timed_runs(runner, progress)
    cached = once(group, lambda: cached_direct(plan, workspace.fd, target))
    refused += cached
    stayed = stayed_warm(repetitions[-1], target)
    degraded += cached + stayed + surprises(repetitions[-1])
    verified = None
    if options.verify:
        progress("verify", 0, 1)
        # What differs after a run that failed, differs for that.
        mismatch = "the run failed" if errors else _find_mismatch(runner)
        verified = mismatch is None
        errors += (f"not verified: {mismatch}",) if mismatch else ()
        progress("verify", 1, 1)
    kept = str(destination.path) if options.keep else None
    return Outcome(
        plan=plan,
        recorded=recorded,
        executor=executor.name,
        repetitions=repetitions,
        verified=verified,
        degraded=degraded,
        errors=errors,
        workspace=kept,
        refused=refused,
        workers=runner.folded.count,
        round_trip_seconds=options.round_trip_seconds,
        cold=not (options.warm or warm or stayed),
        repeat=options.repeat,
        uncached=options.uncached,
        site=site,
    )


def _refuse_if_strict(options: ReplayOptions, degraded: tuple[str, ...]) -> None:
    if options.strict and degraded:
        raise ReplayError(f"{degraded[0]}; leave out --strict to replay all the same")


def _timed_runs(
    runner: Runner, progress: Progress
) -> tuple[tuple[Repetition, ...], tuple[str, ...]]:
    """Run warm-ups and repetitions; stop after one that fails."""
    options, plan = runner.options, runner.plan
    job = runner.schedule(checked=False)
    repetitions: list[Repetition] = []
    total, count = options.warmup + options.repeat, len(job.job.requests)
    for number in range(total):

        def report(done: int, before: int = number * count) -> None:
            progress("run", before + done, total * count)

        report(0)
        runner.make_room()
        run, prepared = runner.run(job, report=report)
        sync_seconds = runner.make_last(job)
        one = _measure(plan, job, run, runner.folded.worker, sync_seconds, prepared)
        how = (options.timing, options.time_scale)
        late = lateness_us(plan, one.timings, one.report.start_ns, *how)
        one = replace(one, lateness_us=late, staged=runner.staged)
        errors = run.failures + find_eviction_errors(job, run.timings["result"])
        errors += find_errors(plan, one.timings["result"])
        if number >= options.warmup or errors:
            repetitions.append(replace(one, failed=bool(errors)))
        if errors:
            return tuple(repetitions), errors
    progress("run", total * count, total * count)
    return tuple(repetitions), ()


def _find_mismatch(runner: Runner) -> str | None:
    """Compare the files of the last run; then run once more and compare what is read."""
    plan = runner.plan
    mismatch = None
    for place in dict.fromkeys((runner.destination, runner.workspace)):
        check = partial(find_mismatch, plan, runner.tape, place.fd)
        mismatch = mismatch or once(runner.group, check)
    if mismatch or not np.any(plan.requests["op"] == Op.READ):
        return mismatch
    job = runner.schedule(checked=True)
    run = runner.run(job, check_reads=True)[0]
    report = run.report
    undone = run.failures + find_eviction_errors(job, run.timings["result"])
    undone += find_errors(plan, run.timings["result"][job.origin >= 0])
    if undone:
        return f"the reads could not be compared: {undone[0]}"
    if report.first_mismatch is None:
        return None
    where = describe_request(plan, int(job.origin[report.first_mismatch]))
    return f"{plural(report.mismatched_bytes, 'byte')} read wrongly, first in {where}"


def _measure(
    plan: Plan,
    job: Schedule,
    run: Run,
    worker: Ints,
    sync_seconds: float = 0.0,
    prepared: Prepared = NOTHING,
) -> Repetition:
    timings = run.timings[job.origin >= 0]
    timings.flags.writeable = False
    return Repetition(
        timings=timings,
        moved=moved_by(plan, timings["result"]),
        write_seconds=phase_seconds(plan, timings, Phase.SAVE),
        read_seconds=phase_seconds(plan, timings, Phase.LOAD),
        flush_seconds=flush_seconds(job, run.timings, worker),
        sync_seconds=sync_seconds,
        prepared=prepared,
        report=run.report,
        allocate_seconds=run.memory.allocate,
        source_seconds=run.memory.source,
    )
