"""`iotrace convert`: traces from what other tools record, and files that other tools read."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from iotrace.tools.arguments import ForceOption, QuietOption, output_path
from iotrace.tools.destinations import check_apart, check_outputs
from iotrace.tools.next_command import say_next
from iotrace.tools.output import save_trace, save_with
from iotrace.tools.panels.panel import with_panels
from iotrace.tools.panels.scope import ScopePanel
from iotrace.tools.reading import read
from iotrace.tools.say import say, say_few
from iotrace.traces.errors import IotraceError, TraceFormatError
from iotrace.traces.formats.source import Source
from iotrace.traces.formats.table import (
    Format,
    by_suffix,
    export_trace,
    exporters,
    guess,
    import_trace,
    importers,
    named,
)
from iotrace.traces.location import is_local_trace, is_remote_trace
from iotrace.traces.mapped import with_mapped_noted
from iotrace.traces.scope import FileSelection, absolute_glob
from iotrace.traces.stores import SUFFIX, Place, is_remote, local_path, shown
from iotrace.traces.summary import summarize
from iotrace.traces.trace import Trace
from iotrace.traces.words import plural

_TRACE = "trace"


@with_panels
def convert(
    source: Annotated[
        str,
        typer.Argument(
            parser=Place, metavar="IN", help="A trace, a checkpoint, or another tool's log."
        ),
    ],
    target: Annotated[
        Path,
        typer.Argument(
            parser=output_path, metavar="OUT", help="What to write; its suffix tells the format."
        ),
    ],
    scope: ScopePanel,
    from_format: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="FORMAT", help="Format of IN.", show_default="by its content"
        ),
    ] = None,
    to_format: Annotated[
        str | None,
        typer.Option("--to", metavar="FORMAT", help="Format of OUT.", show_default="by its suffix"),
    ] = None,
    force: ForceOption = False,
    quiet: QuietOption = False,
) -> None:
    """Make a trace of another tool's log or of a checkpoint, or of a trace what others read.

    What a format cannot say is told, and stays written in the trace.

    \b
    Read:     trace, strace, iolog, csv, darshan, dxt, dftracer, recorder,
              elbencho, kv-cache, blktrace, checkpoint
    Written:  trace, iolog, fio, csv, perfetto, dlio

    \b
    Examples:
      strace -ff -y -ttt -T -o log/job python train.py
      iotrace convert log/ trace.parquet
      iotrace convert checkpoint_dir/ tensors.parquet
      iotrace convert trace.parquet job.fio
      iotrace convert trace.parquet timeline.json
    """
    check_outputs({"OUT": target}, inputs=(source,), force=force)
    export = _export_format(target, to_format)
    if export is not None and export.makes_more:
        check_apart({"a log beside OUT": _log_named_as(source, target)}, inputs=(source,))
    selection = FileSelection(
        tuple(map(absolute_glob, scope.include or ())),
        tuple(map(absolute_glob, scope.exclude or ())),
        scope.everything,
    )
    trace = _read(source, from_format, selection, quiet)
    if export is None:
        save_trace(trace, target, force=force)
        if not quiet:
            _describe(trace, target)
        return
    if export.makes_more and is_remote(target):
        raise IotraceError(
            f"{export.name} is several files that name each other; write it to a folder here, "
            "then copy that"
        )
    unsaid = save_with(partial(export_trace, trace, export), target, force=force)
    if not quiet:
        for sentence in unsaid:
            say(f"not said by {export.name}: {sentence}")


def _export_format(target: Path, name: str | None) -> Format | None:
    """Return the format to write; None for a trace."""
    if name == _TRACE:
        return None
    if name is not None:
        return named(name, exporters())
    if target.name.endswith(SUFFIX):
        return None
    found = by_suffix(target)
    if found is None:
        names = ", ".join(format.name for format in exporters())
        raise IotraceError(
            f"{shown(target)} does not tell a format; end it in {SUFFIX} for a trace, "
            f"or add --to: {names}"
        )
    return found


def _log_named_as(source: str, target: Path) -> Path | None:
    """Return the file that would be made beside `target` if it is called as `source` is."""
    if is_remote(source) or is_remote(target):
        return None
    number = local_path(source).resolve().suffixes[-2:]
    return local_path(target).with_name(f"{local_path(target).name}{''.join(number)}")


def _read(source: str, name: str | None, selection: FileSelection, quiet: bool) -> Trace:
    if name == _TRACE or (name is None and _is_trace(source)):
        if selection.include or selection.exclude:
            raise IotraceError(
                f"--include and --exclude choose files of a log, and {shown(source)} is a trace; "
                "`iotrace show --requests --include` lists a part of one"
            )
        return read(source)
    if is_remote(source):
        what = name or "what is no trace"
        raise IotraceError(f"{what} is read from this machine; copy {shown(source)} here first")
    path = local_path(source)
    looked_at = Source.of(path)
    format = named(name, importers()) if name else guess(looked_at)
    trace, left_out = selection(import_trace(path, format))
    if left_out:
        detail = f"{plural(left_out, 'row')} on files out of scope left out"
        trace = _with_detail(trace, detail)
        if not quiet:
            say(f"{detail}; --all keeps those of the system and redirected ones")
    if not len(trace):
        raise TraceFormatError(
            f"{path} was read as {format.what} and holds nothing to keep; "
            "try --all, or another --from"
        )
    trace = with_mapped_noted(trace)
    if not quiet:
        say_few(
            trace.metadata.completeness.problems(),
            "a trace keeps them, and `iotrace check --json -` lists all",
        )
    return trace


def _with_detail(trace: Trace, detail: str) -> Trace:
    """Add to what the history says of the import."""
    *before, last = trace.metadata.history
    entry = replace(last, detail=f"{last.detail}; {detail}")
    return trace.with_metadata(replace(trace.metadata, history=(*before, entry)))


def _describe(trace: Trace, target: Path) -> None:
    """Say what the trace holds, and what to type next."""
    summary = summarize(trace)
    found = [plural(summary.requests, "request")] if summary.requests else []
    found += [plural(summary.tensors, "tensor row")] if summary.tensors else []
    say(f"{', '.join(found) or 'nothing'} on {plural(len(summary.files), 'file')}")
    say_next("show", shown(target))


def _is_trace(source: str) -> bool:
    """Return whether `source` is a trace, or a URI of one."""
    return is_remote_trace(source) if is_remote(source) else is_local_trace(local_path(source))
