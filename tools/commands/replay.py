"""`iotrace replay`: the same I/O again, as recorded or transformed."""

from __future__ import annotations

import shlex
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from iotrace.replay import session
from iotrace.replay.build import plan_from_trace
from iotrace.replay.options import ReplayOptions
from iotrace.replay.result import RecordedSummary
from iotrace.tools.comparison import Setting, print_outcome, recorded_latency_us
from iotrace.tools.output import STDOUT, check_json, check_output, save_trace, write_json
from iotrace.tools.progress import progress
from iotrace.tools.render import Terminal
from iotrace.tools.shape import COALESCE_BYTES, Shape, transforms
from iotrace.tools.sizes import parse_size
from iotrace.traces.errors import PlanError
from iotrace.traces.reader import read_trace

_SHAPE = "Change the requests"
_RUN = "How to run them"
_WHERE = "Where, and what stays"
_OUTPUT = "Output"


class ExecutorName(StrEnum):
    """What runs the requests."""

    IO_URING = "io_uring"
    POSIX = "posix"
    NULL = "null"


class LayerName(StrEnum):
    """Which rows of the trace become requests."""

    REQUEST = "request"
    TENSOR = "tensor"


class OpName(StrEnum):
    """Which half of the trace is replayed."""

    WRITE = "write"
    READ = "read"
    ALL = "all"


