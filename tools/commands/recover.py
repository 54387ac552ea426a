"""`iotrace recover`: a trace from the raw logs of a killed run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from iotrace.capture import session
from iotrace.capture.rawdir import files_of
from iotrace.tools.arguments import ForceOption, OutputOption, QuietOption
from iotrace.tools.destinations import check_outputs
from iotrace.tools.new_trace import describe_trace
from iotrace.tools.output import save_trace

# The raw logs do not say what the scope was.
_NARROWED = "an --include given to the capture may have narrowed it: capture again without"


def recover(
    raw_dir: Annotated[
        Path, typer.Argument(metavar="RAW_DIR", help="Folder that a capture left behind.")
    ],
    output: OutputOption = Path("trace.parquet"),
    force: ForceOption = False,
    quiet: QuietOption = False,
) -> None:
    """Make a trace of the raw logs of a capture that was killed.

    The raw logs stay; remove RAW_DIR once the trace is what you need.

    \b
    Examples:
      iotrace recover trace.parquet.raw -o trace.parquet
    """
    check_outputs({"-o": output}, inputs=files_of(raw_dir), force=force)
    trace = session.recover(raw_dir)
    save_trace(trace, output, force=force)
    if not quiet:
        describe_trace(trace, output, _NARROWED)
