"""The first screen about a trace, and its table of files."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence

from iotrace.tools.overview import Overview
from iotrace.tools.render import (
    NONE,
    Column,
    Terminal,
    bar,
    format_bytes,
    format_count,
    format_rate,
    format_seconds,
    format_share,
    print_facts,
    print_problems,
    print_table,
)
from iotrace.traces.counters import SpanCounters
from iotrace.traces.file_summaries import FileSummary
from iotrace.traces.merged_clocks import clocks_told
from iotrace.traces.metadata import Host, Metadata, Mount
from iotrace.traces.schema import DATA_OPS
from iotrace.traces.sharing.card import CARD
from iotrace.traces.summary import ALIGNMENT_BYTES, TENSORS_ALONE, SizeBucket, Summary, Traffic
from iotrace.traces.words import plural

FILES_ON_FIRST_SCREEN = 5
_PLACES_SHOWN = 4
_HISTORY_SHOWN = 8
_BAR_WIDTH = 20


def print_overview(terminal: Terminal, overview: Overview) -> None:
    """Print the first screen."""
    summary = overview.summary
    print_facts(terminal, _origin(overview))
    if overview.missing:
        terminal.print()
        print_problems(terminal, "INCOMPLETE: figures below are lower bounds", overview.missing)
    if overview.contradictions:
        terminal.print()
        print_problems(terminal, "CONTRADICTORY: do not trust it", overview.contradictions)
    if overview.replayed and overview.replayed.problems:
        terminal.print()
        print_problems(terminal, "NOT AS ASKED when it was replayed", overview.replayed.problems)
    terminal.print()
    if not summary.requests and summary.tensors:
        print_facts(terminal, [("requests", f"none: {TENSORS_ALONE}")])
        return
    _print_transfers(terminal, overview)
    if summary.data_requests:
        terminal.print()
        _print_sizes(terminal, summary)
    if summary.files:
        terminal.print()
        print_files(terminal, summary.files.busiest(FILES_ON_FIRST_SCREEN))


def print_files(terminal: Terminal, files: Sequence[FileSummary]) -> None:
    """Print one line per file."""
    columns = (
        Column("file", shrink=True),
        Column("size", right=True),
        Column("written", right=True),
        Column("read", right=True),
        Column("requests", right=True),
    )
    print_table(
        terminal,
        columns,
        map(file_cells, files),
    )


def file_cells(file: FileSummary) -> tuple[str, ...]:
    """Return what a table says of a file: name, size, written, read, requests."""
    return (
        file.path,
        format_bytes(file.final_size),
        format_bytes(file.bytes_written),
        format_bytes(file.bytes_read),
        format_count(file.requests),
    )


def _origin(overview: Overview) -> Iterator[tuple[str, str]]:
    summary, metadata = overview.summary, overview.metadata
    yield "trace", overview.location
    if metadata.command:
        yield "command", shlex.join(metadata.command)
    yield from _few("host", map(_host, metadata.hosts))
    yield from _few("storage", map(_mount, metadata.mounts))
    yield from _few("recorded on", map(_host, metadata.recorded_on.hosts))
    yield from _few("recorded on", (_place(mount) for mount in metadata.recorded_on.mounts))
    made = list(_made_by(metadata))
    yield from made[:_HISTORY_SHOWN]
    if len(made) > _HISTORY_SHOWN:
        yield "", f"and {format_count(len(made) - _HISTORY_SHOWN)} more entries of its history"
    if told := clocks_told(metadata):
        yield "times", told
    if overview.replayed:
        yield from overview.replayed.facts()
    else:
        yield "engine", ", ".join(summary.engines) or "none recognised"
    shape = [plural(summary.saves, "save"), plural(summary.loads, "load")]
    shape += [plural(summary.processes, "process")]
    shape += [plural(len(summary.ranks), "rank")] if summary.ranks else []
    shape += [plural(len(summary.files), "file"), plural(summary.tensors, "tensor row")]
    yield "holds", ", ".join(shape)
    yield from _memory(overview.counters)
    if summary.complete:
        yield "complete", f"yes, nothing is known to be missing{_unaccounted(metadata)}"


def _few(label: str, texts: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the first of some lines: a job may run on a thousand hosts."""
    listed = list(texts)
    yield from ((label, text) for text in listed[:_PLACES_SHOWN])
    if len(listed) > _PLACES_SHOWN:
        yield "", f"and {format_count(len(listed) - _PLACES_SHOWN)} more; --json lists all"


def _host(host: Host) -> str:
    parts = [host.name, host.kernel]
    parts += [plural(host.cores, "core")] if host.cores else []
    parts += [f"{format_bytes(host.memory_bytes)} memory"] if host.memory_bytes else []
    parts += ["lent by a hypervisor"] if host.gives_memory_back else []
    return ", ".join(filter(None, parts))


def _mount(mount: Mount) -> str:
    free = f", {format_bytes(mount.free_bytes)} free" if mount.free_bytes is not None else ""
    return f"{_place(mount)}{free}"


def _place(mount: Mount) -> str:
    return f"{mount.file_system or 'unknown'} on {mount.path}"


def _unaccounted(metadata: Metadata) -> str:
    """Tell what the kernel counted beyond what is known, though it is no problem."""
    found = metadata.completeness
    bytes_by_verb = (
        (found.unaccounted_bytes_written, "written"),
        (found.unaccounted_bytes_read, "read"),
    )
    parts = [f"{format_bytes(count)} {verb}" for count, verb in bytes_by_verb if count]
    return f"; not accounted for: {' and '.join(parts)}, by loader and libc" if parts else ""


