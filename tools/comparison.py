"""A replay beside its recording: counts, bytes, times, bandwidth, latency."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from iotrace.replay.measure import Moved, rank_seconds
from iotrace.replay.plan import Applied, Note
from iotrace.replay.result import Outcome, RecordedSummary
from iotrace.replay.statistics import INTERVAL_RUNS, estimate, latency_us
from iotrace.replay.tally import Tally
from iotrace.replay.verify import unproved_bytes
from iotrace.tools.render import (
    NONE,
    Column,
    Terminal,
    format_bytes,
    format_count,
    format_range,
    format_rate,
    format_ratio,
    format_seconds,
    print_facts,
    print_problems,
    print_table,
)
from iotrace.tools.spread import INTERVAL
from iotrace.traces.phases import Phase, ends_ns
from iotrace.traces.schema import DATA_OPS, REQUEST_LAYERS
from iotrace.traces.trace import Trace
from iotrace.traces.words import plural

Cells = tuple[str, str, str, str, str]  # label, recorded, replayed, interval, ratio


@dataclass(frozen=True)
class Setting:
    """How a replay was asked for; what its outcome does not say itself.

    Attributes:
        trace: as the user named it.
        root: the folder replayed in.
        queue_depth: requests in flight per stream.
        cold: whether files were to be put out of the page cache before reads.
        missing: what the trace is known to lack.
    """

    trace: str
    root: str
    queue_depth: int
    cold: bool
    missing: tuple[str, ...] = ()


def recorded_latency_us(trace: Trace) -> Mapping[str, float]:
    """Return p50, p99 and maximum of the recorded reads' and writes' latencies, in microseconds."""
    data = trace.where(trace.row_mask(layer=REQUEST_LAYERS, op=DATA_OPS))
    return latency_us((ends_ns(data) - data.ints("start_ns"))[data.valid("end_ns")])


def print_outcome(
    terminal: Terminal,
    outcome: Outcome,
    setting: Setting,
    recorded_us: Mapping[str, float],
) -> None:
    """Print what went wrong, then the comparison.

    Args:
        terminal: where to.
        outcome: of the replay.
        setting: how it was asked for.
        recorded_us: latencies of the recording, see `recorded_latency_us`.
    """
    print_facts(terminal, _setting(outcome, setting))
    _print_troubles(terminal, outcome.errors, outcome.degraded, outcome.simulated, setting.missing)
    terminal.print()
    lines = [*_counts(outcome.recorded, outcome.repetitions[-1].moved)]
    lines += [*_times(outcome), *_latencies(outcome, recorded_us)]
    runs = len(outcome.whole)
    spread = INTERVAL if runs >= INTERVAL_RUNS else f"range of {runs} runs"
    titles = ("", "recorded", "replayed", spread, "ratio")
    shown = [i for i in range(len(titles)) if titles[i] != spread or runs > 1]
    columns = [Column(titles[i], right=i > 0) for i in shown]
    print_table(terminal, columns, [[line[i] for i in shown] for line in lines])
    terminal.print()
    print_facts(terminal, _fidelity(outcome))


def print_tally(terminal: Terminal, tally: Tally, trace: str) -> None:
    """Print what a dry run tells.

    Args:
        terminal: where to.
        tally: what it tells.
        trace: as the user named it.
    """
    asked = _asked(trace, tally.applied, tally.notes)
    print_facts(terminal, [*asked, ("dry run", "nothing was touched")])
    _print_troubles(terminal, simulated=tally.simulated, missing=tally.missing)
    terminal.print()
    columns = [Column(title, right=bool(title)) for title in ("", "recorded", "planned", "ratio")]
    lines = _counts(tally.recorded, tally.planned)
    print_table(terminal, columns, [[*line[:3], line[4]] for line in lines])


def _asked(
    trace: str, applied: Sequence[Applied], notes: Sequence[Note]
) -> Iterator[tuple[str, str]]:
    yield "replay", trace
    yield "transforms", ", ".join(map(describe_transform, applied)) or "none: the recorded requests"
    for note in notes:
        yield "note", describe_note(note)


def _setting(outcome: Outcome, setting: Setting) -> Iterator[tuple[str, str]]:
    yield from _asked(setting.trace, outcome.plan.history[1:], outcome.plan.notes)
    parts = [outcome.executor, f"queue depth {setting.queue_depth}", f"in {setting.root}"]
    if outcome.submission_thread:
        parts.insert(1, "submitted by a kernel thread")
    if outcome.workers > 1:
        parts.insert(1, plural(outcome.workers, "worker"))
    if outcome.uncached:
        parts.append("what is not direct leaves the page cache at once")
    if outcome.plan.counts().bytes_read:
        if not setting.cold:
            parts.append("reads as the page cache has the files")
        elif outcome.cold:  # else it is among what was not as asked
            parts.append("cold reads")
    yield "run", ", ".join(parts)
    if len(outcome.whole) > 1:
        yield "figures", f"medians of {plural(len(outcome.whole), 'run')}"
    if outcome.recorded.lent_memory and outcome.plan.counts().bytes_written:
        yield (
            "compare",
            "replays with replays: the recording's memory was lent by a hypervisor, so its"
            " buffered writes took longer than repeated ones do",
        )
    if outcome.verified is not None:
        yield "verified", _proof(outcome) if outcome.verified else "NO, see FAILED"
    if outcome.workspace is not None:
        yield "kept in", outcome.workspace


def _print_troubles(
    terminal: Terminal,
    failed: Sequence[str] = (),
    degraded: Sequence[str] = (),
    simulated: Sequence[str] = (),
    missing: Sequence[str] = (),
) -> None:
    for title, problems in (
        ("FAILED", failed),
        ("DEGRADED: not what was asked for", degraded),
        ("SIMULATED: not what this file system does by itself", simulated),
        ("INCOMPLETE: what the trace lacks is not replayed either", missing),
    ):
        if problems:
            terminal.print()
            print_problems(terminal, title, problems)


def _proof(outcome: Outcome) -> str:
    unproved, unlike = unproved_bytes(outcome.plan), len(outcome.plan.unlike)
    proven = f"of all but {plural(unlike, 'file')}, see DEGRADED, " if unlike else ""
    proven += "every byte is in its place"
    if not unproved:
        return proven
    return (
        f"{proven}; {plural(unproved, 'byte')} written over the same bytes would be so without"
        " that write too"
    )


def describe_transform(applied: Applied) -> str:
    """Return `coalesce (size 8 MiB, gather copy)`."""
    parameters = ", ".join(_parameter(name, value) for name, value in applied.parameters)
    return f"{applied.name} ({parameters})" if parameters else applied.name


def _parameter(name: str, value: object) -> str:
    if name.endswith("_bytes") and isinstance(value, int):
        return f"{name.removesuffix('_bytes')} {format_bytes(value)}"
    return f"{name} {', '.join(map(str, value)) if isinstance(value, tuple) else value}"


def describe_note(note: Note) -> str:
    """Return `reads left out: 12 (3 MiB)`."""
    counted = f"{note.what}: {format_count(note.count)}" if note.count else note.what
    return f"{counted} ({format_bytes(note.size_bytes)})" if note.size_bytes else counted


def _counts(recorded: RecordedSummary | Moved, done: Moved) -> Iterator[Cells]:
    for label, before, after in (
        ("requests", recorded.requests, done.requests),
        ("reads and writes", recorded.data_requests, done.data_requests),
        ("files", recorded.files, done.files),
    ):
        yield label, format_count(before), format_count(after), "", format_ratio(before, after)
    for label, before, after in (
        ("bytes written", recorded.bytes_written, done.bytes_written),
        ("bytes read", recorded.bytes_read, done.bytes_read),
    ):
        yield label, format_bytes(before), format_bytes(after), "", format_ratio(before, after)
    if done.padding_bytes:
        yield "padding besides", NONE, format_bytes(done.padding_bytes), "", NONE


def _times(outcome: Outcome) -> Iterator[Cells]:
    recorded, runs = outcome.recorded, outcome.whole
    done = outcome.repetitions[-1].moved
    if recorded.bytes_written or done.bytes_written:
        written = (recorded.bytes_written, done.bytes_written)
        seconds = [one.write_seconds for one in runs]
        durable = [one.durable_seconds for one in runs]
        copied = [one.source_seconds for one in runs]
        if any(copied):
            yield _time("copy from source", None, copied)
            yield _rate("", written, None, copied)
        drained = [one.drain_seconds for one in runs]
        label = "write, staged" if any(drained) else "write, completed"
        yield _time(label, recorded.write_seconds, seconds)
        yield _rate("", written, recorded.write_seconds, seconds)
        if any(drained):
            yield _time("drain", None, drained)
        yield _time("write, durable", None, durable)
        yield _rate("", written, None, durable)
    if recorded.bytes_read or done.bytes_read:
        read = (recorded.bytes_read, done.bytes_read)
        seconds = [one.read_seconds for one in runs]
        allocate = [one.allocate_seconds for one in runs]
        if any(allocate):
            yield _time("allocate", None, allocate)
        yield _time("read", recorded.read_seconds, seconds)
        yield _rate("", read, recorded.read_seconds, seconds)
    yield from _over_ranks(outcome)


def _over_ranks(outcome: Outcome) -> Iterator[Cells]:
    """Yield the fastest and the slowest rank of the last run, where there are several."""
    last = outcome.repetitions[-1]
    which = ", last run" if len(outcome.repetitions) > 1 else ""
    for label, phase in (("write, by rank", Phase.SAVE), ("read, by rank", Phase.LOAD)):
        seconds = rank_seconds(outcome.plan, last.timings, phase).values()
        if len(seconds) > 1:
            low, high = format_seconds(min(seconds)), format_seconds(max(seconds))
            yield f"{label}{which}", NONE, format_range(low, high), "", NONE


def _fidelity(outcome: Outcome) -> Iterator[tuple[str, str]]:
    """Yield how like the recording the last run was."""
    late = outcome.repetitions[-1].lateness_us
    if late is not None:
        shown = [f"{key} {format_seconds(late[key] / 1e6)}" for key in ("p50", "p99", "max")]
        yield "late", ", ".join(shown)
    found = outcome.fidelity
    if found is None:
        return
    yield (
        "fidelity",
        f"of {plural(found.requests, 'request')}, {format_count(found.order_inversions)} started "
        f"before an earlier one and {format_count(found.result_mismatches)} moved other bytes",
    )
    gaps, flight = found.inter_arrival_us, found.in_flight
    yield (
        "",
        f"start to start, p50: {format_seconds(gaps.replayed['p50'] / 1e6)} "
        f"(recorded {format_seconds(gaps.recorded['p50'] / 1e6)}); in flight, mean: "
        f"{flight.replayed['mean']:.1f} (recorded {flight.recorded['mean']:.1f})",
    )


def _latencies(outcome: Outcome, recorded_us: Mapping[str, float]) -> Iterator[Cells]:
    replayed_us = latency_us(outcome.latencies_ns())
    alike = _are_alike(outcome)
    for key in ("p50", "p99", "max"):
        before, after = recorded_us[key], replayed_us[key]
        yield (
            f"latency {key}",
            format_seconds(before / 1e6) if before else NONE,
            format_seconds(after / 1e6) if after else NONE,
            "",
            format_ratio(before, after) if alike else NONE,
        )


def _are_alike(outcome: Outcome) -> bool:
    """Return whether as many requests moved as many bytes; others are not to be compared."""
    recorded, done = outcome.recorded, outcome.repetitions[-1].moved
    names = ("data_requests", "bytes_written", "bytes_read")
    same = all(getattr(recorded, name) == getattr(done, name) for name in names)
    return same and not done.padding_bytes


def _time(label: str, before: float | None, runs: Sequence[float]) -> Cells:
    if not any(runs):
        return label, _seconds(before), NONE, "", NONE
    found = estimate(runs)
    interval = format_range(format_seconds(found.low), format_seconds(found.high))
    return (
        label,
        _seconds(before),
        _seconds(found.median),
        interval,
        format_ratio(before, found.median),
    )


def _rate(label: str, moved: tuple[int, int], before: float | None, runs: Sequence[float]) -> Cells:
    """Return the bandwidth of (recorded, replayed) bytes over the times that `_time` shows."""
    old = format_rate(moved[0], before)
    if not all(runs) or not runs:
        return label, old, NONE, "", NONE
    found = estimate(runs)
    interval = format_range(format_rate(moved[1], found.high), format_rate(moved[1], found.low))
    ratio = format_ratio(moved[0] / before, moved[1] / found.median) if before else NONE
    return label, old, format_rate(moved[1], found.median), interval, ratio


def _seconds(seconds: float | None) -> str:
    return format_seconds(seconds) if seconds else NONE
