"""`iotrace merge`: one trace of those of several ranks or hosts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from iotrace.tools.arguments import ForceOption, OutputOption, QuietOption
from iotrace.tools.destinations import check_outputs
from iotrace.tools.new_trace import describe_trace
from iotrace.tools.output import save_trace
from iotrace.tools.reading import read
from iotrace.traces.errors import IotraceError
from iotrace.traces.merge import merge_traces
from iotrace.traces.metadata import HistoryEntry
from iotrace.traces.repeats import find_repeat
from iotrace.traces.sharing.card import with_card_of_whole
from iotrace.traces.stores import Place
from iotrace.traces.version import tool_version
from iotrace.traces.words import plural


def merge(
    traces: Annotated[
        list[str],
        typer.Argument(parser=Place, metavar="TRACE", help="Traces: files, folders or URIs."),
    ],
    output: OutputOption = Path("trace.parquet"),
    force: ForceOption = False,
    quiet: QuietOption = False,
) -> None:
    """Join traces of ranks or hosts into one, on one clock.

    Traces of one machine are joined by its clock; those of several by their wall-clock times,
    which are as good as the machines' agreement on them.

    \b
    Examples:
      iotrace merge node0.parquet node1.parquet -o job.parquet
      iotrace merge captures/ -o job.parquet
    """
    check_outputs({"-o": output}, inputs=traces, force=force)
    parts = [read(trace) for trace in traces]
    if repeat := find_repeat(parts):
        first, second = (traces[place] for place in repeat)
        raise IotraceError(f"{first} and {second} are the same recording twice; leave one out")
    merged = merge_traces(parts)
    entry = HistoryEntry("merge", plural(len(traces), "trace"), tool_version=tool_version())
    merged = merged.with_metadata(merged.metadata.with_history(entry))
    merged = with_card_of_whole(merged, parts)
    save_trace(merged, output, force=force)
    if not quiet:
        describe_trace(merged, output)
