"""Find what is wrong with a trace that can be read: rows that contradict the schema's meaning."""

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from iotrace.traces.columns import IntArray, Mask
from iotrace.traces.metadata import Metadata
from iotrace.traces.schema import (
    APIS,
    DATA_OPS,
    LAYERS,
    MAX_MOVED_BYTES,
    MAX_PLACE_BYTES,
    OFFSET_SOURCES,
    OPS,
    REQUEST_LAYERS,
)
from iotrace.traces.sync_kind import SyncKind
from iotrace.traces.trace import Trace
from iotrace.traces.words import plural

_MAX_ERRNO = 4095
_ASYNCHRONOUS_APIS = ("io_uring", "libaio")
_PLACED_OPS = (*DATA_OPS, "allocate", "truncate", "sync")
_INT64_MAX = np.iinfo(np.int64).max


RowName = Callable[[Trace, int], str]


def _row(trace: Trace, row: int) -> str:
    return f"row {row}"


def check_trace(trace: Trace, gaps: bool = True, place: RowName = _row) -> list[str]:
    """Return the problems of `trace`, one sentence each; empty when there are none.

    Needs all columns. A problem of rows tells how many there are, and the first.

    Args:
        trace: what to check.
        gaps: whether what a row lacks counts, as well as what contradicts itself: logs of other
            tools do not tell every offset, and most of what is done with a trace needs not all.
        place: says where the first row of a problem is, which stands at a place in the trace.
    """
    rows = [*_found(trace, _ROW_CHECKS, place), *(find_gaps(trace) if gaps else ())]
    return [*_unknown_words(trace), *rows, *_too_much(trace), *_bad_indices(trace.metadata)]


def find_gaps(trace: Trace) -> list[str]:
    """Return what rows lack that such rows have, one sentence each, with how many there are.

    A trace may: what made it did not tell. Nothing in it is wrong, and less can be done with it.
    """
    return [*_found(trace, _GAPS)]


def _found(
    trace: Trace, checks: Mapping[str, Callable[[Trace], Mask]], place: RowName = _row
) -> Iterator[str]:
    for what, check in checks.items():
        if (mask := check(trace)).any():
            first = place(trace, int(mask.argmax()))
            yield f"{plural(int(mask.sum()), 'row')} (first: {first}): {what}"


def contradiction(problems: Sequence[str]) -> str:
    """Return the message that refuses a trace for its problems."""
    more = f" and {len(problems) - 1} more" if len(problems) > 1 else ""
    return (
        f"the trace contradicts itself: {problems[0]}{more}; "
        "`iotrace check` lists all, capture it again"
    )


def _unknown_words(trace: Trace) -> Iterator[str]:
    vocabulary = {"layer": LAYERS, "api": APIS, "offset_source": OFFSET_SOURCES}
    for column, known in vocabulary.items():
        yield from _strangers(trace, column, known, column)
    for layer, ops in OPS.items():
        yield from _strangers(trace.layer(layer), "op", ops, f"op in layer {layer}")


def _strangers(trace: Trace, column: str, known: tuple[str, ...], what: str) -> Iterator[str]:
    codes, words = trace.codes(column)
    counts = np.bincount(codes[codes >= 0], minlength=len(words))
    for word, count in zip(words, counts.tolist(), strict=True):
        if count and word not in known:
            yield f"{plural(count, 'row')}: unknown {what} {word[:80]!r}"


def _too_much(trace: Trace) -> Iterator[str]:
    length, moved = trace.ints("length", null=0), _moved(trace)
    # As replay takes them: cp asks for 2^63 bytes, and means all there are.
    size = np.where(length > MAX_PLACE_BYTES, moved, np.maximum(length, moved)).clip(0)
    if size[_data(trace) & _succeeded(trace)].sum(dtype=np.float64) > MAX_MOVED_BYTES:
        yield f"the reads and writes move more than {MAX_MOVED_BYTES >> 60} EiB"


def _bad_indices(metadata: Metadata) -> Iterator[str]:
    hosts, processes = len(metadata.hosts), len(metadata.processes)
    for i, process in enumerate(metadata.processes):
        if hosts and not 0 <= process.host < hosts:
            yield f"metadata: process {i} is on host {process.host}, of {hosts}"
    for place in metadata.places:
        there = len(place.hosts)
        for i, mount in enumerate(place.mounts):
            if there and not 0 <= mount.host < there:
                yield f"metadata: mount {i} is on host {mount.host}, of {there}"
    completeness = metadata.completeness
    mentioned = {f.process for f in completeness.files}
    mentioned |= {p.process for p in completeness.processes}
    for stranger in sorted(mentioned - set(range(processes))):
        yield f"metadata: completeness of process {stranger}, of {processes}"


def _data(trace: Trace) -> Mask:
    return trace.row_mask(layer=REQUEST_LAYERS, op=DATA_OPS)


def _succeeded(trace: Trace) -> Mask:
    return ~trace.valid("result") | (trace.ints("result") >= 0)


