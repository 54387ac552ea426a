"""The options that say where a result goes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from typer import Option

from iotrace.tools.arguments import ForceOption, JsonOption, output_path
from iotrace.tools.destinations import check_outputs
from iotrace.tools.output import is_stream


@dataclass(frozen=True)
class OutputPanel:
    """Where the result of a replay goes."""

    title: ClassVar[str] = "Output"

    output: Annotated[
        Path | None,
        Option(
            "-o",
            "--output",
            parser=output_path,
            metavar="FILE",
            help="Write the result as a trace (`iotrace show FILE` reads it).",
            show_default="none",
        ),
    ] = None
    json_to: JsonOption = None
    force: ForceOption = False

    @property
    def writes_json(self) -> bool:
        """Whether the figures go to a file."""
        return self.json_to is not None and not is_stream(self.json_to)

    def check(self, trace: str) -> None:
        """Refuse what could not be written in the end.

        Args:
            trace: the recording, which is not to be replaced.

        Raises:
            IotraceError: as `check_outputs`.
        """
        check_outputs({"-o": self.output}, self.json_to, inputs=(trace,), force=self.force)
