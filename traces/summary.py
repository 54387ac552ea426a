"""What happened in a trace, in numbers."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from iotrace.traces.checkpoint_steps import checkpoint_steps
from iotrace.traces.columns import IntArray
from iotrace.traces.elapsed import busy_ns
from iotrace.traces.file_summaries import FileSummaries
from iotrace.traces.paging import Paging, paging_of
from iotrace.traces.phases import Phase, ends_ns, phases, timed_seconds
from iotrace.traces.schema import DATA_OPS, REQUEST_LAYERS
from iotrace.traces.trace import Trace

TENSORS_ALONE = "the trace holds tensors and no requests"
ALIGNMENT_BYTES = 4096  # what O_DIRECT asks for on most devices


@dataclass(frozen=True)
class SizeBucket:
    """Requests of at least `least_bytes` and less than twice that (0: of no bytes)."""

    least_bytes: int
    requests: int
    bytes: int


@dataclass(frozen=True)
class Traffic:
    """The requests of one data op, in numbers; `Summary` has the same of both together.

    Attributes:
        busy_seconds: time with at least one of them in flight.
    """

    requests: int
    aligned_share: float | None
    max_concurrency: int
    mean_concurrency: float
    busy_seconds: float


@dataclass(frozen=True)
class Summary:
    """The requests of a trace, or of a result, in numbers.

    Attributes:
        requests: all requests; `data_requests` are the reads and writes among them.
        tensors: rows of the layer `tensor`.
        files: in the order of their first use.
        bytes_written, bytes_read: as the completions told.
        engines: in the order of their first row.
        steps: ordinals of the checkpoints, sorted; `saves` and `loads` are counted apart.
        processes: processes with at least one row.
        ranks: global ranks, sorted; empty outside a launcher.
        request_sizes: per data op, by ascending size; by the length asked for.
        aligned_share: part of the data requests with offset and length a multiple of
            `ALIGNMENT_BYTES`; `None` without any.
        max_concurrency: most data requests in flight at a time.
        mean_concurrency: data requests in flight, averaged over the time with at least one.
        write_seconds, read_seconds: see `iotrace.traces.elapsed.directed_seconds`.
        paging: what came in through mapped files by page faults; `None` without any.
        problems: what is known to be missing from the trace.
    """

    requests: int
    data_requests: int
    tensors: int
    files: FileSummaries
    bytes_written: int
    bytes_read: int
    engines: tuple[str, ...]
    steps: tuple[int, ...]
    saves: int
    loads: int
    processes: int
    ranks: tuple[int, ...]
    request_sizes: Mapping[str, tuple[SizeBucket, ...]]
    aligned_share: float | None
    max_concurrency: int
    mean_concurrency: float
    write_seconds: float
    read_seconds: float
    paging: Paging | None
    problems: tuple[str, ...]

    @property
    def complete(self) -> bool:
        """Whether nothing is known to be missing."""
        return not self.problems

    @property
    def write_bandwidth(self) -> float | None:
        """Bytes written per second of saving; `None` when there was no such time."""
        return self.bytes_written / self.write_seconds if self.write_seconds else None

    @property
    def read_bandwidth(self) -> float | None:
        """Bytes read per second of loading; `None` when there was no such time."""
        return self.bytes_read / self.read_seconds if self.read_seconds else None


def summarize(trace: Trace) -> Summary:
    """Return what happened in `trace`: its recorded requests, or a result's replayed ones."""
    chosen = trace.is_request
    requests, phase = trace.where(chosen), phases(trace)[chosen]
    data = requests.where(requests.row_mask(op=DATA_OPS))
    moved = _moved_bytes(requests, *DATA_OPS)
    moved += np.where(requests.row_mask(op="fault"), requests.ints("length", null=0), 0)
    steps = checkpoint_steps(trace, phase, requests.ints("step"), requests.ints("rank"), moved)
    max_concurrency, mean_concurrency = _concurrency(data)
    return Summary(
        requests=len(requests),
        data_requests=len(data),
        tensors=int(trace.row_mask(layer="tensor").sum()),
        files=FileSummaries.of(requests) if len(requests) else _files_of_tensors(trace),
        bytes_written=int(_moved_bytes(data, "write").sum()),
        bytes_read=int(_moved_bytes(data, "read").sum()),
        engines=_used(trace, "engine"),
        steps=trace.distinct("step"),
        saves=len(steps[Phase.SAVE]),
        loads=len(steps[Phase.LOAD]),
        processes=len(trace.distinct("process")),
        ranks=trace.distinct("rank"),
        request_sizes={op: _sizes(data.where(data.row_mask(op=op))) for op in DATA_OPS},
        aligned_share=_aligned_share(data),
        max_concurrency=max_concurrency,
        mean_concurrency=mean_concurrency,
        write_seconds=timed_seconds(requests, phase, Phase.SAVE),
        read_seconds=timed_seconds(requests, phase, Phase.LOAD),
        paging=paging_of(trace),
        problems=tuple(trace.metadata.completeness.problems()),
    )