def _memory(counters: Sequence[SpanCounters]) -> Iterator[tuple[str, str]]:
    """Yield per op how much memory a process had at most, and what was left in the page cache."""
    for op in dict.fromkeys(one.op for one in counters):
        ends = [one.after for one in counters if one.op == op]
        resident, cached, dirty = (
            max((end[name] for end in ends if name in end), default=None)
            for name in ("resident_bytes", "cached_bytes", "dirty_bytes")
        )
        parts = [f"{format_bytes(resident)} resident"] if resident is not None else []
        parts += [f"{format_bytes(cached)} in the page cache"] if cached is not None else []
        parts += [f"{format_bytes(dirty)} of it dirty"] if cached and dirty is not None else []
        yield f"after {op}", ", ".join(parts)


def _made_by(metadata: Metadata) -> Iterator[tuple[str, str]]:
    """Yield how the trace came to be, where that is more than a capture."""
    for entry in metadata.history:
        if entry.action != "capture":
            shared = entry.action == "share" and not entry.detail
            yield entry.action, _shared(metadata) if shared else entry.detail or "done"


def _shared(metadata: Metadata) -> str:
    """Return what sharing did, by the card that it left."""
    card = metadata.extra.get(CARD)
    names = card.get("tensor_names") if isinstance(card, dict) and card.get("tensors") else None
    return f"paths keyed, tensor names {names}" if names in ("kept", "keyed") else "paths keyed"


def _print_transfers(terminal: Terminal, overview: Overview) -> None:
    """Print who moved how much how fast, writes beside reads."""
    summary = overview.summary
    write, read = overview.by_op["write"], overview.by_op["read"]
    seconds = (summary.write_seconds, summary.read_seconds)
    busy = (write.busy_seconds, read.busy_seconds)
    moved = (summary.bytes_written, summary.bytes_read)
    padding = overview.padding_bytes.values()
    sizes = [n + more for n, more in zip(moved, padding, strict=True)]
    rows = [
        ("requests", *(format_count(s.requests) for s in (write, read))),
        ("bytes", *map(format_bytes, moved)),
        *([("padding besides", *map(format_bytes, padding))] if any(padding) else []),
        ("time, without pauses between", *(format_seconds(s) if s else NONE for s in seconds)),
        ("of it inside requests", *map(format_share, busy, seconds)),
        ("bandwidth", *map(format_rate, moved, seconds)),
        ("mean request", *(_mean_request(s, n) for s, n in zip((write, read), sizes, strict=True))),
        (f"{format_bytes(ALIGNMENT_BYTES)}-aligned", *map(_aligned, (write, read))),
        ("most in flight", *(format_count(s.max_concurrency or None) for s in (write, read))),
        ("mean in flight", *(_mean_in_flight(s) for s in (write, read))),
    ]
    columns = (Column(""), Column("write", right=True), Column("read", right=True))
    print_table(terminal, columns, rows)
    others = [
        f"{op} {format_count(n)}" for op, n in overview.op_counts.items() if op not in DATA_OPS
    ]
    told = [("other requests", ", ".join(others) or "none")]
    told += [("page faults", str(summary.paging))] if summary.paging else []
    print_facts(terminal, told)
    if overview.failed:
        failed = ", ".join(f"{op} {format_count(count)}" for op, count in overview.failed.items())
        total = plural(sum(overview.failed.values()), "request")
        moved_less = any(op in overview.failed for op in DATA_OPS)
        style = "bold red" if moved_less else ""
        terminal.print(f"{total} failed or fell short: {failed}", style=style)


def _print_sizes(terminal: Terminal, summary: Summary) -> None:
    """Print how many requests, and how many of the bytes, each power of two holds."""
    buckets = {
        op: {bucket.least_bytes: bucket for bucket in summary.request_sizes[op]} for op in DATA_OPS
    }
    totals = {op: sum(b.bytes for b in found.values()) for op, found in buckets.items()}
    sizes = sorted({size for found in buckets.values() for size in found})
    columns = (
        Column("request size", right=True),
        Column("writes", right=True),
        Column("of bytes", right=True),
        Column("reads", right=True),
        Column("of bytes", right=True),
        Column("requests"),
    )
    none = SizeBucket(0, 0, 0)
    rows = []
    for size in sizes:
        found = [buckets[op].get(size, none) for op in ("write", "read")]
        cells = [f">= {format_bytes(size)}" if size else "0 B"]
        for op, bucket in zip(("write", "read"), found, strict=True):
            cells += [
                format_count(bucket.requests) if bucket.requests else NONE,
                format_share(bucket.bytes, totals[op]) if bucket.requests else NONE,
            ]
        share = sum(bucket.requests for bucket in found) / summary.data_requests
        rows.append([*cells, bar(share, _BAR_WIDTH)])
    print_table(terminal, columns, rows)


def _mean_request(traffic: Traffic, moved_bytes: int) -> str:
    return format_bytes(moved_bytes / traffic.requests) if traffic.requests else NONE


def _mean_in_flight(traffic: Traffic) -> str:
    return f"{traffic.mean_concurrency:.1f}" if traffic.requests else NONE


def _aligned(traffic: Traffic) -> str:
    return NONE if traffic.aligned_share is None else format_share(traffic.aligned_share, 1)
