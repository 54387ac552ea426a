"""What to drop from the page cache, and when, so that a load reads from storage."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from iotrace.replay.bindings import Bindings
from iotrace.replay.job import DATA_OPS, Op, is_op
from iotrace.replay.pieces import Ints
from iotrace.replay.requests import Requests
from iotrace.traces.phases import Phase


@dataclass(frozen=True, eq=False)
class Evictions:
    """Evictions in order of time.

    Attributes:
        place: index of the request that each one comes right before.
        requests: the evictions.
        is_barrier: which ones everything later waits for: the last before each load.
        paths: the plan's, and after them names that only evictions use.
    """

    place: Ints
    requests: Requests
    is_barrier: npt.NDArray[np.bool_]
    paths: tuple[str, ...]


def find_evictions(requests: Requests, paths: tuple[str, ...]) -> Evictions:
    """Return an eviction per load and file, before the load's first request.

    A load is what is of the load phase in one step. A file that nothing touched before is cold
    as it was prepared; a file written during the load is evicted right before its first read. One
    without a name, as a file removed while it is open, is evicted through an open of it.

    Args:
        requests: in order of issue.
        paths: names that their `path` and `target` index.
    """
    loads = np.flatnonzero(requests["phase"] == Phase.LOAD)
    reads = loads[requests["op"][loads] == Op.READ]
    steps, begin = np.unique(requests["step"][loads], return_index=True)
    pairs, first = np.unique(
        np.stack([requests["step"][reads], requests["file"][reads]]), axis=1, return_index=True
    )
    begins, file = loads[begin][np.searchsorted(steps, pairs[0])], pairs[1].astype(np.int64)
    is_late = _last_before(requests, (Op.WRITE,), file, reads[first]) > begins
    place = np.where(is_late, reads[first], begins)
    used = np.flatnonzero(_last_before(requests, DATA_OPS, file, place) >= 0)
    used = used[np.argsort(place[used], kind="stable")]
    names = Bindings.of(requests, paths)
    path = names.paths_at(file[used], place[used])
    handle = np.full(len(used), -1)
    nameless = np.flatnonzero(path < 0)
    handle[nameless] = _handles(requests, file[used[nameless]], place[used[nameless]])
    found = (path >= 0) | (handle >= 0)
    order, path, handle = used[found], path[found], handle[found]
    place, is_late = place[order], is_late[order]
    rows = Requests.of(
        len(order),
        op=Op.EVICT,
        file=file[order],
        path=path,
        handle=handle,
        stream=requests["stream"][place],
    )
    is_last = np.append(place[1:] != place[:-1], True)[: len(place)]
    return Evictions(place, rows, is_last & ~is_late, tuple(names.paths))


def _last_before(requests: Requests, ops: tuple[Op, ...], file: Ints, place: Ints) -> Ints:
    """Return the last request of `ops` on each file before each place, or -1."""
    rows = np.flatnonzero(np.isin(requests["op"], ops))
    return _last_of(rows, requests["file"][rows].astype(np.int64), file, place, len(requests))


def _last_of(rows: Ints, files: Ints, file: Ints, place: Ints, count: int) -> Ints:
    keys = np.sort(files * (count + 1) + rows)
    found = np.searchsorted(keys, file * (count + 1) + place) - 1
    key = keys[found.clip(0)] if len(keys) else np.zeros(len(file), np.int64)
    return np.where((found >= 0) & (key // (count + 1) == file), key % (count + 1), -1)


def _handles(requests: Requests, file: Ints, place: Ints) -> Ints:
    """Return a handle that is open on each file at each place; -1: there is none."""
    rows = np.flatnonzero(np.isin(requests["file"], file))
    rows = rows[is_op(requests["op"][rows], (Op.OPEN, Op.CLOSE))]
    close: dict[int, int] = {}
    opens: dict[int, list[tuple[int, int]]] = {}
    columns = (requests[name][rows].tolist() for name in ("op", "file", "handle"))
    for row, op, own, handle in zip(rows.tolist(), *columns, strict=True):
        if op == Op.OPEN:
            opens.setdefault(own, []).append((row, handle))
        else:
            close[handle] = row
    found = np.full(len(file), -1)
    for query, (own, now) in enumerate(zip(file.tolist(), place.tolist(), strict=True)):
        for row, handle in opens.get(own, []):
            if row < now <= close.get(handle, now):
                found[query] = handle
    return found
