"""The evidence below the verdict: tables of times, ranks, requests, bytes and what was slowest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from iotrace.tools.render import (
    NONE,
    Column,
    Terminal,
    file_name,
    format_bytes,
    format_count,
    format_seconds,
    format_share,
    print_facts,
    print_table,
)
from iotrace.tools.verdict.shapes import paged_bytes
from iotrace.traces.phases import Phase
from iotrace.traces.verdict.verdict import Finding, Verdict
from iotrace.traces.words import plural

_EPISODES_SHOWN = 12
_RANKS_SHOWN = 8


def print_evidence(terminal: Terminal, verdict: Verdict) -> None:
    """Print the tables, an empty line before each."""
    _print_times(terminal, verdict)
    longest = [finding.episode.label for finding in _longest(verdict)]
    if len(longest) < len(verdict.findings):
        terminal.print()
        terminal.print(f"of {' and '.join(longest)}, the longest:")
    for part in (_print_ranks, _print_requests, _print_bytes, _print_slowest):
        part(terminal, verdict)


def _print_times(terminal: Terminal, verdict: Verdict) -> None:
    """Print one line per save and load: its time and where it went, on the slowest rank."""
    if not verdict.findings:
        return
    is_faulted = any(finding.slowest_rank.fault_seconds for finding in verdict.findings)
    faults = ("faults",) if is_faulted else ()
    is_away = any(finding.away_seconds > 0.005 * finding.seconds for finding in verdict.findings)
    away = ("no call",) if is_away else ()
    titles = ("wall", "I/O", *faults, "sync", "for ranks", "outside", *away, "bytes")
    columns = [Column("time of the last rank"), *(Column(title, right=True) for title in titles)]
    rows = []
    shown = sorted(verdict.findings, key=lambda f: -f.seconds)[:_EPISODES_SHOWN]
    for finding in sorted(shown, key=lambda f: f.episode.start_ns):
        episode, rank = finding.episode, finding.slowest_rank
        step = f" {episode.step}" if episode.step >= 0 else ""
        faulted = (rank.fault_seconds,) if is_faulted else ()
        rest = (rank.sync_seconds, rank.rank_seconds, rank.between_seconds)
        parts = (rank.io_seconds, *faulted, *rest, *((finding.away_seconds,) if is_away else ()))
        rows.append(
            (
                f"{episode.name}{step} {episode.engine or ''}".rstrip(),
                _seconds(finding.seconds),
                *(format_share(part, finding.seconds) if part else NONE for part in parts),
                format_bytes(finding.moved_bytes),
            )
        )
    terminal.print()
    print_table(terminal, columns, rows)
    hidden = len(verdict.findings) - len(shown)
    if hidden:
        terminal.print(f"{plural(hidden, 'shorter one')} not shown; --json has them")


def _print_ranks(terminal: Terminal, verdict: Verdict) -> None:
    """Print the ranks of the longest save and of the longest load, the latest first."""
    for phase in (Phase.SAVE, Phase.LOAD):
        several = [f for f in verdict.of(phase) if len(f.split) > 1]
        if not several:
            continue
        finding = max(several, key=lambda one: one.seconds)
        is_faulted = any(one.fault_seconds for one in finding.split)
        faults = ("faults",) if is_faulted else ()
        titles = ("done after", "I/O", *faults, "sync", "for ranks", "outside", "bytes")
        step = f" {finding.episode.step}" if finding.episode.step >= 0 else ""
        columns = [Column(f"rank ({finding.episode.name}{step})")]
        columns += [Column(title, right=True) for title in titles]
        ordered = sorted(finding.split, key=lambda one: -one.last_data_ns)
        rows = [
            (
                one.name.removeprefix("rank "),
                _seconds((one.last_data_ns - finding.episode.start_ns) / 1e9),
                *map(
                    _seconds,
                    (
                        one.io_seconds,
                        *((one.fault_seconds,) if is_faulted else ()),
                        one.sync_seconds,
                        one.rank_seconds,
                        one.between_seconds,
                    ),
                ),
                format_bytes(one.bytes),
            )
            for one in ordered[:_RANKS_SHOWN]
        ]
        terminal.print()
        print_table(terminal, columns, rows)
        if len(ordered) > _RANKS_SHOWN:
            terminal.print(f"{plural(len(ordered) - _RANKS_SHOWN, 'earlier rank')} not shown")


def _print_requests(terminal: Terminal, verdict: Verdict) -> None:
    """Print the shape of each kind of request of the longest save and load."""
    titles = ("count", "median size", "p50", "p99", "depth", "aligned", "if joined")
    columns = [Column("requests"), *(Column(title, right=True) for title in titles)]
    rows: list[Sequence[str]] = []
    notes: list[tuple[str, str]] = []
    for finding in _longest(verdict):
        for op, shape in finding.shapes.items():
            is_data = op in ("read", "write")
            aligned = shape.aligned_share if is_data else None
            rows.append(
                (
                    f"{finding.episode.name}: {op}",
                    format_count(shape.count),
                    format_bytes(shape.typical_bytes) if op != "sync" else NONE,
                    _seconds(shape.p50_us / 1e6),
                    _seconds(shape.p99_us / 1e6),
                    f"{shape.depth:.1f}",
                    NONE if aligned is None else format_share(aligned, 1),
                    format_count(shape.joined_count) if is_data else NONE,
                )
            )
        others = [
            f"{op} {count:,}" for op, count in finding.ops.items() if op not in finding.shapes
        ]
        if others:
            notes.append((f"{finding.episode.name}:", ", ".join(others)))
    if rows or notes:
        terminal.print()
        print_table(terminal, columns, rows)
        print_facts(terminal, notes)


def _seconds(seconds: float) -> str:
    return format_seconds(seconds) if seconds else NONE


def _print_bytes(terminal: Terminal, verdict: Verdict) -> None:
    """Print where the bytes of each longest save and load went, and how often."""
    columns = [Column("bytes")]
    columns += [
        Column(title, right=True)
        for title in ("moved", "different", "in a rank", "of tensors", "of none", "spare", "twice")
    ]
    rows = []
    for finding in _longest(verdict):
        amount = finding.amplification
        counts = (
            amount.moved_bytes,
            amount.unique_bytes,
            amount.rank_unique_bytes,
            amount.tensor_bytes,
            amount.foreign_bytes,
            amount.spare_bytes,
            amount.repeated_bytes,
        )
        cells = [format_bytes(count) if count else NONE for count in counts]
        if finding.paging and not amount.moved_bytes:
            cells[0] = paged_bytes(finding)
        rows.append((finding.episode.name, *cells))
    if rows:
        terminal.print()
        print_table(terminal, columns, rows)


def _longest(verdict: Verdict) -> Iterator[Finding]:
    """Yield the longest save and the longest load."""
    for phase in (Phase.SAVE, Phase.LOAD):
        findings = verdict.of(phase)
        if findings:
            yield max(findings, key=lambda one: one.seconds)


def _print_slowest(terminal: Terminal, verdict: Verdict) -> None:
    columns = (Column("slowest"), Column("time", right=True), Column("what", shrink=True))
    rows = []
    for finding in (one for one in _longest(verdict) if one.seconds):
        name, slow = finding.episode.name, finding.slowest
        for request in slow.requests:
            what = file_name(request.path)  # the beginning gives way on a narrow screen
            what += f", {request.tensors}" if request.tensors else ""
            what += f", rank {request.rank}" if request.rank >= 0 else ""
            what += f", {format_bytes(request.length)}" if request.length else ""
            is_placed = request.length and request.offset is not None
            what += f" at {format_count(request.offset)}" if is_placed else ""
            rows.append((f"{name}: {request.op}", format_seconds(request.seconds), what))
        rank = finding.slowest_rank
        if rank.gap_seconds > rank.seconds / 10:
            what = f"before {rank.gap_before or 'the end'}"
            what += f", {rank.name}" if len(finding.split) > 1 else ""
            rows.append((f"{name}: no I/O", format_seconds(rank.gap_seconds), what))
        for file in slow.files[:1]:
            held = f"{plural(file.requests, 'request')}, {format_bytes(file.bytes)}"
            rows.append(
                (f"{name}: file", format_seconds(file.seconds), f"{file_name(file.path)}: {held}")
            )
        for tensor in slow.tensors[:1]:
            held = f"{plural(tensor.requests, 'request')}, {format_bytes(tensor.bytes)}"
            rows.append(
                (f"{name}: tensor", format_seconds(tensor.seconds), f"{tensor.name}: {held}")
            )
    if rows:
        terminal.print()
        print_table(terminal, columns, rows)
