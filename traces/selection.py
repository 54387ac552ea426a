"""Take a part of a trace: some steps, ranks or spans, and of the metadata what belongs to it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from iotrace.traces.columns import IntArray, Mask
from iotrace.traces.errors import IotraceError
from iotrace.traces.metadata import Completeness, HistoryEntry, Metadata
from iotrace.traces.phases import ends_ns
from iotrace.traces.trace import Trace

_NAMED_AT_MOST = 10  # values listed by an error


class SelectionError(IotraceError):
    """The trace has nothing of what was selected."""


@dataclass(frozen=True)
class Selection:
    """Which rows to keep; `None` keeps all.

    Attributes:
        steps: ordinals of checkpoints.
        ranks: global ranks.
        spans: ops of spans, such as `save`: what began inside one on the same process, and the
            span itself.
    """

    steps: tuple[int, ...] | None = None
    ranks: tuple[int, ...] | None = None
    spans: tuple[str, ...] | None = None

    def __str__(self) -> str:
        """Return it in words, empty when all is kept."""
        given = (("step", self.steps), ("rank", self.ranks), ("span", self.spans))
        return ", ".join(f"{name} {' '.join(map(str, v))}" for name, v in given if v is not None)

    def __call__(self, trace: Trace) -> Trace:
        """Return the selected rows; the processes that are left are numbered anew.

        Raises:
            SelectionError: a step, rank or span that the trace does not have.
        """
        if not str(self):
            return trace
        keep = np.ones(len(trace), np.bool_)
        if self.steps is not None:
            keep &= _among(trace.ints("step"), self.steps, "step")
        if self.ranks is not None:
            keep &= _among(trace.ints("rank"), self.ranks, "rank")
        if self.spans is not None:
            keep &= _inside_spans(trace, self.spans)
        if not keep.any():
            raise SelectionError(f"the trace has no rows of {self} together; select less")
        part = _with_processes(trace.where(keep))
        return part.with_metadata(part.metadata.with_history(HistoryEntry("select", str(self))))


def _among(values: IntArray, wanted: tuple[int, ...], what: str) -> Mask:
    found = np.unique(values[values >= 0])
    for value in wanted:
        if value not in found:
            raise SelectionError(
                f"the trace has no {what} {value}; {_listed(found.tolist(), what)}"
            )
    return np.isin(values, wanted)


def _listed(values: Iterable[object], what: str) -> str:
    texts = [str(value) for value in values]
    if not texts:
        return f"its rows have no {what}"
    more = " ..." if len(texts) > _NAMED_AT_MOST else ""
    return f"it has {', '.join(texts[:_NAMED_AT_MOST])}{more}"


def _inside_spans(trace: Trace, ops: tuple[str, ...]) -> Mask:
    """Return which rows begin inside a span of one of `ops` on their process."""
    is_span = trace.row_mask(layer="span")
    at_hand = set(trace.where(is_span).strings("op"))
    for op in ops:
        if op not in at_hand:
            raise SelectionError(
                f"the trace has no span {op!r}; {_listed(sorted(map(str, at_hand)), 'span')}"
            )
    chosen = is_span & trace.row_mask(op=ops)
    process, start_ns, end_ns = trace.ints("process"), trace.ints("start_ns"), ends_ns(trace)
    keep = chosen.copy()
    for one in np.unique(process[chosen]).tolist():
        spans = chosen & (process == one)
        order = np.argsort(start_ns[spans], kind="stable")
        starts = start_ns[spans][order]
        ends = np.maximum.accumulate(end_ns[spans][order])
        own = process == one
        place = np.searchsorted(starts, start_ns, side="right") - 1
        inside = (place >= 0) & (start_ns <= ends[place.clip(0)])
        keep |= own & inside & ~is_span
    return keep


def _with_processes(trace: Trace) -> Trace:
    """Return the trace with the metadata of the processes and files that it still has."""
    process = trace.ints("process")
    metadata = trace.metadata
    used = np.unique(process)
    used = used[(used >= 0) & (used < len(metadata.processes))]
    place = np.full(len(metadata.processes) + 1, -1, np.int64)
    place[used] = np.arange(len(used))
    known = np.isin(process, used)
    column = np.where(known, place[np.where(known, process, -1)], process)
    pairs = np.unique(np.stack([process, trace.ints("file")]), axis=1).T.tolist()
    completeness = _part(metadata.completeness, place, {(a, b) for a, b in pairs})
    part = replace(
        metadata,
        processes=tuple(metadata.processes[i] for i in used.tolist()),
        completeness=completeness,
    )
    return trace.with_columns({"process": column}).with_metadata(_used_hosts(part))


def _part(whole: Completeness, place: IntArray, files: set[tuple[int, int]]) -> Completeness:
    processes = len(place) - 1
    kept = [p for p in whole.processes if 0 <= p.process < processes and place[p.process] >= 0]
    return replace(
        whole,
        files=tuple(
            replace(f, process=int(place[f.process]))
            for f in whole.files
            if (f.process, f.file) in files and 0 <= f.process < processes
        ),
        processes=tuple(replace(p, process=int(place[p.process])) for p in kept),
    )


def _used_hosts(metadata: Metadata) -> Metadata:
    """Return the metadata without the hosts that no process is left on."""
    used = sorted({p.host for p in metadata.processes if 0 <= p.host < len(metadata.hosts)})
    if not metadata.processes:
        return metadata
    place = {host: i for i, host in enumerate(used)}
    return replace(
        metadata,
        hosts=tuple(metadata.hosts[i] for i in used),
        mounts=tuple(replace(m, host=place[m.host]) for m in metadata.mounts if m.host in place),
        processes=tuple(replace(p, host=place.get(p.host, -1)) for p in metadata.processes),
    )
