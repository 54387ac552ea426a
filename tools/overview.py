"""What is said of a trace first: what happened, how fast, in what shape, what is missing."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from iotrace.tools.replayed import Replayed, payload_of
from iotrace.traces.check import check_trace, find_gaps
from iotrace.traces.counters import SpanCounters, counters_of_spans
from iotrace.traces.metadata import Metadata
from iotrace.traces.schema import DATA_OPS, REQUEST_LAYERS
from iotrace.traces.summary import Summary, Traffic, summarize, traffic_of
from iotrace.traces.trace import Trace


@dataclass(frozen=True)
class Overview:
    """All that the first screen says about a trace.

    Attributes:
        location: as the user named it.
        summary: of the payload; `padding_bytes` besides it, of each data op.
        by_op: the figures of each data op's requests alone.
        op_counts: requests per op, the most frequent first.
        failed: requests per op that failed, or wrote less than asked, the most frequent first.
        missing: what the trace is known to lack, and what its rows do.
        contradictions: rows that cannot be true.
        counters: memory and page cache around each span.
        replayed: how it came to be, if it is a result.
    """

    location: str
    metadata: Metadata
    summary: Summary
    padding_bytes: dict[str, int]
    by_op: dict[str, Traffic]
    op_counts: dict[str, int]
    failed: dict[str, int]
    missing: tuple[str, ...]
    contradictions: tuple[str, ...]
    counters: tuple[SpanCounters, ...]
    replayed: Replayed | None


def look_at(location: str, trace: Trace) -> Overview:
    """Return the overview of `trace`."""
    replayed, moved = Replayed.of(trace.metadata), summarize(trace)
    summary = payload_of(moved, replayed)
    return Overview(
        location=location,
        metadata=trace.metadata,
        summary=summary,
        padding_bytes={
            "write": moved.bytes_written - summary.bytes_written,
            "read": moved.bytes_read - summary.bytes_read,
        },
        by_op={op: traffic_of(trace, op) for op in DATA_OPS},
        op_counts=_op_counts(trace),
        failed=_failed(trace),
        missing=tuple(dict.fromkeys([*summary.problems, *find_gaps(trace)])),
        contradictions=tuple(check_trace(trace, gaps=False)),
        counters=tuple(counters_of_spans(trace)),
        replayed=replayed,
    )


def to_json(overview: Overview) -> dict[str, Any]:
    """Return the overview as one JSON object."""
    summary, metadata = overview.summary, overview.metadata
    return {
        "trace": overview.location,
        "format_version": metadata.format_version,
        "command": list(metadata.command),
        "requests": summary.requests,
        "data_requests": summary.data_requests,
        "failed_requests": sum(overview.failed.values()),
        "ops": overview.op_counts,
        "tensors": summary.tensors,
        "bytes_written": summary.bytes_written,
        "bytes_read": summary.bytes_read,
        "paging": asdict(summary.paging) if summary.paging else None,
        "padding_bytes": sum(overview.padding_bytes.values()),
        "write_seconds": summary.write_seconds,
        "read_seconds": summary.read_seconds,
        "busy_seconds": {op: found.busy_seconds for op, found in overview.by_op.items()},
        "aligned_share": summary.aligned_share,
        "max_concurrency": summary.max_concurrency,
        "mean_concurrency": summary.mean_concurrency,
        "request_sizes": {
            op: [asdict(bucket) for bucket in buckets]
            for op, buckets in summary.request_sizes.items()
        },
        "files": [asdict(file) for file in summary.files],
        "engines": list(summary.engines),
        "steps": list(summary.steps),
        "processes": summary.processes,
        "ranks": list(summary.ranks),
        "clocks": metadata.clocks,
        "hosts": [asdict(host) for host in metadata.hosts],
        "mounts": [asdict(mount) for mount in metadata.mounts],
        "recorded_on": asdict(metadata.recorded_on),
        "completeness": {
            "complete": not overview.missing,
            "problems": list(overview.missing),
            **asdict(metadata.completeness),
        },
        "contradictions": list(overview.contradictions),
        "counters": [asdict(one) for one in overview.counters],
        "replayed": asdict(overview.replayed) if overview.replayed else None,
    }


def _op_counts(trace: Trace) -> dict[str, int]:
    return _per_op(trace.layer(*REQUEST_LAYERS))


def _per_op(requests: Trace) -> dict[str, int]:
    codes, ops = requests.codes("op")
    counts = np.bincount(codes[codes >= 0], minlength=len(ops)).tolist()
    found = [(op, count) for op, count in zip(ops, counts, strict=True) if count]
    return dict(sorted(found, key=lambda item: -item[1]))


def _failed(trace: Trace) -> dict[str, int]:
    """Count what failed or was cut short; a short read is the end of a file, not a failure."""
    requests = trace.layer(*REQUEST_LAYERS)
    result, length = requests.ints("result", null=0), requests.ints("length", null=0)
    writes = requests.row_mask(op="write")
    known = requests.valid("result")
    return _per_op(requests.where(known & ((result < 0) | (writes & (result < length)))))
