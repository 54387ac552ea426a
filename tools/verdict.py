"""The verdict on a trace in words: at most ten lines first, the evidence below."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import PurePosixPath
from typing import Any

from iotrace.replay.probe import Capability
from iotrace.tools.advice import Advice
from iotrace.tools.render import (
    NONE,
    Column,
    Terminal,
    facts,
    format_bytes,
    format_count,
    format_rate,
    format_seconds,
    format_share,
    print_problems,
    print_table,
    printable,
    shorten,
)
from iotrace.traces.metadata import Metadata
from iotrace.traces.phases import Phase
from iotrace.traces.verdict.failures import Failure
from iotrace.traces.verdict.shape import Shape
from iotrace.traces.verdict.split import RankSplit
from iotrace.traces.verdict.verdict import Finding, Verdict
from iotrace.traces.words import plural

_EPISODES_SHOWN = 12
_RANKS_SHOWN = 8
_NOTICED = 0.05  # a share of the time below this is not worth a word
_CAUSE = 0.4  # the part of the time from which on something is its cause
_LATE = 0.1  # how much later than the others a rank is named the slowest
_LARGE_BYTES = 1 << 20  # the largest that is probed
_CACHE_FACTOR = 1.5  # faster than storage by this: the page cache


def print_verdict(
    terminal: Terminal,
    location: str,
    metadata: Metadata,
    verdict: Verdict,
    advice: Sequence[Advice],
    storage: Capability | None,
) -> None:
    """Print the verdict, then its evidence."""
    if verdict.problems:
        print_problems(
            terminal, "INCOMPLETE: figures below are lower bounds", _few(verdict.problems)
        )
    for line in facts(headline(location, metadata, verdict, advice, storage), terminal.width):
        terminal.print(line)
    for part in (_print_times, _print_ranks, _print_requests, _print_bytes, _print_slowest):
        part(terminal, verdict)
    _print_storage(terminal, storage)
    _print_advice(terminal, advice)


def headline(
    location: str,
    metadata: Metadata,
    verdict: Verdict,
    advice: Sequence[Advice],
    storage: Capability | None,
) -> Iterator[tuple[str, str]]:
    """Yield (label, sentence), the most telling first; each is to fit a line of 80 columns."""
    saves, loads = verdict.of(Phase.SAVE), verdict.of(Phase.LOAD)
    yield "trace", _what(location, metadata, saves, loads)
    if verdict.failures.first_error or verdict.failures.first_short:
        yield "error", _failures(verdict)
    for findings in (saves, loads):
        if not findings:
            continue
        worst = max(findings, key=lambda one: one.seconds)
        yield worst.episode.name, _time(worst, findings)
        if worst.data is not None:
            cached = _cached(loads, verdict, storage) if findings is loads else ""
            yield f"{worst.data.op}s", _requests(worst.data) + cached
            if worst.data.is_round_trips and worst.data.rank_busy_seconds > _CAUSE * worst.seconds:
                yield "cause", _round_trips(worst)
        elif findings is loads and verdict.mapped_only:
            mapped = plural(verdict.mapped_only, "file")
            yield "reads", f"{mapped} mapped: what was read through it, and when, was not seen"
    if storage is not None:
        yield from _capabilities(storage, saves, loads)
    if saves or loads:
        yield "bytes", "; ".join([*_bytes(saves, "wrote"), *_bytes(loads, "read")])
    if saves:
        yield "durable", _durable(saves[-1])
        yield from _background(saves)
    slow = max(
        (f for f in verdict.findings if f.slowest.requests),
        key=lambda f: f.slowest.requests[0].seconds,
        default=None,
    )
    if slow is not None:
        yield "slowest", _slowest(slow)
    if advice:
        yield "change", f"{advice[0].change}"


def to_json(
    location: str, verdict: Verdict, advice: Sequence[Advice], storage: Capability | None
) -> dict[str, Any]:
    """Return the verdict as one JSON object."""
    return {
        "trace": location,
        "complete": not verdict.problems,
        "problems": list(verdict.problems),
        "first_error": _plain(verdict.failures.first_error),
        "first_short": _plain(verdict.failures.first_short),
        "errors": verdict.failures.errors,
        "short_writes": verdict.failures.short,
        "cached_read_share": verdict.cached_read_share,
        "counters": dict(verdict.counters),
        "episodes": [_finding_json(finding) for finding in verdict.findings],
        "advice": [asdict(one) for one in advice],
        "storage": _plain(storage),
    }


def _finding_json(finding: Finding) -> dict[str, Any]:
    episode = finding.episode
    return {
        "op": episode.name,
        "step": episode.step if episode.step >= 0 else None,
        "engine": episode.engine,
        "seconds": finding.seconds,
        "bytes": episode.moved_bytes,
        "slowest_rank": finding.slowest_rank.rank,
        "imbalance": finding.imbalance,
        "ranks": [asdict(one) for one in finding.split],
        "requests": {op: asdict(shape) for op, shape in finding.shapes.items()},
        "amplification": asdict(finding.amplification)
        | {
            "by_rank": finding.amplification.by_rank,
            "over_ranks": finding.amplification.over_ranks,
        },
        "durability": _plain(finding.durability),
        "background": _plain(finding.background),
        "slowest": asdict(finding.slowest),
        "ops": dict(finding.ops),
    }


def _plain(value: Any) -> Any:
    return None if value is None else asdict(value)


def _few(problems: Sequence[str], count: int = 3) -> list[str]:
    shown = list(problems[:count])
    if len(problems) > count:
        shown.append(f"and {len(problems) - count} more: `iotrace show` lists them")
    return shown


def _what(
    location: str, metadata: Metadata, saves: Sequence[Finding], loads: Sequence[Finding]
) -> str:
    engines = dict.fromkeys(f.episode.engine for f in (*saves, *loads) if f.episode.engine)
    parts = [", ".join(engines) or "no engine recognised"]
    parts += [plural(len(saves), "save")] if saves else []
    parts += [plural(len(loads), "load")] if loads else []
    if not parts[1:]:
        parts.append("no save and no load")
    ranks = {one.process for finding in (*saves, *loads) for one in finding.split}
    known = any(one.rank >= 0 for finding in (*saves, *loads) for one in finding.split)
    parts += [plural(len(ranks), "rank" if known else "process")] if len(ranks) > 1 else []
    systems = dict.fromkeys(mount.file_system for mount in metadata.mounts if mount.file_system)
    parts += [", ".join(systems)] if systems else []
    return f"{shorten(location, 32)}: {', '.join(parts)}"


def _failures(verdict: Verdict) -> str:
    failures = verdict.failures
    first, short = failures.first_error, failures.first_short
    if first is None:
        assert short is not None
        return (
            f"{plural(failures.short, 'write')} fell short, first {_place(short)}: "
            f"{format_count(short.moved)} of {format_count(short.length)} bytes"
        )
    text = f"{errno_name(first)}: {_place(first)}"
    if short is not None:
        text += (
            f"; before it a write moved {format_count(short.moved)} of "
            f"{format_count(short.length)} bytes at {format_count(short.offset)}"
        )
    more = failures.errors - 1
    return f"{text}; {plural(more, 'error')} more" if more else text


def errno_name(failure: Failure) -> str:
    """Return `No space left on device (ENOSPC)`."""
    number = failure.errno or 0
    name = errno.errorcode.get(number)
    return f"{os.strerror(number)} ({name})" if name else f"error {number}"


def _place(failure: Failure) -> str:
    where = f"{failure.op} of {_file(failure.path)}"
    if failure.length:
        where = (
            f"{failure.op} of {format_count(failure.length)} bytes at "
            f"{format_count(failure.offset)} of {_file(failure.path)}"
        )
    if failure.tensor:
        where += f", tensor {failure.tensor}"
    elif failure.after_tensor:
        where += f", after tensor {failure.after_tensor}"
    return where + (f", rank {failure.rank}" if failure.rank >= 0 else "")


def _file(path: str | None) -> str:
    return printable(PurePosixPath(path).name or path) if path else "an unknown file"


def _time(worst: Finding, findings: Sequence[Finding]) -> str:
    """Return where the wall time of the longest save or load went, on its last rank."""
    rank = worst.slowest_rank
    text = format_seconds(worst.seconds)
    if len(findings) > 1:
        others = sorted(one.seconds for one in findings)
        text += f" (step {worst.episode.step}; median {format_seconds(others[len(others) // 2])})"
    text += f": {_shares(rank)}"
    waits = [one.rank_seconds for one in worst.split if one is not rank]
    least = 0.01 if _is_straggler(worst) else _LATE
    if waits and max(waits) > least * worst.seconds:
        text += f"; {rank.name} last, others wait {format_seconds(max(waits))}"
    return text


def _is_straggler(finding: Finding) -> bool:
    """Is one rank clearly later with its data than the median one?"""
    if len(finding.split) < 2:
        return False
    ends = sorted(one.last_data_ns for one in finding.split)
    middle = ends[(len(ends) - 1) // 2]
    return (ends[-1] - middle) / 1e9 > _LATE * finding.seconds


def _shares(rank: RankSplit) -> str:
    """Return `I/O 3 %, own code 97 %`, leaving out what is nothing."""
    parts = [f"I/O {format_share(rank.io_seconds, rank.seconds)}"]
    for seconds, what in (
        (rank.sync_seconds, "syncs"),
        (rank.rank_seconds, "other ranks"),
        (rank.between_seconds, "own code"),
    ):
        if seconds > 0.005 * rank.seconds:
            parts.append(f"{what} {format_share(seconds, rank.seconds)}")
    return ", ".join(parts)


def _requests(shape: Shape) -> str:
    """Return `2,003 of 4.06 KiB, one at a time, 3.18 µs each = 1.01 GiB/s`."""
    mean_bytes = shape.bytes / max(shape.count, 1)
    size = format_bytes(mean_bytes if shape.is_mixed else shape.typical_bytes)
    if shape.is_mixed:
        size += f" (half <= {format_bytes(shape.typical_bytes)})"
    depth = "one at a time" if shape.depth < 1.05 else f"{shape.depth:.1f} at a time"
    each = format_seconds(shape.mean_us / 1e6)
    rate = f" = {format_rate(shape.bytes, shape.busy_seconds)}" if shape.rate else ""
    return f"{format_count(shape.count)} of {size}, {depth}, {each} each{rate}"


def _round_trips(finding: Finding) -> str:
    """Return `503 round trips of 3.88 ms = 1.95 s of 2.06 s: their number, not their size`."""
    shape = finding.data
    assert shape is not None
    busy, whole = (format_seconds(s) for s in (shape.rank_busy_seconds, finding.seconds))
    each = format_seconds(shape.mean_us / 1e6)
    trips = plural(round(shape.rank_busy_seconds / (shape.mean_us / 1e6)), "round trip")
    return f"{trips} of {each} = {busy} of {whole}: their number, not their size"


def _capabilities(
    storage: Capability, saves: Sequence[Finding], loads: Sequence[Finding]
) -> Iterator[tuple[str, str]]:
    """Yield what the storage gives to large requests, of the ops that occur."""
    parts, depths = [], []
    for op, used in (("write", saves), ("read", loads)):
        best = storage.best(op, _LARGE_BYTES)
        if used and best is not None:
            way = "direct" if best.direct else "buffered"
            parts.append(f"{way} {op}s {format_rate(best.durable_rate, 1)}")
            depths.append(best.depth)
    if parts:
        depth = ", ".join(map(str, dict.fromkeys(depths)))
        yield "here", f"{format_bytes(_LARGE_BYTES)}: {', '.join(parts)} (depth {depth})"


def _bytes(findings: Sequence[Finding], verb: str) -> Iterator[str]:
    """Yield the bytes of the last save or load against those needed, and the opens."""
    if not findings:
        return
    last = findings[-1]
    amount = last.amplification
    notes = []
    needed = amount.tensor_bytes - amount.spare_bytes
    if needed > 0 and verb == "wrote":
        factor = amount.moved_bytes / needed
        times = f"{factor:.3g}x" if factor < 1000 else f"{factor:,.0f}x"
        notes.append(f"{times} the tensors")
    elif verb == "read" and amount.over_ranks:
        notes.append(f"{amount.over_ranks:.3g}x")
    if amount.repeated_bytes:
        notes.append(f"{format_bytes(amount.repeated_bytes)} twice")
    if amount.most_openers > 1:
        notes.append(f"{_file(amount.most_opened)} opened by {amount.most_openers} ranks")
    elif amount.opens != amount.files:
        notes.append(f"{plural(amount.opens, 'open')} of {plural(amount.files, 'file')}")
    else:
        notes.append(plural(amount.opens, "open"))
    yield f"{verb} {format_bytes(amount.moved_bytes)} ({', '.join(notes)})"


def _cached(loads: Sequence[Finding], verdict: Verdict, storage: Capability | None) -> str:
    """Return what is known of the page cache's part in the reads, to be appended."""
    share = verdict.cached_read_share
    if share is not None and share > 0.5:
        return f" (>= {format_share(share, 1)} cached)".replace(">= >", "> ")
    reads = [f.shapes["read"] for f in loads if "read" in f.shapes]
    best = storage.best("read") if storage else None
    rate = max((shape.rate or 0 for shape in reads), default=0)
    if best is not None and rate > _CACHE_FACTOR * best.rate:
        return " (page cache: storage gives less)"
    return ""