def _files_of_tensors(trace: Trace) -> FileSummaries:
    """Return the files that tensors lie in, of a trace without requests."""
    files = FileSummaries.of(trace.where(trace.row_mask(layer="tensor")))
    return replace(files, requests=np.zeros_like(files.requests))


def has_tensors_alone(trace: Trace) -> bool:
    """Return whether a trace tells tensors, as that of a checkpoint does, and no request."""
    layers = (("tensor",), REQUEST_LAYERS)
    tensors, requests = (bool(trace.row_mask(layer=one).any()) for one in layers)
    return tensors and not requests


def traffic_of(trace: Trace, op: str) -> Traffic:
    """Return the numbers of one data op's requests."""
    rows = trace.where(trace.row_mask(layer=REQUEST_LAYERS, op=op))
    busy_seconds = busy_ns(rows.ints("start_ns"), ends_ns(rows)) / 1e9
    return Traffic(len(rows), _aligned_share(rows), *_concurrency(rows), busy_seconds)


def _moved_bytes(requests: Trace, *ops: str) -> IntArray:
    """Return the bytes that each row moved, 0 for other ops and for failures."""
    return np.where(requests.row_mask(op=ops), requests.ints("result", null=0).clip(min=0), 0)


def _used(trace: Trace, column: str) -> tuple[str, ...]:
    codes, texts = trace.codes(column)
    used, first_row = np.unique(codes, return_index=True)
    return tuple(texts[code] for code in used[np.argsort(first_row)].tolist() if code >= 0)


def _sizes(requests: Trace) -> tuple[SizeBucket, ...]:
    length = requests.ints("length", null=0).clip(min=0)
    exponent = np.where(length > 0, np.frexp(length.astype(np.float64))[1], 0)
    buckets, place = np.unique(exponent, return_inverse=True)
    counts = np.bincount(place, minlength=len(buckets))
    total = np.bincount(place, weights=length, minlength=len(buckets))
    return tuple(
        SizeBucket(1 << (bucket - 1) if bucket else 0, count, int(total_bytes))
        for bucket, count, total_bytes in zip(
            buckets.tolist(), counts.tolist(), total.tolist(), strict=True
        )
    )


def _aligned_share(data: Trace) -> float | None:
    known = data.valid("offset") & data.valid("length")
    if not known.any():
        return None
    edges = data.ints("offset")[known] | data.ints("length")[known]
    return float((edges % ALIGNMENT_BYTES == 0).mean())


def _concurrency(data: Trace) -> tuple[int, float]:
    """Return the most, and the mean while any, of the requests in flight."""
    if not len(data):
        return 0, 0.0
    start_ns, end_ns = data.ints("start_ns"), ends_ns(data)
    times = np.concatenate([end_ns, start_ns])  # of equal times, ends count first
    order = np.argsort(times, kind="stable")
    changes = np.where(order < len(data), -1, 1)
    in_flight = np.cumsum(changes)
    spans = np.diff(times[order]).astype(np.float64)
    busy_ns = spans[in_flight[:-1] > 0].sum()
    used_ns = (spans * in_flight[:-1]).sum()
    return max(1, int(in_flight.max())), float(used_ns / busy_ns) if busy_ns else 1.0
