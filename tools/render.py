"""Text for people: units, tables and lists of facts that fit the terminal.

Inside the package every size is bytes and every time is ns or seconds; this is the one place
that turns them into words. Colours appear only on a terminal and never with NO_COLOR set.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from iotrace.traces.words import significant, sized

NONE = "-"  # an absent value
ELLIPSIS = "…"
PROBLEMS_SHOWN = 20
_GAP = "  "
_MIN_PATH = 24  # of a path within a sentence
_MIN_SHRUNK = 8  # narrower paths say nothing; the line then overflows instead


class Terminal(Console):
    """One output stream. A reader that went away (`| head`) ends the program quietly.

    The gate that all text for people goes through, `say` has the other: whatever a trace, a server
    or a file name holds, no control character comes out of it but the newline, and nothing that
    turns the direction of writing.
    """

    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, highlight=False, markup=False, emoji=False, soft_wrap=True)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Yield the segments of what is printed, in plain characters."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=plain(segment.text))

    def on_broken_pipe(self) -> None:
        """Leave the ending to `main`, which knows the exit status."""
        raise BrokenPipeError


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Args:
        title: heading; may be empty.
        right: align to the right, as numbers are.
        shrink: give up width when the line is too long, keeping the end of the text:
            the end of a path or of a tensor's name is what tells it from its neighbours.
    """

    title: str
    right: bool = False
    shrink: bool = False


def format_count(count: int | None) -> str:
    """Return `12,345`."""
    return NONE if count is None else f"{count:,}"


def format_bytes(size_bytes: int | float | None) -> str:
    """Return a size in binary units, exact multiples without decimals: `8 MiB`, `1.46 GiB`."""
    if size_bytes is None:
        return NONE
    return sized(size_bytes)


def format_rate(size_bytes: int | float | None, seconds: float | None) -> str:
    """Return a bandwidth in binary units, or `-` when there is nothing to divide."""
    if not size_bytes or not seconds or seconds <= 0:
        return NONE
    return f"{format_bytes(size_bytes / seconds)}/s"


def format_seconds(seconds: float | None) -> str:
    """Return a duration with three significant digits: `1.23 s`, `45.1 ms`, `870 ns`."""
    if seconds is None:
        return NONE
    if seconds >= 100:
        return f"{seconds:,.0f} s"
    for unit, factor in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= factor * 0.9995:  # 999.9 ms is written as 1.00 s
            return f"{significant(seconds / factor)} {unit}"
    return f"{seconds * 1e9:.0f} ns"


def format_range(low: str, high: str) -> str:
    """Return two formatted figures as one, a common unit said once: `1.20 - 1.41 ms`."""
    value, _, unit = low.partition(" ")
    return f"{value if high.endswith(f' {unit}') else low} - {high}"


def format_ratio(before: float | None, after: float | None) -> str:
    """Return how many times `before` goes into `after`.

    >>> format_ratio(2, 5), format_ratio(1, 12345), format_ratio(1000, 1), format_ratio(0, 1)
    ('2.5x', '12,345x', '<0.01x', '-')
    """
    if not before or not after:
        return NONE
    ratio = after / before
    return f"{ratio:,.0f}x" if ratio >= 100 else f"{ratio:.3g}x" if ratio >= 0.01 else "<0.01x"


def format_share(part: int | float, whole: int | float) -> str:
    """Return `part` of `whole` in percent; never 100 % or 0 % for what is not quite that."""
    if not whole:
        return NONE
    percent = 100 * part / whole
    if 99.5 <= percent < 100:
        return ">99 %"
    if 0 < percent < 0.5:
        return "<1 %"
    return f"{percent:.0f} %"


def shorten(text: str, width: int) -> str:
    """Cut the beginning of `text` so that it fits `width` columns."""
    return text if len(text) <= width else ELLIPSIS + text[len(text) - width + 1 :]


