"""Progress of long work, on stderr, where a person sees it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)

from iotrace.tools.render import Terminal

Report = Callable[[str, int, int], None]
_PATIENCE_SECONDS = 1


@contextmanager
def progress() -> Iterator[Report]:
    """Give a function that shows (stage, done, total); it is silent when stderr is no terminal.

    The bars vanish at the end: what stays on the screen is the result. Nothing is drawn between
    two reports, so that drawing takes no time from what is measured.
    """
    terminal = Terminal(stderr=True)
    if not terminal.is_terminal:
        yield lambda stage, done, total: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(
        *columns, TimeElapsedColumn(), console=terminal, transient=True, auto_refresh=False
    ) as bars:
        tasks: dict[str, TaskID] = {}

        def report(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(stage, total=total)
            bars.update(tasks[stage], completed=done, total=total, refresh=True)

        yield report


@contextmanager
def waiting(stage: str) -> Iterator[None]:
    """Show what takes long, and for how long it has, while the block runs; not for a short one.

    For work of which it is not known how much is left, and that is not measured: the clock ticks.
    """
    terminal = Terminal(stderr=True)
    if not terminal.is_interactive:
        yield
        return
    columns = (TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    clock = Progress(*columns, console=terminal, transient=True)
    clock.add_task(stage, total=None)
    begin = threading.Timer(_PATIENCE_SECONDS, clock.start)
    begin.start()
    try:
        yield
    finally:
        begin.cancel()
        begin.join()
        clock.stop()