def _moved(trace: Trace) -> IntArray:
    """Return what each request moved; what it asked for where that is not known."""
    length = trace.ints("length", null=0)
    return np.where(trace.valid("result"), trace.ints("result"), length)


def _negative(trace: Trace, column: str) -> Mask:
    return trace.valid(column) & (trace.ints(column) < 0)


def _outside_processes(trace: Trace) -> Mask:
    process = trace.ints("process")
    return (process < 0) | (process >= len(trace.metadata.processes))


def _ends_early(trace: Trace) -> Mask:
    return trace.valid("end_ns") & (trace.ints("end_ns") < trace.ints("start_ns"))


def _past_int64(trace: Trace) -> Mask:
    offset, length = (trace.ints(c, null=0).clip(min=0) for c in ("offset", "length"))
    return np.asarray(length > _INT64_MAX - offset)


def _no_file_holds(trace: Trace) -> Mask:
    placed = trace.row_mask(layer=REQUEST_LAYERS, op=_PLACED_OPS) & _succeeded(trace)
    size = np.where(_data(trace), _moved(trace), trace.ints("length", null=0))
    far = trace.ints("offset", null=0) > MAX_PLACE_BYTES
    placed |= trace.row_mask(layer="tensor")
    return np.asarray(placed & (far | (size > MAX_PLACE_BYTES)))


def _moved_too_much(trace: Trace) -> Mask:
    known = _data(trace) & trace.valid("length")
    return known & (trace.ints("result") > trace.ints("length"))


def _no_errno(trace: Trace) -> Mask:
    return trace.row_mask(layer=REQUEST_LAYERS) & (trace.ints("result") < -_MAX_ERRNO)


def _without_offset(trace: Trace) -> Mask:
    """Of asynchronous requests at once to one position or end, nobody knows who got which place."""
    codes, words = trace.codes("api")
    asynchronous = [code for code, word in enumerate(words) if word in _ASYNCHRONOUS_APIS]
    return np.asarray(_data(trace) & ~trace.valid("offset") & ~np.isin(codes, asynchronous))


def _tensor_without_extent(trace: Trace) -> Mask:
    """A tensor pickled to memory has no path, and one without bytes no offset."""
    placed = trace.valid("path") & (trace.ints("length", null=1) > 0)
    known = trace.valid("offset") & trace.valid("length")
    return trace.row_mask(layer="tensor") & placed & ~known


def _unknown_sync(trace: Trace) -> Mask:
    syncs = trace.row_mask(layer=REQUEST_LAYERS, op="sync") & trace.valid("flags")
    return syncs & ~np.isin(trace.ints("flags"), list(SyncKind))


def _path_not_absolute(trace: Trace) -> Mask:
    return _is_bad_path(trace, "path") | _is_bad_path(trace, "target")


def _is_bad_path(trace: Trace, column: str) -> Mask:
    codes, paths = trace.codes(column)
    bad = np.array([*map(_is_no_path, paths), False])
    return np.asarray(bad[codes])  # code -1, null, is the last


def _is_no_path(text: str) -> bool:
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return True
    return not text.startswith("/") or "\0" in text


def _repeated_seq(trace: Trace) -> Mask:
    rows = np.flatnonzero(trace.row_mask(layer=REQUEST_LAYERS))
    process, seq = trace.ints("process")[rows], trace.ints("seq")[rows]
    order = np.lexsort((rows, seq, process))
    same = (np.diff(process[order]) == 0) & (np.diff(seq[order]) == 0)
    mask = np.zeros(len(trace), np.bool_)
    mask[rows[order[1:][same]]] = True
    return mask


_ROW_CHECKS: Mapping[str, Callable[[Trace], Mask]] = {
    "the process is not in the metadata": _outside_processes,
    "the rank is below -1": lambda t: t.ints("rank") < -1,
    "the thread is negative": lambda t: _negative(t, "thread"),
    "the order of issue (seq) is negative": lambda t: _negative(t, "seq"),
    "the order of issue (seq) repeats within the process": _repeated_seq,
    "starts before the trace's epoch": lambda t: _negative(t, "start_ns"),
    "ends before it starts": _ends_early,
    "the offset is negative": lambda t: _negative(t, "offset"),
    "the length is negative": lambda t: _negative(t, "length"),
    "the extent ends past 2^63 bytes": _past_int64,
    "at or over more than 2^60 bytes, which no file holds": _no_file_holds,
    "moved more bytes than asked": _moved_too_much,
    "the result is no error number": _no_errno,
    "the kind of sync is unknown": _unknown_sync,
    "a path is not absolute, has a NUL, or is no bytes": _path_not_absolute,
}
_GAPS: Mapping[str, Callable[[Trace], Mask]] = {
    "a read or write without its file": lambda t: _data(t) & ~t.valid("file"),
    "a read or write without its offset": _without_offset,
    "a read or write without its length": lambda t: _data(t) & ~t.valid("length"),
    "a tensor without its place in a file": _tensor_without_extent,
}
