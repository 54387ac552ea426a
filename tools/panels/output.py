"""The options that say where a result goes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from typer import Option

from iotrace.tools.arguments import ForceOption, JsonOption, output_path
from iotrace.tools.output import check_json, check_output, is_stream
from iotrace.traces.errors import PlanError


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
            IotraceError: as `check_output`.
            PlanError: the result would replace the recording.
        """
        if self.output is not None:
            check_output(self.output, force=self.force)
            recording = Path(trace)
            if self.output.exists() and recording.exists() and self.output.samefile(recording):
                raise PlanError(f"{self.output} is the recording itself; name another file with -o")
        check_json(self.json_to, force=self.force)
