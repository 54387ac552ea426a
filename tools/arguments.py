"""Arguments and options that several verbs have, declared once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from iotrace.tools.durations import parse_duration
from iotrace.tools.sizes import parse_size
from iotrace.traces.stores import Place, check_uri, local_path, scheme_of


def output_path(text: str | Path) -> Path:
    """Return the path of an output; a URI of another machine goes on as one, see `as_uri`.

    Raises:
        StoreError: it is a URI, and not complete or of no known kind.
    """
    check_uri(str(text))
    return local_path(text) if scheme_of(text) == "file" else Path(text)


def output_text(text: str) -> str:
    """Return where JSON goes, as `output_path` does."""
    return str(output_path(text)) if scheme_of(text) else text


TraceArgument = Annotated[
    str,
    typer.Argument(parser=Place, metavar="TRACE", help="A trace or a result: file, folder or URI."),
]
OutputOption = Annotated[
    Path,
    typer.Option("-o", "--output", parser=output_path, metavar="FILE", help="The trace to write."),
]
JsonOption = Annotated[
    str | None,
    typer.Option(
        "--json",
        parser=output_text,
        metavar="FILE",
        help="Write the figures as JSON; - is stdout.",
        show_default="none",
    ),
]
ForceOption = Annotated[bool, typer.Option("--force", help="Replace an existing FILE.")]
QuietOption = Annotated[bool, typer.Option("-q", "--quiet", help="Say nothing besides errors.")]


def size_option(*names: str, help: str, default: str) -> Any:
    """Return an option whose value is written as a size, such as 8MiB.

    Args:
        names: as typed, or none: the parameter's.
        help: what it does.
        default: what holds without it, in words.
    """
    return typer.Option(*names, parser=parse_size, metavar="SIZE", help=help, show_default=default)


def duration_option(*, help: str, default: str) -> Any:
    """Return an option whose value is written as a duration, such as 5m, in seconds."""
    return typer.Option(parser=parse_duration, metavar="TIME", help=help, show_default=default)


def root_option(help: str, default: bool | str = True) -> Any:
    """Return the option that names a folder that is there."""
    return typer.Option(
        metavar="DIR", exists=True, file_okay=False, help=help, show_default=default
    )
