"""`iotrace share`: a trace that another site may see."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer

from iotrace.tools.arguments import (
    ForceOption,
    JsonOption,
    QuietOption,
    TraceArgument,
    output_path,
)
from iotrace.tools.destinations import check_outputs
from iotrace.tools.next_command import say_next
from iotrace.tools.output import STDOUT, save_with_text, write_json
from iotrace.tools.panels.panel import with_panels
from iotrace.tools.reading import read
from iotrace.tools.say import say
from iotrace.traces.errors import IotraceError
from iotrace.traces.selection import Selection
from iotrace.traces.sharing.card import CARD, Card
from iotrace.traces.sharing.publish import publish
from iotrace.traces.sharing.share import ShareOptions, read_key
from iotrace.traces.stores import file_name, shown, with_suffix
from iotrace.traces.words import plural

_LICENCE = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+-]{0,63}", re.ASCII)


class NamesOption(StrEnum):
    """What becomes of the tensors' names."""

    KEEP = "keep"
    KEY = "key"


@dataclass(frozen=True)
class SelectionPanel:
    """Which part of the trace is shared."""

    title: ClassVar[str] = "Share a part"

    step: Annotated[
        list[int] | None,
        typer.Option(
            metavar="N", help="Only this checkpoint; may be repeated.", show_default="all"
        ),
    ] = None
    rank: Annotated[
        list[int] | None,
        typer.Option(metavar="N", help="Only this rank; may be repeated.", show_default="all"),
    ] = None
    span: Annotated[
        list[str] | None,
        typer.Option(
            metavar="OP",
            help="Only what began in spans of this op, such as save; may be repeated.",
            show_default="all",
        ),
    ] = None

    def selection(self) -> Selection:
        """Return the part."""
        return Selection(
            steps=tuple(self.step) if self.step else None,
            ranks=tuple(self.rank) if self.rank else None,
            spans=tuple(self.span) if self.span else None,
        )


@with_panels
def share(
    trace: TraceArgument,
    selected: SelectionPanel,
    output: Annotated[
        Path,
        typer.Option(
            "-o",
            "--output",
            parser=output_path,
            metavar="FILE",
            help="The trace to write; its card goes beside it.",
        ),
    ] = Path("public.parquet"),
    key_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Key of the pseudonyms: traces under one key can be linked.",
            show_default="a new key, forgotten at the end",
        ),
    ] = None,
    tensor_names: Annotated[
        NamesOption, typer.Option(help="Keep the tensors' names, or key them too.")
    ] = NamesOption.KEEP,
    licence: Annotated[
        str,
        typer.Option(
            metavar="ID", help="Licence, as SPDX names it.", show_default="none is stated"
        ),
    ] = "",
    json_to: JsonOption = None,
    force: ForceOption = False,
    quiet: QuietOption = False,
) -> None:
    """Write a trace that says nothing of where it was made, and its card.

    Every component of a path becomes a pseudonym under a key; counts, extensions and depth
    stay. Command, host, user, process ids, addresses and dates are dropped. Tensor names are kept,
    unless --tensor-names key is given. A replay of the shared trace is the same as of the original.
    The result is searched for leftovers before it is written.

    \b
    Examples:
      iotrace share trace.parquet -o public.parquet --licence CC-BY-4.0
      iotrace share trace.parquet --tensor-names key --step 3 --rank 0
      iotrace check public.parquet --shared --original trace.parquet
    """
    if not output.name:
        raise IotraceError(f"{output} is a folder; give the name of a file in it")
    card_path = with_suffix(output, ".md")
    check_outputs(
        {"-o": output, "its card": card_path}, json_to, inputs=(trace, key_file), force=force
    )
    if licence and not _LICENCE.fullmatch(licence):
        raise IotraceError(f"{licence!r} is no licence identifier; see https://spdx.org/licenses")
    options = ShareOptions(
        key=b"" if key_file is None else read_key(key_file),
        tensor_names=tensor_names.value,
        selection=selected.selection(),
        licence=licence,
    )
    original = read(trace)
    shared = publish(original, options)
    card = Card.of(shared.metadata)
    text = card.to_markdown(file_name(output))
    save_with_text(shared, output, text, card_path, force=force)
    if json_to is not None:
        stored: Any = shared.metadata.extra[CARD]
        write_json(stored, json_to)
    if not quiet and json_to != STDOUT:
        if "replay" in original.metadata.extra:
            say("of the replay its requests are shared, not its transforms and its runs' times")
        _say(card, output, card_path, trace, len(original) - len(shared))


def _say(card: Card, output: Path, card_path: Path, original: str, left_out: int) -> None:
    parts = [plural(card.requests, "request"), plural(card.tensors, "tensor row")]
    part = f"; {plural(left_out, 'row')} left out" if left_out else ""
    say(f"{', '.join(parts)}, no leftovers found{part}")
    if card.tensors and card.tensor_names == "kept":
        say("tensor names are kept; --tensor-names key hides them too")
    say(f"card: {shown(card_path)}; digest {card.digest}")
    say_next("check", shown(output), "--shared", "--original", original)
