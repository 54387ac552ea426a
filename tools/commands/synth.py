"""`iotrace synth`: a trace without a run, from a model's shapes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from iotrace.tools.arguments import ForceOption, OutputOption, QuietOption
from iotrace.tools.next_command import say_next
from iotrace.tools.output import check_output, save_trace
from iotrace.tools.render import format_bytes
from iotrace.tools.say import say
from iotrace.traces.errors import IotraceError
from iotrace.traces.stores import shown
from iotrace.traces.summary import summarize
from iotrace.traces.synth.layouts import LAYOUTS
from iotrace.traces.synth.models import MODELS
from iotrace.traces.synth.synth import synthesize
from iotrace.traces.words import plural


def synth(
    model: Annotated[str, typer.Argument(metavar="MODEL", help=f"One of {', '.join(MODELS)}.")],
    ranks: Annotated[
        int, typer.Option(metavar="N", min=1, help="Ranks; each holds its rows of every tensor.")
    ] = 1,
    engine: Annotated[
        str, typer.Option(metavar="ENGINE", help=f"One of {', '.join(LAYOUTS)}.")
    ] = "torch.save",
    scale: Annotated[
        str, typer.Option(metavar="X", help="Size of the tensors, such as 1/64; as many of them.")
    ] = "1",
    weights_only: Annotated[
        bool, typer.Option("--weights-only", help="Without the optimizer's state.")
    ] = False,
    output: OutputOption = Path("trace.parquet"),
    force: ForceOption = False,
    quiet: QuietOption = False,
) -> None:
    """Make a trace of one save and one load without a run, from a model's shapes.

    Sizes, layout and order are as the engine's would be; there are no times. The trace says that
    it is synthetic wherever it is shown.

    \b
    Examples:
      iotrace synth llama-3-8b --ranks 8 --engine dcp --scale 1/64
      iotrace replay trace.parquet --coalesce --direct
    """
    check_output(output, force=force)
    try:
        part, _, whole = scale.partition("/")
        factor = float(part) / float(whole or 1)
    except (ValueError, ZeroDivisionError) as error:
        raise IotraceError(f"--scale {scale} is no number; write 0.5 or 1/64") from error
    trace = synthesize(model, engine, ranks, factor, not weights_only)
    save_trace(trace, output, force=force)
    if not quiet:
        summary = summarize(trace)
        saved = format_bytes(summary.bytes_written)
        say(
            f"synthetic: {saved} written by {plural(ranks, 'rank')} to "
            f"{plural(len(summary.files), 'file')}, no times"
        )
        say_next("show", shown(output))
