"""A plan before and after each transform: what each changes, and the first requests after it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from iotrace.replay.plan import Plan
from iotrace.replay.sketch import request_lines
from iotrace.tools.comparison import describe_note, describe_transform
from iotrace.tools.render import (
    NONE,
    Column,
    Terminal,
    format_bytes,
    format_count,
    print_table,
    printable,
    shorten_paths,
)

_FIRST_REQUESTS = 8


def print_explanation(terminal: Terminal, plans: Sequence[Plan]) -> None:
    """Print totals of each plan in a table, then what each transform says and leaves.

    Args:
        terminal: where to.
        plans: as recorded, and after each transform.
    """
    titles = ("", "requests", "files", "written", "read", "padding", "median", "largest")
    width = terminal.width - 2  # of a request
    columns = [Column(title, right=i > 0) for i, title in enumerate(titles)]
    print_table(terminal, columns, [list(_totals(plan)) for plan in plans])
    for plan in plans:
        terminal.print()
        terminal.print(describe_transform(plan.history[-1]), style="bold")
        for note in plan.history[-1].notes:
            terminal.print(f"  note: {describe_note(note)}")
        for line in request_lines(plan, _FIRST_REQUESTS):
            terminal.print(f"  {_cut(shorten_paths(printable(line), width), width)}")
        more = len(plan.requests) - _FIRST_REQUESTS
        if more > 0:
            terminal.print(f"  and {format_count(more)} more")


def _totals(plan: Plan) -> Iterator[str]:
    counts = plan.counts()
    lengths = plan.requests["length"][plan.is_data()]
    yield plan.history[-1].name
    yield format_count(counts.requests)
    yield format_count(counts.files)
    for size_bytes in (counts.bytes_written, counts.bytes_read, counts.padding_bytes):
        yield format_bytes(size_bytes) if size_bytes else NONE
    yield format_bytes(int(np.median(lengths))) if len(lengths) else NONE
    yield format_bytes(int(lengths.max())) if len(lengths) else NONE


def _cut(line: str, width: int) -> str:
    return line if len(line) <= width else line[: width - 3] + "..."
