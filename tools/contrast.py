"""Two traces or results side by side: times with their intervals, and what the requests are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from iotrace.replay.statistics import INTERVAL_RUNS, Estimate, estimate
from iotrace.tools.render import (
    NONE,
    Column,
    Terminal,
    format_bytes,
    format_count,
    format_rate,
    format_ratio,
    format_seconds,
    format_share,
    print_facts,
    print_problems,
    print_table,
    shorten_paths,
)
from iotrace.tools.replayed import TIMES, Replayed, payload_of
from iotrace.tools.spread import spread_title
from iotrace.traces.changes import changes
from iotrace.traces.schema import DATA_OPS
from iotrace.traces.structure import Order, Structure, compare_order, structure_of
from iotrace.traces.summary import Summary, summarize
from iotrace.traces.trace import Trace
from iotrace.traces.words import plural

APART = "ranges do not overlap"
Cells = tuple[str, str, str, str]  # label, A, B, B / A


@dataclass(frozen=True)
class Side:
    """One of the two.

    Attributes:
        location: as the user named it.
        seconds: per time of `TIMES`, what each run took; a trace has one run.
        summary: of the payload; `padding_bytes` besides it.
        problems: why its figures are not to be trusted.
    """

    location: str
    summary: Summary
    padding_bytes: int
    structure: Structure
    seconds: dict[str, tuple[float, ...]]
    problems: tuple[str, ...]


@dataclass(frozen=True)
class Contrast:
    """Two sides, what else is different, and whether they do the same in the same order."""

    a: Side
    b: Side
    order: Order
    changed: tuple[str, ...]


def contrast(locations: tuple[str, str], traces: tuple[Trace, Trace]) -> Contrast:
    """Return two traces or results side by side."""
    a, b = (_side(place, trace) for place, trace in zip(locations, traces, strict=True))
    changed = changes(traces[0].metadata, traces[1].metadata)
    return Contrast(a, b, compare_order(*traces), tuple(changed))


def to_json(found: Contrast) -> dict[str, Any]:
    """Return all of it as one JSON object."""
    times = {}
    for name in TIMES:
        a, b = (_estimate(side, name) for side in (found.a, found.b))
        times[name] = {
            "a": _time_json(found.a, name, a),
            "b": _time_json(found.b, name, b),
            "ratio": b.median / a.median if a and b and a.median else None,
            "verdict": _verdict(found, name),
        }
    order = asdict(found.order)
    return {
        **{name: _side_json(side) for name, side in (("a", found.a), ("b", found.b))},
        "changed": list(found.changed),
        "times": times,
        "order": order | {"equal": _is_equal(found.order)},
    }


def print_contrast(terminal: Terminal, found: Contrast, structure: bool) -> None:
    """Print the times and totals, and with `structure` what the requests are made of."""
    lines = [("A", found.a.location), ("B", found.b.location)]
    lines += [("changed", "; ".join(found.changed))] if found.changed else []
    print_facts(terminal, lines)
    for letter, side in (("A", found.a), ("B", found.b)):
        if side.problems:
            terminal.print()
            print_problems(terminal, f"{letter}: not to be taken as it is", side.problems)
    terminal.print()
    columns = (Column(""), *(Column(title, right=True) for title in ("A", "B", "B / A", "")))
    rows = [[*cells, verdict] for cells, verdict in _times(found)]
    rows += [[*cells, ""] for cells in _totals(found)]
    if structure:
        rows += [[*cells, ""] for cells in _structure(found)]
    apart = any(row[-1] == APART for row in rows)
    rows = [["ranges apart" if cell == APART else cell for cell in row] for row in rows]
    print_table(terminal, columns, rows)
    if apart:
        terminal.print(
            f"ranges apart: {APART}; {INTERVAL_RUNS} runs or more of each tell a difference"
        )
    if structure:
        terminal.print()
        print_facts(terminal, _order(found, terminal.width))


def _side(location: str, trace: Trace) -> Side:
    summary = summarize(trace)
    replayed = Replayed.of(trace.metadata)
    seconds: dict[str, tuple[float, ...]] = {
        "write_seconds": (summary.write_seconds,),
        "read_seconds": (summary.read_seconds,),
    }
    problems = summary.problems
    if replayed is not None:
        seconds |= replayed.seconds
        problems += replayed.problems
    payload = payload_of(summary, replayed)
    padding_bytes = summary.bytes_written + summary.bytes_read
    padding_bytes -= payload.bytes_written + payload.bytes_read
    return Side(location, payload, padding_bytes, structure_of(trace), seconds, problems)


def _side_json(side: Side) -> dict[str, Any]:
    summary = side.summary
    return {
        "trace": side.location,
        "requests": summary.requests,
        "data_requests": summary.data_requests,
        "bytes_written": summary.bytes_written,
        "bytes_read": summary.bytes_read,
        "padding_bytes": side.padding_bytes,
        "files": len(summary.files),
        "ranks": list(summary.ranks),
        "seconds": {name: list(runs) for name, runs in side.seconds.items()},
        "aligned_share": summary.aligned_share,
        "max_concurrency": summary.max_concurrency,
        "mean_concurrency": summary.mean_concurrency,
        "structure": asdict(side.structure),
        "problems": list(side.problems),
    }


def _time_json(
    side: Side, name: str, found: Estimate | None
) -> dict[str, float | str | None] | None:
    """Return median and scatter; one run has none."""
    if found is None:
        return None
    repeated = len(side.seconds[name]) > 1
    return {
        "median": found.median,
        "low": found.low if repeated else None,
        "high": found.high if repeated else None,
        "kind": found.kind if repeated else None,
    }


def _estimate(side: Side, name: str) -> Estimate | None:
    runs = side.seconds.get(name, ())
    return estimate(runs) if any(runs) else None


def _verdict(found: Contrast, name: str) -> str:
    """Return which side is faster, or what the scatter of few runs tells; empty for one run."""
    a, b = (_estimate(side, name) for side in (found.a, found.b))
    if a is None or b is None or min(len(side.seconds[name]) for side in (found.a, found.b)) < 2:
        return ""
    apart = a.high < b.low or b.high < a.low
    if "range" in (a.kind, b.kind):
        return APART if apart else "ranges overlap"
    if not apart:
        return "no difference"
    return "A faster" if a.high < b.low else "B faster"


def _times(found: Contrast) -> Iterator[tuple[Cells, str]]:
    """Yield each time, its interval and its bandwidth."""
    moved = {name: ("bytes_read" if name == "read_seconds" else "bytes_written") for name in TIMES}
    for name, label in TIMES.items():
        a, b = (_estimate(side, name) for side in (found.a, found.b))
        if a is None and b is None:
            continue
        ratio = format_ratio(a.median, b.median) if a and b else NONE
        yield (label, _seconds(a), _seconds(b), ratio), _verdict(found, name)
        spreads = [_spread(found.a, name, a), _spread(found.b, name, b)]
        if any(spreads):
            kinds = [one.kind for one, text in zip((a, b), spreads, strict=True) if one and text]
            yield (f"  {spread_title(kinds)}", spreads[0] or NONE, spreads[1] or NONE, ""), ""
        if name == "allocate_seconds":
            continue
        rates = [
            format_rate(getattr(side.summary, moved[name]), one.median if one else None)
            for side, one in ((found.a, a), (found.b, b))
        ]
        yield ("", rates[0], rates[1], ""), ""


def _totals(found: Contrast) -> Iterator[Cells]:
    a, b = found.a.summary, found.b.summary
    yield _count("requests", a.requests, b.requests)
    yield _count("reads and writes", a.data_requests, b.data_requests)
    yield _count("files", len(a.files), len(b.files))
    yield _bytes("bytes written", a.bytes_written, b.bytes_written)
    yield _bytes("bytes read", a.bytes_read, b.bytes_read)
    padding = found.a.padding_bytes, found.b.padding_bytes
    if any(padding):
        mine, theirs = (format_bytes(count) if count else NONE for count in padding)
        yield "padding besides", mine, theirs, ""


def _structure(found: Contrast) -> Iterator[Cells]:
    a, b = found.a.structure, found.b.structure
    for op in DATA_OPS:
        if not (a.ops.get(op) or b.ops.get(op)):
            continue
        yield _count(f"{op}s", a.ops.get(op, 0), b.ops.get(op, 0))
        yield _bytes("  median size", a.median_bytes[op], b.median_bytes[op])
        for label, shares in (
            ("  in file order", (a.sequential_share[op], b.sequential_share[op])),
            ("  direct", (a.direct_share[op], b.direct_share[op])),
        ):
            yield label, _share(shares[0]), _share(shares[1]), ""
    mine, theirs = found.a.summary, found.b.summary
    yield "4 KiB-aligned", _share(mine.aligned_share), _share(theirs.aligned_share), ""
    yield _count("most in flight", mine.max_concurrency, theirs.max_concurrency)
    others = dict.fromkeys(op for op in (*a.ops, *b.ops) if op not in DATA_OPS)
    for op in others:
        yield _count(op, a.ops.get(op, 0), b.ops.get(op, 0))
    for mode in a.modes:
        if a.modes[mode] or b.modes[mode]:
            yield _count(f"opens, {mode}", a.modes[mode], b.modes[mode])
    for api in dict.fromkeys((*a.apis, *b.apis)):
        yield _count(f"through {api}", a.apis.get(api, 0), b.apis.get(api, 0))


def _order(found: Contrast, width: int) -> Iterator[tuple[str, str]]:
    order = found.order
    if _is_equal(order):
        yield (
            "order",
            f"the same requests in the same order, in {plural(order.streams[0], 'stream')}",
        )
    else:
        counts = " and ".join(map(format_count, order.streams))
        yield "order", f"of {counts} streams, {format_count(order.equal_streams)} equal"
    if order.first_difference is not None:
        stream, place, mine, theirs = order.first_difference
        yield "differs", f"first in stream {stream}, request {format_count(place)}"
        yield "  A", shorten_paths(mine, width - 12)
        yield "  B", shorten_paths(theirs, width - 12)
    yield "files", _files(found.a.summary, found.b.summary)


def _files(a: Summary, b: Summary) -> str:
    mine, theirs = ({file.path: file for file in side.files} for side in (a, b))
    both = mine.keys() & theirs.keys()
    moved = sum(
        (mine[path].bytes_written, mine[path].bytes_read)
        != (theirs[path].bytes_written, theirs[path].bytes_read)
        for path in both
    )
    return (
        f"{format_count(len(both))} in both, {format_count(moved)} of them with other bytes moved; "
        f"{format_count(len(mine) - len(both))} in A only, "
        f"{format_count(len(theirs) - len(both))} in B only"
    )


def _is_equal(order: Order) -> bool:
    return order.streams[0] == order.streams[1] == order.equal_streams


def _count(label: str, a: int, b: int) -> Cells:
    return label, format_count(a), format_count(b), format_ratio(a, b)


def _bytes(label: str, a: float, b: float) -> Cells:
    return label, format_bytes(a), format_bytes(b), format_ratio(a, b)


def _share(share: float | None) -> str:
    return NONE if share is None else format_share(share, 1)


def _seconds(found: Estimate | None) -> str:
    return NONE if found is None else format_seconds(found.median)


def _spread(side: Side, name: str, found: Estimate | None) -> str:
    if found is None or len(side.seconds.get(name, ())) < 2:
        return ""
    return f"{format_seconds(found.low)} - {format_seconds(found.high)}"
