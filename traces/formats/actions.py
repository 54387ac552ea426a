"""The requests of a trace as the few actions that a load generator knows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from iotrace.traces.columns import IntArray, Mask
from iotrace.traces.errors import TraceFormatError
from iotrace.traces.renames import Renames
from iotrace.traces.schema import DATA_OPS
from iotrace.traces.sync_kind import syncs_file_system, syncs_folder
from iotrace.traces.trace import Trace
from iotrace.traces.words import plural

# fio keeps lengths in 32 bits; one system call moves less than 2 GiB.
LENGTH_MAX_BYTES = 1 << 30
MOST_CUTS = 10_000_000  # beyond the trace's own requests; some hundred bytes of a log each
_KINDS = ("open", "close", "read", "write", "sync", "datasync", "trim")
_PUNCH_HOLE = 0x02


class Action(NamedTuple):
    """One action; offset and length are 0 where they do not apply."""

    start_ns: int
    file: int
    kind: str
    offset: int
    length: int


@dataclass
class Left:
    """What an export leaves out, counted."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    said: list[str] = field(default_factory=list)

    def count(self, noun: str, times: int = 1, which: str = "") -> None:
        """Count something left out; `which` is what follows the noun."""
        if times:
            self.counts[noun, which] += times

    def say(self, sentence: str) -> None:
        """Note something that cannot be counted."""
        self.said.append(sentence)

    def sentences(self) -> list[str]:
        """Return all of it, in words."""
        counted = ((plural(count, noun), which) for (noun, which), count in self.counts.items())
        return [f"{count} {which}".rstrip() for count, which in counted] + self.said


@dataclass(frozen=True, eq=False)
class Actions:
    """Actions in order of start, as columns. `file` indexes `paths`, `kind` the kinds."""

    start_ns: IntArray
    process: IntArray
    thread: IntArray
    file: IntArray
    kind: IntArray
    offset: IntArray
    length: IntArray
    paths: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.start_ns)

    def __iter__(self) -> Iterator[Action]:
        columns = (self.start_ns, self.file, self.kind, self.offset, self.length)
        for start_ns, file, kind, offset, length in zip(
            *(c.tolist() for c in columns), strict=True
        ):
            while length > LENGTH_MAX_BYTES:
                yield Action(start_ns, file, _KINDS[kind], offset, LENGTH_MAX_BYTES)
                offset, length = offset + LENGTH_MAX_BYTES, length - LENGTH_MAX_BYTES
            yield Action(start_ns, file, _KINDS[kind], offset, length)

    def where(self, mask: Mask) -> Actions:
        """Return some of the actions."""
        names = ("start_ns", "process", "thread", "file", "kind", "offset", "length")
        return replace(self, **{name: getattr(self, name)[mask] for name in names})


def actions(trace: Trace, left: Left) -> Actions:
    """Return the actions of a trace's requests, or of a result's, and count what is left out.

    A file goes by its last name: what was written under another and renamed is read under this.
    A request counts with the bytes that it moved.

    Raises:
        TraceFormatError: cut into pieces of 1 GiB, the requests are too many.
    """
    requests = trace.where(trace.is_request)
    left.count("tensor row", int(trace.row_mask(layer="tensor").sum()))
    left.count("span", int(trace.row_mask(layer="span").sum()))
    op, ops = requests.codes("op")
    flags, result = requests.ints("flags", null=0), requests.ints("result", null=0)
    data = requests.row_mask(op=DATA_OPS)
    kind = np.array([*(_KINDS.index(o) if o in _KINDS else -1 for o in ops), -1])[op]
    kind = np.where((kind == 4) & (flags == 1), 5, kind).astype(np.int64)
    holes = requests.row_mask(op="allocate") & (flags & _PUNCH_HOLE != 0)
    kind = np.where(holes, 6, kind)
    syncs = requests.row_mask(op="sync")
    whole, of_folder = syncs & syncs_file_system(flags), syncs & syncs_folder(flags)
    failed, empty = result < 0, data & (result == 0)
    placeless = data & ~requests.valid("offset")
    nameless = (requests.codes("path")[0] < 0) & ~whole & ~of_folder
    _count_ops(requests, (kind < 0) & ~failed, left)
    left.count("request", int(failed.sum()), "that failed")
    left.count("request", int((empty & ~failed).sum()), "of no bytes")
    left.count("sync", int((whole & ~failed).sum()), "of a whole file system")
    left.count("sync", int((of_folder & ~failed).sum()), "of a folder")
    left.count(
        "request",
        int(((placeless | nameless) & (kind >= 0) & ~failed & ~empty).sum()),
        "without a name or an offset",
    )
    keep = (kind >= 0) & ~failed & ~empty & ~whole & ~of_folder & ~placeless & ~nameless
    moved = np.where(data, result, requests.ints("length", null=0))
    moved = np.where(data & ~requests.valid("result"), requests.ints("length", null=0), moved)
    paths, file = _last_names(requests)
    has_extent = (data | holes)[keep]
    length = np.where(has_extent, moved[keep], 0)
    cuts = ((length - 1) // LENGTH_MAX_BYTES).clip(0)
    if (made := float(cuts.sum(dtype=np.float64))) > MOST_CUTS:
        raise TraceFormatError(
            f"requests of more than 1 GiB would make {made:,.0f} lines of fio, more than "
            f"{MOST_CUTS:,}; the largest moves {int(length.max()):,} bytes: `iotrace check` tells "
            "whether that can be"
        )
    return Actions(
        start_ns=requests.ints("start_ns")[keep],
        process=requests.ints("process")[keep],
        thread=requests.ints("thread")[keep],
        file=file[keep],
        kind=kind[keep],
        offset=np.where(has_extent, requests.ints("offset", null=0)[keep], 0),
        length=length,
        paths=paths,
    )


def _count_ops(requests: Trace, mask: Mask, left: Left) -> None:
    names = Counter(name for name in requests.where(mask).strings("op") if name)
    for name, count in sorted(names.items()):
        left.count(f"{name} request", count)


def _last_names(requests: Trace) -> tuple[tuple[str, ...], IntArray]:
    """Return the names that files have in the end, and which each row has; -1: none."""
    codes, texts = requests.codes("path")
    renames = Renames(requests)
    if not renames:
        return tuple(texts), codes.astype(np.int64)
    places: dict[str, int] = {}
    file = np.full(len(requests), -1, np.int64)
    for row, code in enumerate(codes.tolist()):
        if code >= 0:
            name = renames.final_name(texts[code], row)
            file[row] = places.setdefault(name, len(places))
    return tuple(places), file