def _durable(finding: Finding) -> str:
    lasting = finding.durability
    assert lasting is not None
    if not lasting.files:
        return "nothing was written"
    if lasting.early:
        text = f"no: {_file(lasting.early[0])} is synced before its last write"
    elif lasting.late_bytes:
        text = f"no: {format_bytes(lasting.late_bytes)} written after the save returned"
    elif not lasting.durable:
        text = f"no: {lasting.synced} of {plural(lasting.files, 'file')} synced at return"
    elif lasting.renamed and not lasting.folder_syncs:
        text = "yes but the rename: its folder is not synced"
    else:
        text = f"yes: {plural(lasting.files, 'file')} synced at return"
    if lasting.in_place and lasting.renamed:
        return f"{text}; {lasting.in_place} in place, {lasting.renamed} renamed"
    if lasting.in_place:
        return f"{text}; in place: a kill leaves a torn file"
    return f"{text}; renamed: a kill leaves the old file"


def _background(saves: Sequence[Finding]) -> Iterator[tuple[str, str]]:
    found = [f.background for f in saves if f.background and f.background.asynchronous]
    if not found:
        return
    one = max(found, key=lambda behind: behind.blocked_seconds)
    hidden = format_share(one.hidden_seconds, one.io_seconds)
    yield (
        "async",
        f"call {format_seconds(one.call_seconds)}; {hidden} of {format_seconds(one.io_seconds)} "
        f"of I/O behind the job, which waited {format_seconds(one.waited_seconds)}",
    )


