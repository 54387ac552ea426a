"""The shape of requests in words: how many, how large, how many at a time, how long each."""

from __future__ import annotations

from iotrace.tools.render import NONE, format_bytes, format_count, format_rate, format_seconds
from iotrace.traces.verdict.shape import Shape
from iotrace.traces.verdict.verdict import Finding
from iotrace.traces.words import plural

_CAUSE = 0.4  # the part of the time from which on something is its cause
_SAME = 0.02  # a median size this near to the mean need not be told


def request_shape(shape: Shape) -> str:
    """Return `2,003 of 4.06 KiB, one at a time, 3.18 µs each = 1.01 GiB/s`.

    The first two multiply to the bytes; where the median is another size, it follows.
    """
    mean_bytes = shape.bytes / max(shape.count, 1)
    size = format_bytes(mean_bytes)
    if abs(mean_bytes - shape.typical_bytes) > _SAME * mean_bytes:
        size += f" mean ({format_bytes(shape.typical_bytes)} median)"
    depth = "one at a time" if shape.depth < 1.05 else f"{shape.depth:.1f} at a time"
    if not shape.busy_seconds:  # no times are known
        return f"{format_count(shape.count)} of {size}"
    each = format_seconds(shape.mean_us / 1e6)
    rate = f" = {format_rate(shape.bytes, shape.busy_seconds)}" if shape.rate else ""
    if shape.processes > 1:
        depth += f" in each of {plural(shape.processes, 'process')}"
        rate += " together" if rate else ""
    return f"{format_count(shape.count)} of {size}, {depth}, {each} each{rate}"


def paged_bytes(finding: Finding) -> str:
    """Return how much page faults brought in, `up to 257 MiB` where more is counted with it."""
    paging = finding.paging
    if paging is None or paging.read_bytes is None:
        return NONE
    return f"{'up to ' if paging.at_most else ''}{format_bytes(paging.read_bytes)}"


def round_trips(finding: Finding) -> str | None:
    """Return `503 round trips of 3.88 ms = 1.95 s of 2.06 s: their number, not their size`.

    `None` where that is not the cause.
    """
    shape = finding.data
    if shape is None or not shape.is_round_trips:
        return None
    if shape.rank_busy_seconds <= _CAUSE * finding.seconds:
        return None
    busy, whole = (format_seconds(s) for s in (shape.rank_busy_seconds, finding.seconds))
    each = format_seconds(shape.mean_us / 1e6)
    trips = plural(round(shape.rank_busy_seconds / (shape.mean_us / 1e6)), "round trip")
    return f"{trips} of {each} = {busy} of {whole}: their number, not their size"