def replay(
    trace: Annotated[str, typer.Argument(metavar="TRACE", help="A trace: file, folder or URI.")],
    coalesce: Annotated[
        bool,
        typer.Option(
            "--coalesce", help="Join adjacent requests of a stream.", rich_help_panel=_SHAPE
        ),
    ] = False,
    coalesce_size: Annotated[
        int | None,
        typer.Option(
            parser=parse_size,
            metavar="SIZE",
            help="Join up to this size; implies --coalesce.",
            show_default="8MiB",
            rich_help_panel=_SHAPE,
        ),
    ] = None,
    gather: Annotated[
        bool,
        typer.Option(
            "--gather",
            help="Join by vectored requests instead of a copy into one buffer.",
            rich_help_panel=_SHAPE,
        ),
    ] = False,
    align: Annotated[
        bool,
        typer.Option(
            "--align",
            help="Move extents to multiples of a block, and pad.",
            rich_help_panel=_SHAPE,
        ),
    ] = False,
    align_size: Annotated[
        int | None,
        typer.Option(
            parser=parse_size,
            metavar="SIZE",
            help="The block; implies --align.",
            show_default="what the file system asks for, at least 4KiB",
            rich_help_panel=_SHAPE,
        ),
    ] = None,
    split: Annotated[
        int | None,
        typer.Option(
            parser=parse_size,
            metavar="SIZE",
            help="Cut larger requests to this size.",
            show_default="none are cut",
            rich_help_panel=_SHAPE,
        ),
    ] = None,
    direct: Annotated[
        bool | None,
        typer.Option(
            "--direct/--buffered",
            help="Past the page cache with O_DIRECT, or through it.",
            show_default="as recorded",
            rich_help_panel=_SHAPE,
        ),
    ] = None,
    layer: Annotated[
        LayerName,
        typer.Option(
            help="Replay what reached the system, or one request per tensor.",
            rich_help_panel=_SHAPE,
        ),
    ] = LayerName.REQUEST,
    op: Annotated[
        OpName, typer.Option(help="Replay the writes, the reads or both.", rich_help_panel=_SHAPE)
    ] = OpName.ALL,
    executor: Annotated[
        ExecutorName,
        typer.Option(help="What runs the requests.", rich_help_panel=_RUN),
    ] = ExecutorName.IO_URING,
    queue_depth: Annotated[
        int,
        typer.Option(
            metavar="N", min=1, help="Requests in flight per stream.", rich_help_panel=_RUN
        ),
    ] = 1,
    repeat: Annotated[
        int,
        typer.Option(metavar="N", min=1, help="Runs, after a warm-up.", rich_help_panel=_RUN),
    ] = 1,
    warm: Annotated[
        bool,
        typer.Option(
            "--warm", help="Leave files in the page cache before reads.", rich_help_panel=_RUN
        ),
    ] = False,
    verify: Annotated[
        bool,
        typer.Option(
            "--verify", help="Prove that every byte is in its place.", rich_help_panel=_RUN
        ),
    ] = False,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict",
            help="Fail instead of doing something else than asked.",
            rich_help_panel=_RUN,
        ),
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Plan and count; touch no file.", rich_help_panel=_RUN),
    ] = False,
    root: Annotated[
        Path,
        typer.Option(
            metavar="DIR",
            help="Make a fresh directory in DIR and write nothing outside it.",
            rich_help_panel=_WHERE,
        ),
    ] = Path("."),
    keep: Annotated[
        bool,
        typer.Option("--keep", help="Leave the replayed files there.", rich_help_panel=_WHERE),
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="Write the result as a trace (`iotrace show FILE` reads it).",
            show_default="none",
            rich_help_panel=_OUTPUT,
        ),
    ] = None,
    json_to: Annotated[
        str | None,
        typer.Option(
            "--json",
            metavar="FILE",
            help="Write the result as JSON; - is stdout.",
            show_default="none",
            rich_help_panel=_OUTPUT,
        ),
    ] = None,
    force: Annotated[
        bool,
        typer.Option("--force", help="Replace an existing FILE.", rich_help_panel=_OUTPUT),
    ] = False,
) -> int:
    """Replay a trace and compare with the recording.

    Unchanged, a replay issues exactly the recorded requests. Options reshape them first. Ends
    with status 1 when a request failed, was not carried out as asked (--direct where there is no
    direct I/O), or a byte is not where it belongs.

    \b
    Examples:
      iotrace replay trace.parquet
      iotrace replay trace.parquet --coalesce --direct --root /scratch --repeat 5
      iotrace replay trace.parquet --coalesce-size 64MiB --align --verify -o result.parquet
    """
    shape = Shape(
        op=op.value,
        coalesce_bytes=coalesce_size or (COALESCE_BYTES if coalesce else None),
        gather=gather,
        align=align or align_size is not None,
        align_bytes=align_size,
        split_bytes=split,
        direct=direct,
    )
    options = ReplayOptions(
        executor="null" if dry_run else executor.value,
        queue_depth=queue_depth,
        repeat=repeat,
        warmup=1 if repeat > 1 and not dry_run else 0,
        verify=verify,
        root=root,
        keep=keep,
        warm=warm,
        strict=strict,
    )
    _refuse_contradictions(shape, options, dry_run)
    if output is not None:
        check_output(output, force=force)
        if output.exists() and Path(trace).exists() and output.samefile(trace):
            raise PlanError(f"{output} is the recording itself; name another file with -o")
    check_json(json_to, force=force)

    recording = read_trace(trace)
    plan = plan_from_trace(recording, layer.value)
    for transform in transforms(shape, None if options.executor == "null" else root):
        plan = transform(plan)
    with progress() as report:
        outcome = session.replay(plan, RecordedSummary.of(recording), options, report)

    # The screen first: a full disk must not cost the figures as well.
    if json_to != STDOUT:
        dry = options.executor == "null"
        missing = tuple(recording.metadata.completeness.problems())
        setting = Setting(trace, str(root.resolve()), options.queue_depth, not warm, dry, missing)
        print_outcome(Terminal(), outcome, setting, recorded_latency_us(recording))
    if json_to is not None:
        write_json(outcome.to_json(trace), json_to)
    if output is not None:
        save_trace(outcome.to_trace(trace, recording.metadata), output, force=force)
    if outcome.failed:
        return 1
    print(f"iotrace: next: {_next_command(trace, shape, options, output)}", file=sys.stderr)
    return 0


def _refuse_contradictions(shape: Shape, options: ReplayOptions, dry_run: bool) -> None:
    """Refuse options of which one would be ignored."""
    if shape.gather and shape.coalesce_bytes is None:
        raise PlanError("--gather says how to join requests; add --coalesce")
    if options.executor != "null":
        return
    dry = "--dry-run" if dry_run else "--executor null"
    for given, option in ((options.verify, "--verify"), (options.keep, "--keep")):
        if given:
            raise PlanError(f"{dry} writes no files; leave out {option}")


def _next_command(trace: str, shape: Shape, options: ReplayOptions, output: Path | None) -> str:
    """Return what is most worth typing after this replay."""
    if output is not None:
        return f"iotrace show {shlex.quote(str(output))}"
    given = [word for word in sys.argv[1:] if word != "--dry-run"]
    if options.executor == "null":
        return shlex.join(["iotrace", *given])
    if shape.is_recorded:
        return f"iotrace replay {shlex.quote(trace)} --coalesce --direct"
    if not options.verify:
        return shlex.join(["iotrace", *given, "--verify"])
    if options.repeat == 1:
        return shlex.join(["iotrace", *given, "--repeat", "5"])
    return shlex.join(["iotrace", *given, "-o", "result.parquet"])