def shorten_paths(line: str, width: int) -> str:
    """Cut the beginnings of the paths in `line` so that it fits, but not below 24 columns.

    >>> shorten_paths("write /scratch/run-7/step-100/model.pt 0 4096", 37)
    'write …run-7/step-100/model.pt 0 4096'
    """
    words = line.split(" ")
    paths = sorted(len(word) for word in words if "/" in word)
    most = paths[-1] if paths else 0
    rest = len(line) - sum(paths)
    while most > _MIN_PATH and rest + sum(min(size, most) for size in paths) > width:
        most -= 1
    return " ".join(shorten(word, most) if "/" in word else word for word in words)


def file_name(path: str | None) -> str:
    """Return the last component of a path, for a sentence."""
    return printable(PurePosixPath(path).name or path) if path else "an unknown file"


def printable(text: str) -> str:
    """Return `text` with control characters escaped: a trace comes from a stranger."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def plain(text: str) -> str:
    r"""Return `text` with control characters other than newlines escaped.

    >>> plain("a\x1b[2J\nb")
    'a\\x1b[2J\nb'
    """
    return "\n".join(map(printable, text.split("\n")))


def table(columns: Sequence[Column], rows: Iterable[Sequence[str]], width: int) -> list[str]:
    """Lay out `rows` under `columns` in at most `width` columns; line 0 is the heading."""
    lines = [[c.title for c in columns], *([printable(cell) for cell in row] for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
    for i, column in enumerate(columns):
        excess = sum(widths) + len(_GAP) * (len(columns) - 1) - width
        if column.shrink and excess > 0:
            widths[i] = max(widths[i] - excess, min(widths[i], _MIN_SHRUNK))
    return [_GAP.join(map(_cell, line, columns, widths)).rstrip() for line in lines]


def facts(pairs: Iterable[tuple[str, str]], width: int) -> list[str]:
    """Lay out (label, value) pairs, one a line, long values wrapped under themselves."""
    listed = [(label, printable(value)) for label, value in pairs]
    indent = max((len(label) for label, _ in listed), default=0) + len(_GAP)
    lines: list[str] = []
    for label, value in listed:
        wrapped = textwrap.wrap(
            value, max(width - indent, _MIN_SHRUNK), break_on_hyphens=False
        ) or [""]
        lines.append(f"{label:{indent}}{wrapped[0]}".rstrip())
        lines += [" " * indent + rest for rest in wrapped[1:]]
    return lines


def bar(share: float, width: int) -> str:
    """Return a bar of `share` (0..1) of `width` columns; anything above 0 shows."""
    return "▇" * (max(1, round(share * width)) if share > 0 else 0)


def print_table(
    terminal: Console, columns: Sequence[Column], rows: Iterable[Sequence[str]]
) -> None:
    """Print a table with an emphasised heading."""
    heading, *body = table(columns, rows, terminal.width)
    terminal.print(heading, style="bold")
    for line in body:
        terminal.print(line)


def print_facts(terminal: Console, pairs: Iterable[tuple[str, str]]) -> None:
    """Print (label, value) pairs."""
    for line in facts(pairs, terminal.width):
        terminal.print(line)


def print_problems(terminal: Console, title: str, problems: Sequence[str]) -> None:
    """Print what the reader must not overlook: a title and one wrapped item per problem.

    A job of a thousand processes may have one of each: of many the first are printed.
    """
    terminal.print(Text(title, style="bold red"))
    more = len(problems) - PROBLEMS_SHOWN
    rest = [f"and {format_count(more)} more; --json lists all"] if more > 0 else []
    for problem in [*problems[:PROBLEMS_SHOWN], *rest]:
        lines = textwrap.wrap(printable(problem), terminal.width - 4, break_on_hyphens=False) or [
            ""
        ]
        terminal.print(Text("\n".join([f"  ! {lines[0]}", *(f"    {x}" for x in lines[1:])])))


def _cell(text: str, column: Column, width: int) -> str:
    text = shorten(text, width) if column.shrink else text
    return text.rjust(width) if column.right else text.ljust(width)
