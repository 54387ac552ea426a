"""Follow a file through the renames of it and of the folders above it."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from iotrace.traces.schema import REQUEST_LAYERS
from iotrace.traces.trace import Trace

_MAX_HOPS = 16  # no job renames a file more often; a hostile trace could a million times


class Renames:
    """The successful renames of a trace, in time order."""

    def __init__(self, trace: Trace) -> None:
        mask = trace.row_mask(layer=REQUEST_LAYERS, op="rename") & (trace.ints("result", 0) >= 0)
        rows = np.flatnonzero(mask)
        renames = trace.where(mask)
        self._targets: dict[int, str] = {}
        self._rows_by_source: defaultdict[str, list[int]] = defaultdict(list)
        for row, source, target in zip(
            rows.tolist(), renames.strings("path"), renames.strings("target"), strict=True
        ):
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
        for name in _itself_and_folders(path):
            rows = self._rows_by_source.get(name, ())
            place = bisect_right(rows, row)
            if place < len(rows):
                steps.append((rows[place], name))
        return min(steps, default=None)


def _itself_and_folders(path: str) -> Iterator[str]:
    while path.strip("/"):
        yield path
        path = path.rpartition("/")[0]
