"""Durations as people type them: `5m`, `90s`, `1.5h`, `300`."""

from __future__ import annotations

import re

import typer

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([a-zA-Z\N{MICRO SIGN}]*)")
_UNITS = {
    **dict.fromkeys(("us", "\N{MICRO SIGN}s"), 1e-6),
    "ms": 1e-3,
    **dict.fromkeys(("", "s", "sec"), 1.0),
    **dict.fromkeys(("m", "min"), 60.0),
    **dict.fromkeys(("h", "hour"), 3600.0),
}


def parse_duration(text: str) -> float:
    """Return the seconds that `text` stands for.

    Raises:
        typer.BadParameter: `text` is no duration above zero.
    """
    match = _DURATION.fullmatch(text.strip())
    factor = _UNITS.get(match[2].lower()) if match else None
    if match is None or factor is None:
        raise typer.BadParameter(f"{text!r} is not a duration; write 5m, 90s, 1.5h or 1ms")
    seconds = float(match[1]) * factor
    if seconds <= 0:
        raise typer.BadParameter(f"{text!r} is no time at all; give a duration above 0, such as 5m")
    return seconds


def format_duration(seconds: float) -> str:
    """Return `45 s`, `5 min` or `1 h 30 min`, for estimates."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    hours, rest = divmod(minutes, 60)
    return f"{hours} h {rest} min" if hours else f"{minutes} min"
