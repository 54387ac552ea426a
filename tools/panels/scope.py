"""The options that say which files are recorded, or kept of another tool's record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from typer import Option

from iotrace.tools.arguments import size_option


@dataclass(frozen=True)
class ScopePanel:
    """Which files are in scope, by their paths."""

    title: ClassVar[str] = "Which files"

    include: Annotated[
        list[str] | None,
        Option(
            metavar="GLOB",
            help="Only files whose absolute path matches; may be repeated.",
            show_default="what is written, and what is read outside system folders",
        ),
    ] = None
    exclude: Annotated[
        list[str] | None,
        Option(
            metavar="GLOB",
            help="No files whose absolute path matches; may be repeated.",
            show_default="none",
        ),
    ] = None
    everything: Annotated[
        bool,
        Option("--all", help="Reads of the interpreter, packages and system folders too."),
    ] = False


@dataclass(frozen=True)
class JobScopePanel(ScopePanel):
    """Which files of a job are in scope, by their paths and sizes."""

    min_size: Annotated[
        int | None,
        size_option(help="No files that never held as much, whole.", default="none"),
    ] = None
