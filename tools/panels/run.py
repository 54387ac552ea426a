"""The options that say how requests are run, and where."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, ClassVar

from typer import Option

from iotrace.replay.options import MAX_QUEUE_DEPTH, ReplayOptions
from iotrace.tools.arguments import duration_option, root_option
from iotrace.traces.errors import PlanError


class ExecutorName(StrEnum):
    """What runs the requests."""

    IO_URING = "io_uring"
    POSIX = "posix"
    NULL = "null"


class AllocateName(StrEnum):
    """Where the memory that loads read into comes from."""

    POOLED = "pooled"
    FRESH = "fresh"
    HUGE = "huge"


class SourceName(StrEnum):
    """Where what saves write comes from."""

    HOST = "host"
    CUDA = "cuda"


class TimingName(StrEnum):
    """When requests start."""

    ASAP = "asap"
    THINK = "think"
    RECORDED = "recorded"


@dataclass(frozen=True)
class RunPanel:
    """How to run the requests."""

    title: ClassVar[str] = "How to run them"

    executor: Annotated[
        ExecutorName | None, Option(help="What runs the requests.", show_default="io_uring")
    ] = None
    queue_depth: Annotated[
        int, Option(metavar="N", min=1, max=MAX_QUEUE_DEPTH, help="Requests in flight per stream.")
    ] = 1
    sqpoll: Annotated[
        bool,
        Option("--sqpoll", help="Let a kernel thread submit, on a core of its own (io_uring)."),
    ] = False
    uncached: Annotated[
        bool,
        Option(
            "--uncached",
            help="Through the page cache, but not kept there (RWF_DONTCACHE, Linux 6.14).",
        ),
    ] = False
    workers: Annotated[
        int | None,
        Option(
            metavar="N",
            min=1,
            help="Processes that share the ranks out.",
            show_default="one per recorded rank; short processes take turns",
        ),
    ] = None
    timeout: Annotated[
        float | None,
        duration_option(
            help="Give up on workers when no request was completed for so long.", default="5m"
        ),
    ] = None
    timing: Annotated[
        TimingName,
        Option(
            help="Start requests as soon as possible, after their recorded pauses, or at their "
            "recorded times."
        ),
    ] = TimingName.ASAP
    time_scale: Annotated[
        float,
        Option(metavar="FACTOR", help="Stretch recorded pauses and times; 0.5 is twice as fast."),
    ] = 1.0
    rtt: Annotated[
        float | None,
        duration_option(
            help="Let each request take so much longer, as over a network: 1ms.", default="none"
        ),
    ] = None
    allocate: Annotated[
        AllocateName,
        Option(
            help="Memory that loads read into: there before, or taken fresh from the kernel in "
            "pages of the usual size or huge ones, which is timed apart."
        ),
    ] = AllocateName.POOLED
    source: Annotated[
        SourceName | None,
        Option(
            help="Memory that saves are copied from to pinned memory first, timed apart.",
            show_default="none, it is there",
        ),
    ] = None
    repeat: Annotated[int, Option(metavar="N", min=1, help="Runs; several after a warm-up.")] = 1
    warm: Annotated[bool, Option("--warm", help="Leave files in the page cache before reads.")] = (
        False
    )
    verify: Annotated[
        bool,
        Option(
            "--verify",
            help="Prove that every byte is in its place, but not a write over equal bytes.",
        ),
    ] = False
    strict: Annotated[
        bool, Option("--strict", help="Fail instead of doing something else than asked.")
    ] = False
    dry_run: Annotated[bool, Option("--dry-run", help="Plan and count; touch no file.")] = False


@dataclass(frozen=True)
class PlacePanel:
    """Where to run them, and what stays."""

    title: ClassVar[str] = "Where, and what stays"

    root: Annotated[
        Path,
        root_option("Make a fresh directory in DIR and write nothing outside it."),
    ] = Path(".")
    stage: Annotated[
        Path | None,
        root_option("Stage in DIR, which is fast, then drain what was written to --root.", "none"),
    ] = None
    keep: Annotated[bool, Option("--keep", help="Leave the replayed files there.")] = False


def replay_options(run: RunPanel, place: PlacePanel, needed: str | None = None) -> ReplayOptions:
    """Return what the options of both panels ask for.

    Args:
        run: how to run the requests.
        place: where.
        needed: the executor that the requests can be run by; None: any.

    Raises:
        PlanError: one of them would be ignored.
    """
    dry = run.dry_run or run.executor is ExecutorName.NULL
    if dry:
        asked = "--dry-run" if run.dry_run else "--executor null"
        for given, option in (
            (run.verify, "--verify"),
            (place.keep, "--keep"),
            (place.stage is not None, "--stage"),
            (run.source is not None, "--source"),
            (run.allocate is not AllocateName.POOLED, "--allocate"),
            (run.uncached, "--uncached"),
            (run.sqpoll, "--sqpoll"),
        ):
            if given:
                raise PlanError(f"{asked} touches no file and no memory; leave out {option}")
    executor = run.executor.value if run.executor else needed or ExecutorName.IO_URING.value
    if not dry and needed is not None and executor != needed:
        raise PlanError(f"--as is done by --executor {needed}; leave out --executor {executor}")
    if run.sqpoll and executor != ExecutorName.IO_URING.value:
        raise PlanError(f"--sqpoll is a way to use io_uring, and this runs by {executor}")
    if run.time_scale != 1 and run.timing is TimingName.ASAP:
        raise PlanError("--time-scale stretches recorded times; add --timing think or recorded")
    return ReplayOptions(
        executor=ExecutorName.NULL.value if dry else executor,
        queue_depth=run.queue_depth,
        submission_thread=run.sqpoll,
        uncached=run.uncached,
        workers=run.workers,
        timeout_seconds=run.timeout or ReplayOptions.timeout_seconds,
        allocate=run.allocate.value,
        source=run.source.value if run.source else None,
        round_trip_seconds=run.rtt or 0.0,
        timing=run.timing.value,
        time_scale=run.time_scale,
        repeat=run.repeat,
        warmup=1 if run.repeat > 1 and not run.dry_run else 0,
        verify=run.verify,
        root=place.root,
        stage=place.stage,
        keep=place.keep,
        warm=run.warm,
        strict=run.strict,
    )
