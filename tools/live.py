"""What a running or stuck job does right now, by rank, in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from iotrace.capture.live import Doing
from iotrace.tools.render import (
    NONE,
    Column,
    Terminal,
    file_name,
    format_bytes,
    format_seconds,
    print_facts,
    print_table,
    printable,
)
from iotrace.traces.words import plural

_SHOWN = 20
_STUCK_SECONDS = 1.0  # in one request, from which on it is worth a word


def to_json(pid: int, doing: Sequence[Doing]) -> dict[str, Any]:
    """Return all threads as one JSON object."""
    return {"pid": pid, "threads": [asdict(one) for one in _ordered(doing)]}


def print_live(terminal: Terminal, pid: int, doing: Sequence[Doing]) -> None:
    """Print the verdict, then one line per thread that is in a request, and per other rank."""
    print_facts(terminal, _lines(pid, doing))
    inside = [one for one in _ordered(doing) if one.is_io]
    shown = inside + _ranks_besides(inside, doing)
    if not shown:
        return
    columns = [Column("rank"), Column("thread"), Column("request"), Column("for", right=True)]
    columns += [Column("waits for"), Column("file", shrink=True)]
    terminal.print()
    print_table(terminal, columns, [_row(one) for one in shown[:_SHOWN]])
    if len(shown) > _SHOWN:
        terminal.print(f"{plural(len(shown) - _SHOWN, 'more thread')}; --json has them")


def _lines(pid: int, doing: Sequence[Doing]) -> Iterator[tuple[str, str]]:
    processes = {one.pid for one in doing}
    running = sum(one.op == "running" for one in doing)
    inside = [one for one in _ordered(doing) if one.is_io]
    others = len(doing) - running - len(inside)
    yield (
        "job",
        f"{pid}, {plural(len(processes), 'process')}, {plural(len(doing), 'thread')}: "
        f"{running} running, {len(inside)} in requests, {others} waiting otherwise",
    )
    stuck = [one for one in inside if (one.idle_seconds or 0.0) >= _STUCK_SECONDS]
    if stuck:
        first = stuck[0]
        yield "stuck", f"{_who(first)} in {_what(first)} for {_age(first)}{_why(first)}"
        return
    main = [one for one in doing if one.thread == one.pid and one.op == "other call"]
    idle = [one for one in main if (one.idle_seconds or 0.0) >= _STUCK_SECONDS]
    if idle and not running:
        first = max(idle, key=lambda one: one.idle_seconds or 0.0)
        yield "waits", f"{_who(first)} for {_age(first)}{_why(first)}, in no request"
    else:
        yield "stuck", "nothing: no request has been going on for a second"


def _ranks_besides(inside: Sequence[Doing], doing: Sequence[Doing]) -> list[Doing]:
    """Return the first thread of each rank that is in no request."""
    told = {one.rank for one in inside} | {-1}
    first = {one.rank: one for one in sorted(doing, key=lambda one: -one.thread)}
    return [first[rank] for rank in sorted(first.keys() - told)]


def _ordered(doing: Sequence[Doing]) -> list[Doing]:
    """Return those in requests of files first, the longest ones first; of pipes after them."""
    return sorted(
        doing, key=lambda one: (not one.is_io, not _in_file(one), -(one.idle_seconds or 0.0))
    )


def _in_file(one: Doing) -> bool:
    """Whether the request is of a file: threads that wait for work often sit in a pipe."""
    return one.path is None or one.path.startswith("/")


def _who(one: Doing) -> str:
    return f"rank {one.rank}" if one.rank >= 0 else f"process {one.pid}"


def _what(one: Doing) -> str:
    size = f" of {format_bytes(one.length)}" if one.length else ""
    place = f" at {format_bytes(one.offset)}" if one.offset is not None and _in_file(one) else ""
    return f"{one.op}{size}{place}" + (f", {file_name(one.path)}" if one.path else "")


def _age(one: Doing) -> str:
    return format_seconds(one.idle_seconds) if one.idle_seconds is not None else "unknown time"


def _why(one: Doing) -> str:
    if one.waits_for:
        return f", waiting for {one.waits_for}"
    return f", in the kernel's {printable(one.where)}" if one.where else ""


def _row(one: Doing) -> tuple[str, ...]:
    size = f" {format_bytes(one.length)}" if one.length else ""
    return (
        str(one.rank) if one.rank >= 0 else NONE,
        str(one.thread),
        f"{one.op}{size}",
        NONE if one.idle_seconds is None else format_seconds(one.idle_seconds),
        one.waits_for or printable(one.where) or NONE,
        printable(one.path) if one.path else NONE,
    )
