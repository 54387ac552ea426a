"""`iotrace sweep`: which layout, size, alignment, path and depth would be fastest here."""

from __future__ import annotations

import hashlib
import os
import shlex
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from iotrace.replay.build import plan_from_trace
from iotrace.replay.factors import BASE, Setting, default_levels, factorial
from iotrace.replay.plan import Plan
from iotrace.replay.probe import probe
from iotrace.replay.probe_cache import load_probe
from iotrace.replay.sweep import Sweep, Task, distinct, least_runs
from iotrace.replay.sweep_result import Dropped, SweepResult
from iotrace.replay.target import file_system_of
from iotrace.replay.transforms.aggregate import LAYOUTS
from iotrace.replay.workspace import peak_bytes
from iotrace.tools.arguments import (
    ForceOption,
    JsonOption,
    TraceArgument,
    duration_option,
    output_path,
    root_option,
)
from iotrace.tools.destinations import check_apart
from iotrace.tools.durations import format_duration
from iotrace.tools.next_command import free_name, requests_of_tensors, say_next
from iotrace.tools.output import STDOUT, check_json, check_output, write_json
from iotrace.tools.panels.shape import OpName
from iotrace.tools.progress import progress
from iotrace.tools.reading import read
from iotrace.tools.render import Terminal, format_bytes
from iotrace.tools.say import say
from iotrace.tools.shape import Shape, transforms
from iotrace.tools.sweep_file import read_sweep
from iotrace.tools.sweep_table import NAMES, print_sweep, to_json
from iotrace.traces.errors import PlanError
from iotrace.traces.stores import is_remote
from iotrace.traces.summary import TENSORS_ALONE, has_tensors_alone
from iotrace.traces.trace import Trace
from iotrace.traces.words import plural

_BUDGET_SECONDS = 300.0
_PLANS_BYTES = 1 << 30  # of plans kept in memory
_SPARE = 1.05  # of the space that a run takes
_PROBE_SECONDS = 1.0
_WALL_OVER_RUN = 2.5  # preparing, syncing and removing files beside the timed part


def sweep(
    trace: TraceArgument,
    budget: Annotated[
        float | None,
        duration_option(help="How long it may take: 90s, 5m, 1h.", default="5m"),
    ] = None,
    root: Annotated[
        Path,
        root_option("Run in a fresh directory in DIR; write nothing else."),
    ] = Path("."),
    op: Annotated[OpName, typer.Option(help="Sweep the save, the restore or both.")] = OpName.ALL,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            parser=output_path,
            metavar="FILE",
            help="Write every run as JSON, as it ends (`iotrace report FILE` draws it).",
            show_default="none",
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the interrupted sweep in FILE.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what it would take; touch no file.")
    ] = False,
    json_to: JsonOption = None,
    force: ForceOption = False,
) -> int:
    """Find the fastest way to save and to restore the recorded data on this storage.

    Tries combinations of layout, coalescing, alignment, buffered or direct I/O, executor and
    queue depth (a save until it is durable, a restore from cold storage): each once, then the
    promising ones again and again, in alternating order, until their intervals are narrow or time
    is up. Ends with status 1 if nothing could be measured.

    \b
    Examples:
      iotrace sweep trace.parquet --budget 5m --root /scratch
      iotrace sweep trace.parquet --op write -o sweep.json
      iotrace sweep trace.parquet -o sweep.json --resume --budget 10m
    """
    begin = time.monotonic()
    budget_seconds = budget or _BUDGET_SECONDS
    check_apart({"-o": output, "--json": json_to}, inputs=(trace,))
    earlier = _check_outputs(output, json_to, resume=resume, force=force)
    recording = read(trace)
    if has_tensors_alone(recording):
        made = shlex.join(["iotrace", *requests_of_tensors(trace)])
        raise PlanError(f"{TENSORS_ALONE}; sweep what `{made}` writes")
    builder = _Builder(recording, root)
    chosen = ("write", "read") if op is OpName.ALL else (op.value,)
    tasks, dropped = _tasks(builder, chosen, layouts_of(recording))
    result = SweepResult(
        trace=trace,
        digest=_digest(recording),
        root=str(root.resolve()),
        file_system=file_system_of(root),
        bytes={task.op: builder.moved_bytes(task.op) for task in tasks},
        settings={task.op: len(task.settings) for task in tasks},
        budget_seconds=budget_seconds,
        dropped=dropped,
    )
    result = _resumed(earlier, result)
    _foretell(builder, tasks, root, budget_seconds, dry_run=dry_run)
    if dry_run:
        return 0
    with progress() as report:
        runner = Sweep(result, builder.plan, root, _saver(output), report)
        try:
            status = 0 if runner.run(tasks, time.monotonic() - begin).runs else 1
        except KeyboardInterrupt:
            status = 128 + signal.SIGINT
    found = runner.result
    if json_to != STDOUT:
        print_sweep(Terminal(), found)
    if json_to is not None:
        write_json(to_json(found), json_to)
    if output is not None and found.runs:
        say_next("report", str(output), "-o", free_name("report.html"))
    return status


