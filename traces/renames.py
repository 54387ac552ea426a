"""Follow a file through the renames of it and of the folders above it.

A link renames as well where it gives a name to a file that had none (O_TMPFILE), or where the old
name is removed later.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from iotrace.traces.columns import IntArray, Mask
from iotrace.traces.open_flags import TMPFILE_BIT
from iotrace.traces.schema import REQUEST_LAYERS
from iotrace.traces.trace import Trace

_MAX_HOPS = 16  # no job renames a file more often; a hostile trace could a million times


class Renames:
    """The successful renames of a trace, in time order."""

    def __init__(self, trace: Trace) -> None:
        mask = trace.row_mask(layer=REQUEST_LAYERS, op=("rename", "link"))
        mask &= trace.ints("result", 0) >= 0
        rows = np.flatnonzero(mask)
        renames = trace.where(mask)
        sources, targets = renames.strings("path"), renames.strings("target")
        links = renames.row_mask(op="link")
        if links.any():
            sources = _renamed_by_links(trace, rows, links, sources)
        self._targets: dict[int, str] = {}
        self._rows_by_source: defaultdict[str, list[int]] = defaultdict(list)
        for row, source, target in zip(rows.tolist(), sources, targets, strict=True):
            if source is not None and target is not None:
                self._targets[row] = target
                self._rows_by_source[source].append(row)

    def __bool__(self) -> bool:
        return bool(self._targets)

    def final_name(self, path: str, row: int) -> str:
        """Return the last name of what was called `path` at trace row `row`."""
        if not self._targets:
            return path
        for _ in range(_MAX_HOPS):
            step = self._next(path, row)
            if step is None:
                break
            row, source = step
            path = self._targets[row] + path[len(source) :]
        return path

    def _next(self, path: str, row: int) -> tuple[int, str] | None:
        """Return row and source of the first rename after `row` that moves `path`."""
        steps = []
        for name in itself_and_folders(path):
            rows = self._rows_by_source.get(name, ())
            place = bisect_right(rows, row)
            if place < len(rows):
                steps.append((rows[place], name))
        return min(steps, default=None)


def _renamed_by_links(
    trace: Trace, rows: IntArray, links: Mask, sources: list[str | None]
) -> list[str | None]:
    """Return `sources`, those of links as the name that goes; `None` where none does."""
    done = trace.row_mask(layer=REQUEST_LAYERS) & (trace.ints("result", 0) >= 0)
    unlinks = done & trace.row_mask(op="unlink")
    places = np.flatnonzero(unlinks).tolist()
    removed = dict(zip(trace.where(unlinks).strings("path"), places, strict=True))
    opens = done & trace.row_mask(op="open") & trace.valid("file")
    nameless = opens & (trace.ints("flags", null=0) & TMPFILE_BIT != 0)
    names = dict(zip(_files(trace, nameless), trace.where(nameless).strings("path"), strict=True))
    return [
        source
        if not is_link
        else names.get(file, source if removed.get(source, -1) > row else None)
        for row, file, is_link, source in zip(
            rows.tolist(), _files(trace, rows), links.tolist(), sources, strict=True
        )
    ]


def _files(trace: Trace, rows: IntArray | Mask) -> Iterator[tuple[int, int]]:
    """Return process and file number of some rows."""
    return zip(trace.ints("process")[rows].tolist(), trace.ints("file")[rows].tolist(), strict=True)


def itself_and_folders(path: str) -> Iterator[str]:
    while path.strip("/"):
        yield path
        path = path.rpartition("/")[0]
