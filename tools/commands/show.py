"""`iotrace show`: what happened in a trace or a result."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer

from iotrace.tools.arguments import ForceOption, JsonOption, TraceArgument
from iotrace.tools.destinations import check_outputs
from iotrace.tools.first_screen import FILES_ON_FIRST_SCREEN, print_files, print_overview
from iotrace.tools.listing import print_requests, print_tensors, request_rows, tensor_rows
from iotrace.tools.next_command import requests_of_tensors, say_next
from iotrace.tools.output import STDOUT, write_json
from iotrace.tools.overview import look_at
from iotrace.tools.overview import to_json as overview_json
from iotrace.tools.reading import read
from iotrace.tools.render import Terminal, format_count
from iotrace.tools.say import say_line
from iotrace.traces.errors import IotraceError
from iotrace.traces.file_summaries import FileSummary
from iotrace.traces.scope import absolute_glob, matcher, rows_on
from iotrace.traces.summary import has_tensors_alone, summarize
from iotrace.traces.trace import Trace
from iotrace.traces.words import plural

ROWS = 20  # on the screen, without --limit
_LISTS = "Lists instead of the overview"
_UNMATCHED = "none is on a file that --include matches"


def show(
    trace: TraceArgument,
    tensors: Annotated[
        bool,
        typer.Option(
            "--tensors", help="List the tensors and where they lie.", rich_help_panel=_LISTS
        ),
    ] = False,
    requests: Annotated[
        bool,
        typer.Option("--requests", help="List the requests in order.", rich_help_panel=_LISTS),
    ] = False,
    files: Annotated[
        bool, typer.Option("--files", help="List the files.", rich_help_panel=_LISTS)
    ] = False,
    include: Annotated[
        list[str] | None,
        typer.Option(
            metavar="GLOB",
            help="Of each list, only files whose absolute path matches; may be repeated.",
            show_default="all",
            rich_help_panel=_LISTS,
        ),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            help="Rows of each list; 0 is all.",
            show_default=f"{ROWS} on the screen, all in JSON",
            rich_help_panel=_LISTS,
        ),
    ] = None,
    json_to: JsonOption = None,
    force: ForceOption = False,
) -> None:
    """Show what happened: engines, files, sizes, alignment, concurrency, bandwidth, gaps.

    \b
    Examples:
      iotrace show trace.parquet
      iotrace show trace.parquet --tensors --limit 0
      iotrace show trace.parquet --requests --include '*/__0_0.distcp'
      iotrace show trace.parquet --json - | jq .bytes_written
    """
    if include and not (tensors or requests or files):
        raise IotraceError("--include chooses among what is listed; add --requests or --files")
    globs = tuple(map(absolute_glob, include or ()))
    check_outputs({}, json_to, inputs=(trace,), force=force)
    rows = read(trace)
    listed = rows.where(rows_on(rows, globs)) if globs else rows
    if json_to is not None:
        wanted = limit or None
        value = overview_json(look_at(trace, rows))
        value |= {"files": [asdict(one) for one in _files(rows, globs)]} if globs and files else {}
        value |= {"tensor_rows": tensor_rows(listed, wanted).rows} if tensors else {}
        value |= {"request_rows": request_rows(listed, wanted).rows} if requests else {}
        write_json(value, json_to)
    if json_to == STDOUT:
        return

    terminal = Terminal()
    shown = ROWS if limit is None else limit or None
    if not (tensors or requests or files):
        overview = look_at(trace, rows)
        print_overview(terminal, overview)
        if has_tensors_alone(rows):
            say_next(*requests_of_tensors(trace))
        _hint(trace, len(overview.summary.files) - FILES_ON_FIRST_SCREEN)
        return
    if files:
        named = _files(rows, globs)
        if not named:
            terminal.print(f"no files: {_UNMATCHED if globs else 'no request names one'}")
        print_files(terminal, named[:shown])
        _say_more(len(named), shown)
    if tensors:
        found = tensor_rows(listed, shown)
        if not found.total:
            terminal.print(f"no tensors: {_UNMATCHED if globs else 'only requests were recorded'}")
        print_tensors(terminal, found)
        _say_more(found.total, shown)
    if requests:
        found = request_rows(listed, shown)
        if not found.total:
            why = _UNMATCHED if globs else "only tensors and spans were recorded"
            terminal.print(f"no requests: {why}")
        print_requests(terminal, found)
        _say_more(found.total, shown)


def _files(rows: Trace, globs: Sequence[str]) -> Sequence[FileSummary]:
    """Return the files whose last name a glob matches; all without globs."""
    files = summarize(rows).files
    if not globs:
        return files
    wanted = matcher(globs)
    return [file for file in files if wanted.match(file.path)]


def _say_more(total: int, shown: int | None) -> None:
    if shown is not None and total > shown:
        say_line(f"{format_count(total - shown)} more; --limit 0 lists all")


def _hint(trace: str, more_files: int) -> None:
    if more_files > 0:
        command = f"iotrace show {shlex.quote(trace)} --files"
        say_line(f"{plural(more_files, 'more file')}: {command}")
