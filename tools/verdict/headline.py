"""The verdict on a trace in words: at most ten lines, each to fit the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from iotrace.replay.probe import Capability
from iotrace.tools.advice.advice import Advice
from iotrace.tools.render import (
    file_name,
    format_bytes,
    format_rate,
    format_seconds,
    format_share,
    shorten,
)
from iotrace.tools.replayed import Replayed
from iotrace.tools.verdict.durable import durable
from iotrace.tools.verdict.failed import first_failure
from iotrace.tools.verdict.prediction import predict
from iotrace.tools.verdict.shapes import paged_bytes, request_shape, round_trips
from iotrace.tools.verdict.wall_time import LATE, time_of
from iotrace.traces.merged_clocks import clocks_told
from iotrace.traces.metadata import Metadata
from iotrace.traces.phases import Phase
from iotrace.traces.verdict.verdict import Finding, Verdict
from iotrace.traces.words import plural

_LARGE_BYTES = 1 << 20  # the largest that is probed
_SURE = 0.05  # a scatter that need not be told
_CACHE_FACTOR = 1.5  # faster than storage by this: the page cache


def headline(
    location: str,
    metadata: Metadata,
    verdict: Verdict,
    advice: Sequence[Advice],
    storage: Capability | None,
) -> Iterator[tuple[str, str]]:
    """Yield (label, sentence), the most telling first; each is to fit a line of 80 columns.

    Where there are several saves, loads or engines, a sentence says which of them it is of.
    """
    saves, loads = verdict.of(Phase.SAVE), verdict.of(Phase.LOAD)
    save, load = (max(found, key=lambda f: f.seconds, default=None) for found in (saves, loads))
    yield "trace", _what(location, metadata, verdict)
    if clocks := clocks_told(metadata):
        yield "times", clocks
    if verdict.failures.first_error or verdict.failures.first_short:
        yield "error", first_failure(verdict.failures)
    several = _needs_names(verdict)
    for findings, worst in ((saves, save), (loads, load)):
        if worst is None:
            continue
        about = _about(worst, several)
        unknown = f"{about}its times are not known"
        time = time_of(worst, findings, several) if worst.seconds else unknown
        yield worst.episode.name, time
        if findings is saves:
            yield from _background(worst, several)
        if worst.data is not None:
            cached = _cached(worst, verdict, storage) if findings is loads else ""
            yield f"{worst.data.op}s", about + request_shape(worst.data) + cached
            cause = round_trips(worst)
            if cause is not None:
                yield "cause", about + cause
        if worst.paging is not None:
            yield "faults", about + str(worst.paging)
        elif worst.data is None and findings is loads and verdict.mapped_only:
            mapped = plural(verdict.mapped_only, "file")
            unseen = "what was read through it, and when, was not seen"
            warm = all(one.is_in_memory for one in loads)
            read = "all of it was in memory already" if warm else unseen
            yield "reads", f"{mapped} mapped: {read}"
    if storage is not None:
        yield from _capabilities(storage, save, load)
    if saves or loads:
        replayed = Replayed.of(metadata)
        padding_bytes = replayed.padding_bytes if replayed else 0
        all_bytes = int(verdict.requests.moved.sum())  # whose padding is known, no less
        alone = [one.amplification.moved_bytes for one in verdict.findings] == [all_bytes]
        moved = [
            (f"{one.episode.label} " if several else "")
            + _bytes(one, verb, padding_bytes if alone else 0)
            for one, verb in ((save, "wrote"), (load, "read"))
            if one
        ]
        if padding_bytes and not alone:
            moved.append(f"{format_bytes(padding_bytes)} of all that was moved is padding")
        yield "bytes", "; ".join(moved)
    if save is not None:
        yield "durable", durable(saves, several)
    told = [one for one in (save, load) if one]
    yield from _memory(told, several)
    slow = max(
        (one for one in told if one.seconds and one.slowest.requests),
        key=lambda one: one.slowest.requests[0].seconds,
        default=None,
    )
    if slow is not None:
        yield "slowest", _about(slow, several) + _slowest(slow)
    if advice:
        yield "change", change_of(advice[0])


def change_of(advice: Advice) -> str:
    """Return `save 3 (dcp): what to change there`."""
    return f"{advice.about}: {advice.change}" if advice.about else advice.change


def _needs_names(verdict: Verdict) -> bool:
    """Return whether `the save` and `the load` do not say which."""
    kinds = [finding.episode.phase for finding in verdict.findings]
    engines = {finding.episode.engine for finding in verdict.findings}
    return len(kinds) > len(set(kinds)) or len(engines) > 1


def _about(finding: Finding, several: bool) -> str:
    return f"{finding.episode.label}: " if several else ""


def _what(location: str, metadata: Metadata, verdict: Verdict) -> str:
    saves, loads = verdict.of(Phase.SAVE), verdict.of(Phase.LOAD)
    engines = dict.fromkeys(f.episode.engine for f in (*saves, *loads) if f.episode.engine)
    parts = [", ".join(engines) or "no engine recognised"]
    parts += [plural(len(saves), "save")] if saves else []
    parts += [plural(len(loads), "load")] if loads else []
    if not parts[1:]:
        parts.append("no save and no load among its requests")
    several = verdict.ranks or verdict.processes
    parts += [plural(several, "rank" if verdict.ranks else "process")] if several > 1 else []
    systems = dict.fromkeys(mount.file_system for mount in metadata.mounts if mount.file_system)
    parts += [", ".join(systems)] if systems else []
    return f"{shorten(location, 32)}: {', '.join(parts)}"


def _capabilities(
    storage: Capability, save: Finding | None, load: Finding | None
) -> Iterator[tuple[str, str]]:
    """Yield what the storage gives to large requests, of the ops that occur."""
    parts, depths = [], []
    for op, used in (("write", save), ("read", load)):
        best = storage.best(op, _LARGE_BYTES)
        if used and best is not None:
            way = "direct" if best.direct else "buffered"
            scatter = best.scatter
            about = f" ±{format_share(scatter, 1)}" if scatter and scatter > _SURE else ""
            parts.append(f"{way} {op}s {format_rate(best.durable_bytes_per_second, 1)}{about}")
            depths.append(best.depth)
    if parts:
        depth = ", ".join(map(str, dict.fromkeys(depths)))
        yield "here", f"{format_bytes(_LARGE_BYTES)}: {', '.join(parts)} (depth {depth})"
    for worst in (save, load):
        told = predict(worst, storage) if worst else None
        if worst and told:
            trips = plural(told.round_trips, "round trip")
            seconds = format_seconds(told.seconds)
            yield "", f"the same {worst.episode.name} takes {seconds} there: {trips}"


def _bytes(finding: Finding, verb: str, padding_bytes: int) -> str:
    """Return the payload of a save or load against the bytes needed, the padding, the opens."""
    amount = finding.amplification
    payload_bytes = amount.moved_bytes - padding_bytes
    notes = []
    needed = amount.tensor_bytes - amount.spare_bytes
    if needed > 0 and verb == "wrote":
        factor = payload_bytes / needed
        times = f"{factor:.3g}x" if factor < 1000 else f"{factor:,.0f}x"
        notes.append(f"{times} the tensors")
    elif verb == "read" and amount.over_ranks:
        notes.append(f"{amount.over_ranks:.3g}x")
    if amount.repeated_bytes:
        notes.append(f"{format_bytes(amount.repeated_bytes)} twice")
    if amount.most_openers > 1:
        known = any(one.rank >= 0 for one in finding.split)
        openers = plural(amount.most_openers, "rank" if known else "process")
        notes.append(f"{file_name(amount.most_opened)} opened by {openers}")
    elif amount.opens != amount.files:
        notes.append(f"{plural(amount.opens, 'open')} of {plural(amount.files, 'file')}")
    elif amount.opens:  # the job may have opened it before
        notes.append(plural(amount.opens, "open"))
    parts = [format_bytes(payload_bytes)] if payload_bytes or not finding.paging else []
    parts += [f"{format_bytes(padding_bytes)} of padding"] if padding_bytes else []
    parts += [f"{paged_bytes(finding)} by page faults"] if finding.paging else []
    told = f" ({', '.join(notes)})" if notes else ""
    return f"{verb} {' and '.join(parts)}{told}"


def _cached(load: Finding, verdict: Verdict, storage: Capability | None) -> str:
    """Return what is known of the page cache's part in the reads, to be appended."""
    share = verdict.cached_read_share
    if share is not None and share > 0.5:
        whole = " of all loads" if len(verdict.of(Phase.LOAD)) > 1 else ""
        return f" (>= {format_share(share, 1)}{whole} cached)".replace(">= >", "> ")
    best = storage.best("read") if storage else None
    read = load.shapes.get("read")
    rate = read.rate or 0 if read else 0
    if best is not None and rate > _CACHE_FACTOR * best.bytes_per_second:
        return " (page cache: storage gives less)"
    return ""