def _slowest(finding: Finding) -> str:
    request = finding.slowest.requests[0]
    size = f" of {format_bytes(request.length)}" if request.length else ""
    place = f" at {format_bytes(request.offset)}" if request.length else ""
    text = f"{request.op}{size}{place}, {_file(request.path)}: {format_seconds(request.seconds)}"
    text += f", tensor {request.tensor}" if request.tensor else ""
    if request.rank >= 0:
        text += f"; rank {request.rank}"
    if finding.imbalance is not None and finding.imbalance > 1 + _LATE:
        heavy = max(finding.split, key=lambda one: one.bytes)
        text += f"; {heavy.name} moves {finding.imbalance:.2g}x the mean"
    return text


def _print_times(terminal: Terminal, verdict: Verdict) -> None:
    """Print one line per save and load: its time and where it went, on the slowest rank."""
    if not verdict.findings:
        return
    columns = [
        Column(title, right=i > 0)
        for i, title in enumerate(
            ("time of the last rank", "wall", "I/O", "sync", "for ranks", "own code", "bytes")
        )
    ]
    rows = []
    shown = sorted(verdict.findings, key=lambda f: -f.seconds)[:_EPISODES_SHOWN]
    for finding in sorted(shown, key=lambda f: f.episode.start_ns):
        episode, rank = finding.episode, finding.slowest_rank
        step = f" {episode.step}" if episode.step >= 0 else ""
        parts = (rank.io_seconds, rank.sync_seconds, rank.rank_seconds, rank.between_seconds)
        rows.append(
            (
                f"{episode.name}{step} {episode.engine or ''}".rstrip(),
                format_seconds(finding.seconds),
                *(format_share(part, rank.seconds) if part else NONE for part in parts),
                format_bytes(episode.moved_bytes),
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
        titles = ("done after", "I/O", "sync", "for ranks", "own code", "bytes")
        columns = [Column(f"rank ({finding.episode.name})")]
        columns += [Column(title, right=True) for title in titles]
        ordered = sorted(finding.split, key=lambda one: -one.last_data_ns)
        rows = [
            (
                one.name.removeprefix("rank "),
                format_seconds((one.last_data_ns - finding.episode.start_ns) / 1e9),
                *(
                    format_seconds(seconds) if seconds else NONE
                    for seconds in (
                        one.io_seconds,
                        one.sync_seconds,
                        one.rank_seconds,
                        one.between_seconds,
                    )
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
    for finding in _longest(verdict):
        for op, shape in finding.shapes.items():
            is_data = op in ("read", "write")
            rows.append(
                (
                    f"{finding.episode.name}: {op}",
                    format_count(shape.count),
                    format_bytes(shape.typical_bytes) if op != "sync" else NONE,
                    format_seconds(shape.p50_us / 1e6),
                    format_seconds(shape.p99_us / 1e6),
                    f"{shape.depth:.1f}",
                    format_share(shape.aligned_share, 1) if is_data else NONE,
                    format_count(shape.joined_count) if is_data else NONE,
                )
            )
        others = [
            f"{op} {count:,}" for op, count in finding.ops.items() if op not in finding.shapes
        ]
        if others:
            rows.append((f"{finding.episode.name}: {', '.join(others)}", *[""] * len(titles)))
    if rows:
        terminal.print()
        _print_with_notes(terminal, columns, rows)


def _print_with_notes(
    terminal: Terminal, columns: Sequence[Column], rows: Sequence[Sequence[str]]
) -> None:
    """Print a table whose lines without numbers are notes below it."""
    print_table(terminal, columns, [row for row in rows if row[1]])
    for row in rows:
        if not row[1]:
            terminal.print(row[0])


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
        rows.append(
            (finding.episode.name, *(format_bytes(count) if count else NONE for count in counts))
        )
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
    for finding in _longest(verdict):
        name, slow = finding.episode.name, finding.slowest
        for request in slow.requests:
            extent = f"{format_bytes(request.length)} at {format_count(request.offset)}, "
            what = f"{extent if request.length else ''}{_file(request.path)}"
            what += f", {request.tensor}" if request.tensor else ""
            what += f", rank {request.rank}" if request.rank >= 0 else ""
            rows.append((f"{name}: {request.op}", format_seconds(request.seconds), what))
        rank = finding.slowest_rank
        if rank.gap_seconds > rank.seconds / 10:
            what = f"before {rank.gap_before or 'the end'}"
            what += f", {rank.name}" if len(finding.split) > 1 else ""
            rows.append((f"{name}: no I/O", format_seconds(rank.gap_seconds), what))
        for file in slow.files[:1]:
            held = f"{plural(file.requests, 'request')}, {format_bytes(file.bytes)}"
            rows.append(
                (f"{name}: file", format_seconds(file.seconds), f"{_file(file.path)}: {held}")
            )
        for tensor in slow.tensors[:1]:
            held = f"{plural(tensor.requests, 'request')}, {format_bytes(tensor.bytes)}"
            rows.append(
                (f"{name}: tensor", format_seconds(tensor.seconds), f"{tensor.name}: {held}")
            )
    if rows:
        terminal.print()
        print_table(terminal, columns, rows)


def _print_storage(terminal: Terminal, storage: Capability | None) -> None:
    if storage is None:
        return
    hours = (time.time() - storage.realtime_ns / 1e9) / 3600
    when = (
        "now"
        if hours < 0.1
        else f"{hours:.0f} h ago"
        if hours < 48
        else f"{hours / 24:.0f} days ago"
    )
    titles = ("size", "depth", "median each", "rate", "durable")
    columns = [Column("requests")]
    columns += [Column(title, right=True) for title in titles]
    rows = [
        (
            f"{point.op}, {'direct' if point.direct else 'buffered'}",
            format_bytes(point.size_bytes),
            str(point.depth),
            format_seconds(point.p50_us / 1e6),
            format_rate(point.rate, 1),
            format_rate(point.durable_rate, 1) if point.op == "write" else NONE,
        )
        for point in sorted(
            storage.points, key=lambda p: (p.op != "write", p.direct, p.size_bytes, p.depth)
        )
    ]
    terminal.print()
    terminal.print(f"this storage ({storage.file_system}, probed {when}):")
    print_table(terminal, columns, rows)


def _print_advice(terminal: Terminal, advice: Sequence[Advice]) -> None:
    if not advice:
        terminal.print()
        terminal.print("change: nothing that this trace gives evidence for")
        return
    terminal.print()
    terminal.print("What to change, and the command that proves it", style="bold")
    for number, one in enumerate(advice, 1):
        pairs = [(f"{number}.", one.change), ("", f"because {one.because}")]
        for line in facts(pairs, terminal.width):
            terminal.print(line)
        terminal.print(f"    {one.command}")