class _Builder:
    """Makes the plans of a recording, and keeps the last ones up to `_PLANS_BYTES`."""

    def __init__(self, recording: Trace, root: Path) -> None:
        self._recorded = plan_from_trace(recording)
        self._root = root
        self._plans: dict[tuple[str, tuple[object, ...]], Plan] = {}
        self._held_bytes = 0
        self.peak_bytes = 0

    def plan(self, op: str, setting: Setting) -> Plan:
        """Return the plan of `op` under a setting."""
        key = (op, setting.shape)
        if key not in self._plans:
            plan = self._recorded
            for transform in transforms(shape_of(op, setting), self._root):
                plan = transform(plan)
            self._keep(key, plan)
        return self._plans[key]

    def _keep(self, key: tuple[str, tuple[object, ...]], plan: Plan) -> None:
        self._plans[key] = plan
        self._held_bytes += _size_of(plan)
        self.peak_bytes = max(self.peak_bytes, peak_bytes(plan))
        while self._held_bytes > _PLANS_BYTES and len(self._plans) > 1:
            oldest = next(iter(self._plans))
            self._held_bytes -= _size_of(self._plans.pop(oldest))

    def moved_bytes(self, op: str) -> int:
        """Return the bytes that a run of `op` moves."""
        counts = self._recorded.counts()
        return counts.bytes_written if op == "write" else counts.bytes_read


def shape_of(op: str, setting: Setting) -> Shape:
    """Return how a setting reshapes the requests of `op`."""
    return Shape(
        op=op,
        aggregate=None if setting.layout == BASE.layout else setting.layout,
        coalesce_bytes=setting.coalesce_bytes or None,
        align=setting.align,
        direct=setting.direct,
    )


def _size_of(plan: Plan) -> int:
    return int(plan.requests.nbytes + plan.pieces.nbytes)


def layouts_of(recording: Trace) -> tuple[str, ...]:
    """Return the layouts worth a try; a host's files are the job's where there is one host."""
    several = len(recording.metadata.hosts) > 1
    return (BASE.layout, *(name for name in LAYOUTS if name != "host" or several))


def _tasks(
    builder: _Builder, ops: tuple[str, ...], layouts: tuple[str, ...]
) -> tuple[list[Task], tuple[Dropped, ...]]:
    """Return what is to be measured; ops that move nothing are left out."""
    settings = factorial(default_levels(layouts))
    tasks: list[Task] = []
    dropped: tuple[Dropped, ...] = ()
    for op in ops:
        if not builder.moved_bytes(op):
            continue
        task, refused = distinct(op, settings, builder.plan)
        dropped += refused
        if task.settings:
            tasks.append(task)
    if not tasks:
        raise PlanError("nothing is written or read in this trace; capture a save or a load")
    return tasks, dropped


def _check_outputs(
    output: Path | None, json_to: str | None, *, resume: bool, force: bool
) -> SweepResult | None:
    """Refuse what could not be written; return the sweep to go on with."""
    check_json(json_to, force=force)
    if resume and output is None:
        raise PlanError("--resume goes on with the sweep in a file; name it with -o")
    if output is None:
        return None
    if is_remote(output):
        raise PlanError("a sweep is kept on this machine while it runs; give a path, then copy it")
    check_output(output, force=force or resume)
    return read_sweep(output) if resume and output.exists() else None


def _resumed(earlier: SweepResult | None, fresh: SweepResult) -> SweepResult:
    """Return the fresh sweep with the runs of an earlier one of the same data and place."""
    if earlier is None:
        return fresh
    for what in ("digest", "root", "file_system"):
        if getattr(earlier, what) != getattr(fresh, what):
            other = "trace" if what == "digest" else "folder"
            raise PlanError(f"that sweep is of another {other} ({earlier.trace}, {earlier.root})")
    return replace(fresh, runs=earlier.runs, spent_seconds=earlier.spent_seconds)


def _foretell(
    builder: _Builder, tasks: list[Task], root: Path, budget: float, *, dry_run: bool
) -> None:
    """Say what the sweep needs, and refuse where space is short."""
    needed_bytes = int(builder.peak_bytes * _SPARE)
    state = os.statvfs(root)
    free_bytes = state.f_bavail * state.f_frsize
    if needed_bytes > free_bytes:
        raise PlanError(
            f"a run needs {format_bytes(needed_bytes)} in {root} and {format_bytes(free_bytes)} "
            "are free; choose another place with --root, or half of it with --op"
        )
    storage = load_probe(root)
    if storage is None and not dry_run:
        storage = probe(root, _PROBE_SECONDS)
    parts = []
    seconds = 0.0
    for task in tasks:
        moved = builder.moved_bytes(task.op)
        best = storage.best("write") if storage else None
        one = _WALL_OVER_RUN * moved / best.durable_bytes_per_second if best else 0.0
        seconds += one * least_runs(task)
        name = NAMES[task.op]
        parts.append(f"{plural(len(task.settings), 'setting')} of {name} ({format_bytes(moved)})")
    say(
        f"{' and '.join(parts)}; up to {format_bytes(needed_bytes)} in {root} "
        f"({format_bytes(free_bytes)} free), {format_duration(budget)}"
    )
    if seconds > budget:
        say(
            f"the budget is short: trying the main settings once takes about "
            f"{format_duration(seconds)} here; the rest is left out"
        )


def _saver(output: Path | None) -> Callable[[SweepResult], None]:
    """Return what keeps a sweep after each run."""
    if output is None:
        return lambda result: None
    return lambda result: write_json(result.to_json(), str(output))


def _digest(recording: Trace) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for name in ("start_ns", "offset", "length"):
        digest.update(recording.ints(name).tobytes())
    return digest.hexdigest()