def _background(save: Finding, several: bool) -> Iterator[tuple[str, str]]:
    one = save.background
    if one is None or not one.asynchronous:
        return
    hidden = format_share(one.hidden_seconds, one.io_seconds)
    text = f"blocked the job for {format_seconds(one.blocked_seconds)}"
    if one.waited_seconds:
        call, wait = map(format_seconds, (one.call_seconds, one.waited_seconds))
        text += f" (call {call}, wait {wait})"
    yield (
        "async",
        f"{_about(save, several)}{text} of {format_seconds(save.seconds)}, the rest in the "
        f"background: {hidden} of {format_seconds(one.io_seconds)} of I/O",
    )


def _memory(findings: Sequence[Finding], several: bool) -> Iterator[tuple[str, str]]:
    """Yield what the one that grew the job most left in memory."""
    known = [(f.memory.grown_bytes, f.episode, f.memory) for f in findings if f.memory]
    if not known:
        return
    grown, episode, left = max(known, key=lambda one: one[0])
    text = episode.label if several else episode.name
    text += f" {'+' if grown >= 0 else '-'}{format_bytes(abs(grown))}"
    most = max(left.resident_bytes, left.peak_bytes or 0)
    text += f", {'peak' if left.peak_bytes else 'resident'} {format_bytes(most)}"
    text += f" of {format_bytes(left.limit_bytes)}" if left.limit_bytes else ""
    if left.cached_bytes is not None:
        dirty = left.dirty_bytes or 0
        share = "all" if dirty >= left.cached_bytes else format_bytes(dirty)
        text += f"; cached {format_bytes(left.cached_bytes)}"
        text += f" ({share} dirty)" if dirty else ""
    yield "memory", text


def _slowest(finding: Finding) -> str:
    request = finding.slowest.requests[0]
    size = f" of {format_bytes(request.length)}" if request.length else ""
    is_placed = request.length and request.offset is not None
    place = f" at {format_bytes(request.offset)}" if is_placed else ""
    text = (
        f"{request.op}{size}{place}, {file_name(request.path)}: {format_seconds(request.seconds)}"
    )
    text += f", tensor {request.tensors}" if request.tensors else ""
    if request.rank >= 0:
        text += f"; rank {request.rank}"
    if finding.imbalance is not None and finding.imbalance > 1 + LATE:
        heavy = max(finding.split, key=lambda one: one.bytes)
        text += f"; {heavy.name} moves {finding.imbalance:.2g}x the mean"
    return text
