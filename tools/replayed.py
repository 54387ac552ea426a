"""What a result says of how it came to be: the executor, the transforms, the time of each run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeGuard

from iotrace.replay.statistics import estimate
from iotrace.tools.render import format_bytes, format_range, format_seconds
from iotrace.tools.spread import spread_title
from iotrace.traces.metadata import Metadata
from iotrace.traces.summary import Summary
from iotrace.traces.words import plural

TIMES = {
    "source_seconds": "copy from source",
    "write_seconds": "write, completed",
    "drain_seconds": "drain",
    "durable_seconds": "write, durable",
    "allocate_seconds": "allocate",
    "read_seconds": "read",
}

_PAYLOAD = {"write": "bytes_written", "read": "bytes_read"}
_MAX_RUNS = 10_000  # of more, the interval takes minutes
_MAX_NUMBER = 1 << 63


@dataclass(frozen=True)
class Replayed:
    """How a result came to be.

    Attributes:
        executor: what ran the requests.
        transforms: what reshaped them, in order.
        seconds: per time of `TIMES` that is known, what each run took that did not fail.
        problems: what failed or was done otherwise than asked.
        padding_bytes: moved besides the payload; rows do not tell them apart.
        payload_bytes: of it written and read, by op, where that is told.
    """

    executor: str
    transforms: tuple[str, ...]
    seconds: dict[str, tuple[float, ...]]
    problems: tuple[str, ...]
    padding_bytes: int = 0
    payload_bytes: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, metadata: Metadata) -> Replayed | None:
        """Return what the metadata of a result say, as far as it can be read; None: no result."""
        told = metadata.extra.get("replay")
        if not isinstance(told, dict):
            return None
        times = told.get("replayed")
        seconds = {}
        for name in TIMES:
            runs = times.get(name) if isinstance(times, dict) else None
            whole = [r for r in runs if r is not None] if isinstance(runs, list) else []
            if 0 < len(whole) <= _MAX_RUNS and all(_is_number(r) for r in whole):
                seconds[name] = tuple(map(float, whole))
        problems = (*_texts(told.get("errors")), *_texts(told.get("degraded")))
        told_bytes = times if isinstance(times, dict) else {}
        padding = told_bytes.get("padding_bytes")
        payload = {op: told_bytes.get(name) for op, name in _PAYLOAD.items()}
        return cls(
            executor=str(told.get("executor")),
            transforms=_texts(told.get("transforms")),
            seconds=seconds,
            problems=problems,
            padding_bytes=int(padding) if _is_number(padding) else 0,
            payload_bytes={op: int(n) for op, n in payload.items() if _is_number(n)},
        )

    @property
    def runs(self) -> int:
        """How many runs were timed."""
        return max(map(len, self.seconds.values()), default=1)

    def facts(self) -> Iterator[tuple[str, str]]:
        """Yield it as (label, sentence)."""
        steps = ", ".join(self.transforms) or "the recorded requests"
        yield "replayed", f"{steps}; by {self.executor}"
        if self.runs > 1:
            yield "rows", f"of the median one of {plural(self.runs, 'run')}; the times of all:"
        if self.padding_bytes:
            padding = f"{format_bytes(self.padding_bytes)} besides the payload"
            yield "padding", f"{padding}, in the sizes of requests and files"
        for name, label in TIMES.items():
            runs = self.seconds.get(name, ())
            if any(runs):
                found = estimate(runs)
                scatter = format_range(format_seconds(found.low), format_seconds(found.high))
                spread = f" ({spread_title([found.kind])} {scatter})" if len(runs) > 1 else ""
                yield label, f"{format_seconds(found.median)}{spread}"


def payload_of(summary: Summary, replayed: Replayed | None) -> Summary:
    """Return `summary` with the payload alone as its bytes; rows count what aligning added too."""
    if replayed is None or not replayed.padding_bytes:
        return summary
    told = replayed.payload_bytes
    return replace(
        summary,
        bytes_written=min(summary.bytes_written, told.get("write", summary.bytes_written)),
        bytes_read=min(summary.bytes_read, told.get("read", summary.bytes_read)),
    )


def _is_number(value: object) -> TypeGuard[float]:
    """Return whether it can be a time or a size: a result may come from a stranger."""
    return isinstance(value, float | int) and 0 <= value < _MAX_NUMBER


def _texts(listed: object) -> tuple[str, ...]:
    return tuple(map(str, listed)) if isinstance(listed, list) else ()
