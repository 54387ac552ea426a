"""`iotrace capture`: run a job and write down what it does to storage."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import typer

from iotrace.capture import session
from iotrace.tools.arguments import ForceOption, OutputOption, QuietOption, size_option
from iotrace.tools.destinations import check_apart
from iotrace.tools.new_trace import WIDER, describe_trace
from iotrace.tools.output import check_output
from iotrace.tools.panels.panel import with_panels
from iotrace.tools.panels.scope import JobScopePanel
from iotrace.tools.render import printable
from iotrace.tools.say import say_few
from iotrace.traces.errors import CaptureError, OutputExistsError
from iotrace.traces.location import recover_command
from iotrace.traces.remedies import OF_DESCRIPTORS, with_remedy
from iotrace.traces.stores import StoreError, is_remote
from iotrace.traces.writer import write_trace


class TraceNotWrittenError(CaptureError):
    """The job ran and its trace is not there: its own status goes before ours."""

    def __init__(self, job: session.Job, output: Path, error: Exception) -> None:
        """Say how to make the trace after all, if that is possible."""
        has_logs = session.has_logs(job.raw_dir)
        wanted = Path(output.name) if is_remote(output) else output
        recover = f"finish with `{recover_command(job.raw_dir, wanted)}`"
        cause = str(error) or "out of memory"
        if isinstance(error, OSError):
            is_elsewhere = has_logs and error.errno not in OF_DESCRIPTORS
            cause = str(error.strerror or error) if is_elsewhere else with_remedy(error)
        super().__init__(
            f"the job has run, but its trace cannot be written: {cause}; "
            + (recover if has_logs else "no request was recorded, capture again")
        )
        self.exit_code = job.status or 1


@dataclass(frozen=True)
class RawPanel:
    """What the job's processes write while they run."""

    title: ClassVar[str] = "Raw logs"

    keep_raw: Annotated[
        bool, typer.Option("--keep-raw", help="Keep the raw logs beside the trace.")
    ] = False
    raw_dir: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder for the raw logs while the job runs; local storage is best.",
            show_default="a new folder beside FILE",
        ),
    ] = None
    log_limit: Annotated[
        int | None,
        size_option(
            help="Let the raw log of a process grow to this; what does not fit is counted.",
            default="4GiB",
        ),
    ] = None


@with_panels
def capture(
    command: Annotated[
        list[str], typer.Argument(metavar="COMMAND", help="The job and its arguments, after --.")
    ],
    scope: JobScopePanel,
    raw: RawPanel,
    output: OutputOption = Path("trace.parquet"),
    force: ForceOption = False,
    quiet: QuietOption = False,
) -> int:
    """Run COMMAND, record what it does to storage, and end with COMMAND's exit status.

    The job is not changed: its output, signals and exit status are its own. If the job or this
    command is killed, `iotrace recover` makes a trace of the raw logs. If the trace cannot be
    written, the exit status is COMMAND's too, or 1 if that is 0.

    \b
    Examples:
      iotrace capture -- python train.py
      iotrace capture -o ckpt.parquet --include '/scratch/*' -- torchrun train.py
      iotrace capture --min-size 1MiB -- python train.py
    """
    check_apart({"-o": output}, folders={"--raw-dir": raw.raw_dir})
    check_output(output, force=force)
    options = session.CaptureOptions(
        raw_dir=raw.raw_dir or session.raw_dir_beside(output),
        include=tuple(scope.include or ()),
        exclude=tuple(scope.exclude or ()),
        everything=scope.everything,
        least_file_bytes=scope.min_size or 0,
        log_limit_bytes=raw.log_limit,
    )
    job = session.watch(command, options)
    try:
        captured = session.collected(job, options.least_file_bytes)
        write_trace(captured.trace, output, force=force)
    except (OSError, MemoryError, CaptureError, OutputExistsError, StoreError) as error:
        failure = TraceNotWrittenError(job, output, error)
        if not session.has_logs(job.raw_dir):
            session.remove_raw_dir(job.raw_dir)
        raise failure from error
    if not raw.keep_raw:
        session.remove_raw_dir(captured.raw_dir)
    if not quiet:
        notes = [f"note: {printable(note)}" for note in captured.notes]
        say_few(notes, "a trace keeps what it lacks, and `iotrace check --json -` lists it")
        describe_trace(
            captured.trace, output, _narrowed_by(scope.include) if scope.include else WIDER
        )
    return captured.status


def _narrowed_by(globs: list[str]) -> str:
    given = " ".join(f"--include {shlex.quote(glob)}" for glob in globs)
    return f"{printable(given)} narrowed it: widen or drop that"
