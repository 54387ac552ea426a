"""The figures of a trace or a result."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import PurePosixPath

import numpy as np

from iotrace.tools.figures.svg import COLOURS, FAINT, Chart, Figure
from iotrace.tools.render import format_bytes, format_count, format_seconds, printable, shorten
from iotrace.traces import binned
from iotrace.traces.binned import Floats, TimeBins
from iotrace.traces.requests import Requests
from iotrace.traces.trace import Trace
from iotrace.traces.verdict.verdict import Verdict

_DATA_OPS = ("write", "read", "fault")
_CLASSES = {
    "write": ("write",),
    "read": ("read", "fault"),
    "sync": ("sync",),
    "other": ("open", "close", "rename", "truncate", "allocate", "stat", "getxattr", "unlink"),
}
_LANE_HEIGHT = 18
_MAP_HEIGHT = 44
_MOST_EXPONENT = 20
_NS = 1e-9


def trace_figures(trace: Trace, verdict: Verdict) -> Iterator[Figure]:
    """Yield the figures that `trace` has data for: of its saves and loads, if it has any."""
    requests = _of_checkpoints(verdict)
    used = [op for op in _DATA_OPS if requests.is_op(op).any()]
    if not len(requests):
        return
    bins = TimeBins.of(requests)
    yield _timeline(requests, bins)
    if used:
        yield _bandwidth(requests, used, bins)
        yield _in_flight(requests, used, bins)
        yield _sizes(requests, used)
        yield _latency(requests)
        yield _alignment(requests, used)
    tensors = _tensor_sizes(trace)
    if tensors is not None:
        yield tensors
    files = _file_maps(requests, trace)
    if files is not None:
        yield files


def _of_checkpoints(verdict: Verdict) -> Requests:
    """Return the requests of saves and loads; all where none is recognised."""
    requests = verdict.requests
    chosen = np.zeros(len(requests), np.bool_)
    for episode in (finding.episode for finding in verdict.findings):
        chosen |= (requests.phase == episode.phase) & (requests.step == episode.step)
    lasting = chosen & ~requests.is_op("unmap")  # comes when the job drops its data
    return requests.where(lasting) if lasting.any() and not lasting.all() else requests


def _timeline(requests: Requests, bins: TimeBins) -> Figure:
    found = binned.lanes(requests, _CLASSES, bins)
    height = 78 + _LANE_HEIGHT * len(found)
    chart = Chart("Timeline by rank", "time", height=height, width=1180, left=86)
    chart.name(*((name, COLOURS[name]) for name in _CLASSES))
    times = bins.middles_seconds
    x = chart.x_scale(0, float(times[-1] + bins.seconds / 2), least=_NS)
    chart.x_axis(x, format_seconds)
    top = 32.0
    for i, lane in enumerate(found):
        y = top + i * _LANE_HEIGHT
        chart.text(chart.left - 6, y + 12, lane.label, "end")
        # What takes longest is painted last, on top.
        for name in sorted(lane.busy, key=lambda op: float(lane.busy[op].sum())):
            for begin, end, share in _runs(lane.busy[name]):
                left, right = x(times[begin] - bins.seconds / 2), x(times[end] + bins.seconds / 2)
                opacity = 0.15 + 0.85 * share
                chart.box(left, y, right, y + _LANE_HEIGHT - 4, COLOURS[name], opacity)
    caption = (
        "Each row is a rank (a thread, where there is one process). The darker, the larger the "
        "part of the time with a request in flight."
    )
    return Figure("timeline", "Timeline by rank", caption, chart.svg())


def _runs(shares: np.ndarray) -> Iterator[tuple[int, int, float]]:
    """Yield the first and last bin of equal shares above zero, in tenths."""
    tenths = np.ceil(shares * 10).astype(int)
    edges = np.flatnonzero(np.diff(tenths)) + 1
    for begin, end in zip([0, *edges.tolist()], [*edges.tolist(), len(tenths)], strict=True):
        if tenths[begin]:
            yield begin, end - 1, tenths[begin] / 10


def _bandwidth(requests: Requests, used: list[str], bins: TimeBins) -> Figure:
    series = {op: binned.bandwidth(requests, op, bins) for op in used}
    chart = _over_time(
        "Bandwidth over time", series, bins, lambda v: f"{format_bytes(v)}/s", binary=True
    )
    caption = (
        f"Mean over bins of {format_seconds(bins.seconds)}, by the time requests were in flight."
    )
    return Figure("bandwidth", "Bandwidth over time", caption, chart.svg())


def _in_flight(requests: Requests, used: list[str], bins: TimeBins) -> Figure:
    series = {op: binned.in_flight(requests, op, bins) for op in used}
    chart = _over_time("Requests in flight over time", series, bins, lambda v: f"{v:.3g}")
    caption = "Mean number of requests in flight; below 1: part of the time there was none."
    return Figure("in-flight", "Requests in flight over time", caption, chart.svg())


def _over_time(
    title: str,
    series: dict[str, Floats],
    bins: TimeBins,
    text: Callable[[float], str],
    *,
    binary: bool = False,
) -> Chart:
    chart = Chart(title, "time", left=86)
    chart.name(*((op, COLOURS[op]) for op in series))
    times = bins.middles_seconds
    x = chart.x_scale(0, float(times[-1] + bins.seconds / 2), least=_NS)
    high = max(float(max(values.max() for values in series.values())), 1e-9)
    y = chart.y_scale(0, high, binary=binary, least=1.0 if binary else 0.0)
    chart.x_axis(x, format_seconds)
    chart.y_axis(y, text)
    for op, values in series.items():
        points = [(x(t), y(v)) for t, v in zip(times.tolist(), values.tolist(), strict=True)]
        chart.path(points, COLOURS[op], fill=True)
    return chart


def _sizes(requests: Requests, used: list[str]) -> Figure:
    chart = Chart("Request sizes", "at least this size, less than twice it", "requests")
    sizes = {op: requests.length[requests.is_op(op)] for op in used}
    _doubling_bars(chart, sizes)
    caption = "How many requests have which size. Faint: the part of the bytes they carry."
    return Figure("request-sizes", "Request sizes", caption, chart.svg())


def _tensor_sizes(trace: Trace) -> Figure | None:
    rows = trace.layer("tensor")
    if not len(rows):
        return None
    sizes = {}
    for op, colour in (("save", "write"), ("load", "read")):
        lengths = rows.ints("length", null=0)[rows.row_mask(op=op)]
        if len(lengths):
            sizes[colour] = lengths
    if not sizes:
        return None
    chart = Chart("Tensor sizes", "at least this size, less than twice it", "tensors")
    _doubling_bars(chart, sizes, {"write": "saved", "read": "loaded"})
    caption = "How many tensors have which size. Faint: the part of the bytes they carry."
    return Figure("tensor-sizes", "Tensor sizes", caption, chart.svg())


def _doubling_bars(
    chart: Chart, sizes: dict[str, np.ndarray], names: dict[str, str] | None = None
) -> None:
    """Draw counts by powers of two, one colour per key, and the share of bytes behind them."""
    chart.name(*(((names or {}).get(op, op), COLOURS[op]) for op in sizes))
    found = {op: binned.doubling(values) for op, values in sizes.items()}
    bounds = sorted({bound for low, _, _ in found.values() for bound in low.tolist()})
    labels = [format_bytes(bound) if bound else "0" for bound in bounds]
    places = chart.names(labels, every=max(1, len(labels) // 9))
    most = max(int(counts.max()) for _, counts, _ in found.values())
    y = chart.y_scale(0, most, least=1)
    chart.y_axis(y, lambda value: format_count(round(value)))
    for i, (op, (low, counts, held)) in enumerate(found.items()):
        total = max(int(held.sum()), 1)
        for bound, count, size in zip(low.tolist(), counts.tolist(), held.tolist(), strict=True):
            begin, end = places[bounds.index(bound)]
            width = (end - begin) * 0.86 / len(found)
            left = begin + (end - begin) * 0.07 + i * width
            chart.box(left, chart.bottom, left + width, y(most * size / total), COLOURS[op], 0.25)
            inset = width * 0.2
            chart.box(left + inset, chart.bottom, left + width - inset, y(count), COLOURS[op])


def _latency(requests: Requests) -> Figure:
    ops = [op for op in (*_DATA_OPS, "sync", "open") if requests.is_op(op).any()]
    colours = {**COLOURS, "open": COLOURS["other"]}
    curves = {op: found for op in ops if (found := binned.latency_curve(requests, op))}
    chart = Chart("Latency", "requests that took at most this long", "latency")
    chart.name(*((op, colours[op]) for op in curves))
    low = max(min(float(c.value.min()) for c in curves.values()), 1e-9)
    high = max(max(float(c.value.max()) for c in curves.values()), low * 10)
    y = chart.y_scale(low, high, log=True)
    marks = {"0": 0.0, "50 %": 0.5, "90 %": 0.9, "99 %": 0.99, "99.9 %": 0.999, "99.99 %": 0.9999}
    x = chart.x_scale(0, _nines(0.99999))
    for label, share in marks.items():
        place = x(_nines(share))
        chart.line(place, 10, place, chart.bottom, FAINT)
        chart.text(place, chart.bottom + 15, label, "middle")
    chart.y_axis(y, format_seconds)
    for op, curve in curves.items():
        shown = curve.share < 1
        columns = (curve.share[shown].tolist(), curve.value[shown].tolist())
        points = [(x(_nines(s)), y(v)) for s, v in zip(*columns, strict=True)]
        chart.path(points, colours[op])
    worst = ", ".join(f"{op} {format_seconds(float(c.value[-1]))}" for op, c in curves.items())
    return Figure("latency", "Latency percentiles", f"Largest: {worst}.", chart.svg())


def _nines(share: float) -> float:
    """Return a place on an axis that gives each further nine the same room."""
    return float(-np.log10(1 - share))


def _alignment(requests: Requests, used: list[str]) -> Figure:
    ops = [op for op in used if op != "fault"] or used
    chart = Chart("Alignment", "offset and length are multiples of", "requests")
    chart.name(*((op, COLOURS[op]) for op in ops))
    x = chart.x_scale(0, _MOST_EXPONENT)
    y = chart.y_scale(0, 1)
    for e in range(0, _MOST_EXPONENT + 1, 3):
        chart.line(x(e), 10, x(e), chart.bottom, FAINT)
        chart.text(x(e), chart.bottom + 15, format_bytes(1 << e), "middle")
    chart.y_axis(y, lambda value: f"{100 * value:.0f} %")
    for op in ops:
        shares = binned.alignment_shares(requests, op, range(_MOST_EXPONENT + 1)).tolist()
        points = [(x(e), y(share)) for e, share in enumerate(shares)]
        chart.path(points, COLOURS[op])
        for place, height in points:
            chart.dot(place, height, COLOURS[op], 2.5)
    chart.line(x(12), 10, x(12), chart.bottom, "#888", 1.5)
    caption = "Direct I/O asks for multiples of 512 B to 4 KiB (the dark line) on most storage."
    return Figure("alignment", "Alignment", caption, chart.svg())


def _file_maps(requests: Requests, trace: Trace) -> Figure | None:
    maps = binned.file_maps(requests, trace)
    if not maps:
        return None
    height = 70 + _MAP_HEIGHT * len(maps)
    chart = Chart("Files", "place in the file", height=height, width=1180, left=200)
    chart.name(
        ("tensors", COLOURS["tensor"]), ("written", COLOURS["write"]), ("read", COLOURS["read"])
    )
    x = chart.x_scale(0, 1)
    for percent in (0, 25, 50, 75, 100):
        anchor = "end" if percent == 100 else "middle"
        chart.text(x(percent / 100), chart.bottom + 15, f"{percent} %", anchor)
    names = [PurePosixPath(one.path).name or one.path for one in maps]
    for i, one in enumerate(maps):
        y = 34.0 + i * _MAP_HEIGHT
        name = printable(names[i] if names.count(names[i]) == 1 else one.path)
        chart.text(chart.left - 6, y + 13, shorten(name, 26), "end")
        chart.text(chart.left - 6, y + 28, format_bytes(one.size_bytes), "end", 11)
        for j, (key, values) in enumerate(
            (("tensor", one.tensors), ("write", one.written), ("read", one.read))
        ):
            shares = (values / one.bin_bytes).clip(max=1)
            for begin, end, share in _runs(shares):
                left, right = x(begin / len(values)), x((end + 1) / len(values))
                top = y + 11 * j
                chart.box(left, top, right, top + 9, COLOURS[key], 0.2 + 0.8 * share)
    caption = (
        "The files most bytes were moved of, from their first byte to their last. Gaps in the "
        "upper row belong to no tensor; gaps below were not written, or not read."
    )
    return Figure("files", "Where tensors and requests lie in the files", caption, chart.svg())
