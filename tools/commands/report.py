"""`iotrace report`: one page with figures, of a trace, a result or a sweep."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Annotated

import typer

from iotrace.tools.arguments import ForceOption, output_path, root_option
from iotrace.tools.destinations import check_apart, check_outputs
from iotrace.tools.figures.pdf import as_pdf
from iotrace.tools.output import check_output, save_all
from iotrace.tools.reading import read
from iotrace.tools.report import sweep_page, trace_page
from iotrace.tools.report_page import Page
from iotrace.tools.say import say
from iotrace.tools.sweep_file import is_sweep, read_sweep
from iotrace.traces.errors import IotraceError, PlanError
from iotrace.traces.remedies import with_remedy
from iotrace.traces.stores import Place, is_remote, local_path, shown
from iotrace.traces.verdict.verdict import VERDICT_COLUMNS
from iotrace.traces.words import plural


def report(
    source: Annotated[
        str,
        typer.Argument(
            parser=Place,
            metavar="TRACE|RESULT|SWEEP",
            help="What to draw: a trace, a result, or a sweep's JSON.",
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "-o", "--output", parser=output_path, metavar="FILE", help="The page to write."
        ),
    ] = Path("report.html"),
    figures: Annotated[
        Path | None,
        typer.Option(
            parser=output_path,
            metavar="DIR",
            help="Write each figure as SVG into DIR too.",
            show_default="none",
        ),
    ] = None,
    pdf: Annotated[
        bool, typer.Option("--pdf", help="Write the figures as PDF too (needs svglib).")
    ] = False,
    root: Annotated[
        Path,
        root_option("The folder whose probe, if any, is put beside."),
    ] = Path("."),
    force: ForceOption = False,
) -> None:
    """Write one page of HTML with the verdict and the figures; it needs no network to be read.

    \b
    Examples:
      iotrace report trace.parquet
      iotrace report result.parquet -o result.html --figures figures --pdf
      iotrace report sweep.json -o sweep.html
    """
    if pdf and figures is None:
        raise PlanError("--pdf writes figures into a folder; name it with --figures")
    check_apart({"-o": output}, folders={"--figures": figures})
    check_outputs({"-o": output}, inputs=(source,), force=force)
    page = _page(source, root)
    files = {output: page.html().encode()}
    with ExitStack() as made:
        if figures is not None:
            contents = _figure_files(page, pdf=pdf)
            paths = {name: figures / name for name in contents}
            check_apart({"-o": output, **paths}, inputs=(source,))
            _make_folder(figures, made)
            for name, path in paths.items():
                check_output(path, force=force)
                files[path] = contents[name]
        save_all(files)
        made.pop_all()
    drawn = plural(len(page.figures), "figure")
    say(f"{drawn} in {shown(output)}")


def _page(source: str, root: Path) -> Page:
    if is_sweep(source):
        return sweep_page(source, read_sweep(Path(source)))
    return trace_page(source, read(source, VERDICT_COLUMNS), root)


def _figure_files(page: Page, *, pdf: bool) -> dict[str, bytes]:
    """Return the figures by the names of their files.

    Raises:
        IotraceError: a PDF cannot be drawn.
    """
    files = {f"{figure.name}.svg": figure.svg.encode() for figure in page.figures}
    if pdf:
        files |= {f"{figure.name}.pdf": as_pdf(figure) for figure in page.figures}
    return files


def _make_folder(folder: Path, undo: ExitStack) -> None:
    """Make the folder of the figures, and those above it; `undo` removes what was made.

    Raises:
        IotraceError: it cannot be made.
    """
    if is_remote(folder):
        return
    folder = local_path(folder)
    made = [one for one in (folder, *folder.parents) if not one.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise IotraceError(f"cannot make the folder {folder}: {with_remedy(error)}") from error
    undo.callback(_remove_empty, made)


def _remove_empty(folders: Sequence[Path]) -> None:
    """Remove folders, the innermost first, as far as nothing is in them."""
    with suppress(OSError):
        for folder in folders:
            folder.rmdir()
