"""Sizes as people type them: `8MiB`, `8M`, `4096`, `1.5GiB`."""

from __future__ import annotations

import re
from decimal import Decimal

import typer

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([a-zA-Z]*)")

# As in fio and dd, a bare letter is binary; only the written-out `MB` is decimal.
_BINARY = {letter: 1024**power for power, letter in enumerate("kmgtpe", start=1)}
_UNITS = {
    "": 1,
    "b": 1,
    **_BINARY,
    **{f"{letter}ib": factor for letter, factor in _BINARY.items()},
    **{f"{letter}b": 1000**power for power, letter in enumerate("kmgtpe", start=1)},
}
_LARGEST_BYTES = 2**63 - 1


def parse_size(text: str) -> int:
    """Return the bytes that `text` stands for.

    Raises:
        typer.BadParameter: `text` is not a size of at least one whole byte.
    """
    match = _SIZE.fullmatch(text.strip())
    factor = _UNITS.get(match[2].lower()) if match else None
    if match is None or factor is None:
        raise typer.BadParameter(f"{text!r} is not a size; write 8MiB, 8M, 512KiB or 4096")
    size_bytes = Decimal(match[1]) * factor
    if size_bytes != int(size_bytes) or not 1 <= size_bytes <= _LARGEST_BYTES:
        raise typer.BadParameter(f"{text!r} is not a whole number of bytes from 1 to 8 EiB")
    return int(size_bytes)
