"""`iotrace compare`: two traces or results side by side."""

from __future__ import annotations

from typing import Annotated

import typer

from iotrace.tools.arguments import ForceOption, JsonOption
from iotrace.tools.contrast import contrast, print_contrast, to_json
from iotrace.tools.destinations import check_outputs
from iotrace.tools.output import STDOUT, write_json
from iotrace.tools.reading import read
from iotrace.tools.render import Terminal
from iotrace.traces.stores import Place

_HELP = "A trace or a result: file, folder or URI."


def compare(
    a: Annotated[str, typer.Argument(parser=Place, metavar="A", help=_HELP)],
    b: Annotated[str, typer.Argument(parser=Place, metavar="B", help=_HELP)],
    structure: Annotated[
        bool,
        typer.Option(
            "--structure",
            help="Compare sizes, order, syncs, renames, open modes and files too.",
        ),
    ] = False,
    json_to: JsonOption = None,
    force: ForceOption = False,
) -> None:
    """Show two traces or results side by side.

    Times of results that were repeated 6 times or more come with their 95 % intervals; where
    these overlap, no difference is claimed. Fewer runs show their range, and prove none.

    \b
    Examples:
      iotrace compare before.parquet after.parquet
      iotrace compare trace.parquet result.parquet --structure
    """
    check_outputs({}, json_to, inputs=(a, b), force=force)
    found = contrast((a, b), (read(a), read(b)))
    if json_to is not None:
        write_json(to_json(found), json_to)
    if json_to != STDOUT:
        print_contrast(Terminal(), found, structure)
