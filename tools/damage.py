"""The state of a checkpoint in words: what can be read of it, and what is lost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from iotrace.tools.render import (
    NONE,
    Column,
    Terminal,
    format_bytes,
    format_count,
    print_facts,
    print_problems,
    print_table,
)
from iotrace.traces.formats.damage import NOTHING, Damage
from iotrace.traces.words import plural


def to_json(damage: Damage) -> dict[str, Any]:
    """Return all parts, and where they lie, as one JSON object."""
    return asdict(damage) | {"whole": is_whole(damage)}


def is_whole(damage: Damage) -> bool:
    """Return whether it was examined, and nothing is known to be wrong."""
    return not damage.index and not damage.lost


def print_damage(terminal: Terminal, damage: Damage) -> None:
    """Print what is lost, and what can still be read."""
    print_facts(terminal, _lines(damage))
    lost = [f"{one.name}, {format_bytes(one.length)}: {one.lost}" for one in damage.lost]
    _print_lost(terminal, lost)


def print_damages(terminal: Terminal, damages: Sequence[Damage]) -> None:
    """Print a line by checkpoint of a folder, then what is lost of any."""
    columns = (
        Column("checkpoint", shrink=True),
        Column("engine"),
        Column("size", right=True),
        Column("tensors whole", right=True),
        Column("index"),
    )
    rows = [
        (
            one.path,
            one.engine or NONE,
            format_bytes(one.size_bytes),
            f"{format_count(len(one.parts) - len(one.lost))} of {format_count(len(one.parts))}"
            if one.parts or not one.index
            else NONE,
            _index(one),
        )
        for one in damages
    ]
    print_table(terminal, columns, rows)
    wrong = [f"{one.path}: {one.index}" for one in damages if one.index]
    wrong += [
        f"{one.path}: {part.name}, {format_bytes(part.length)}: {part.lost}"
        for one in damages
        for part in one.lost
    ]
    _print_lost(terminal, wrong)


def _index(damage: Damage) -> str:
    if damage.checked == NOTHING:
        return "not examined"
    return "NOT WHOLE" if damage.index else "whole"


def _print_lost(terminal: Terminal, lost: Sequence[str]) -> None:
    if lost:
        terminal.print()
        print_problems(terminal, "What is lost", lost)


def _lines(damage: Damage) -> Iterator[tuple[str, str]]:
    engine = damage.engine or "of no engine that is known"
    yield "checkpoint", f"{damage.path}, {engine}, {format_bytes(damage.size_bytes)}"
    yield "index", damage.index or "whole"
    if 0 < damage.zeros_bytes < damage.size_bytes:
        last = format_bytes(damage.zeros_bytes)
        yield "zeros", f"the last {last} of the file: of a tensor, or never written"
    lost, parts = damage.lost, damage.parts
    if not parts:
        yield "tensors", "none can be told apart without the index" if damage.index else "none"
        return
    proof = {
        "checksums": "by their checksums",
        "some checksums": "by their checksums where they have one, others as long as they must be",
        "extents": "as long as the index says; their bytes have no checksums",
    }[damage.checked]
    whole = [part for part in parts if not part.lost]
    yield "tensors", f"{format_count(len(whole))} of {format_count(len(parts))} whole, {proof}"
    if lost:
        yield "lost", f"{plural(len(lost), 'tensor')}, the first is {lost[0].name} ({lost[0].lost})"
        if whole:
            first, last = whole[0].name, whole[-1].name
            names = first if first == last else f"{first} ... {last}"
            if parts[: len(whole)] != tuple(whole):
                names = "all others"
            yield "readable", f"{names}; --json tells where each lies in the file"
