"""What to drop from the page cache, and when, so that a load reads from storage."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from iotrace.replay.bindings import Bindings
from iotrace.replay.durability import are_synced, last_before
from iotrace.replay.grouping import first_of_each, numbered
from iotrace.replay.job import DATA_OPS, Op, is_op
from iotrace.replay.pieces import Ints, spread
from iotrace.replay.requests import Requests
from iotrace.traces.phases import Phase

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Evictions:
    """Evictions in order of time, a sync before each of what is not: how long it takes is known.

    Attributes:
        place: index of the request that each one comes right before.
        requests: the syncs and evictions.
        is_barrier: which ones everything later waits for: the last before each load.
        paths: the plan's, and after them names that only evictions use.
    """

    place: Ints
    requests: Requests
    is_barrier: Mask
    paths: tuple[str, ...]


def find_evictions(requests: Requests, paths: tuple[str, ...], cache: Ints) -> Evictions:
    """Return an eviction per load, file and page cache, before the load's first request.

    A file is evicted from the caches that what touched it before went through, by the stream that
    did; a file that nothing touched is cold as it was prepared. One without a name, as a file
    removed while it is open, is evicted through an open of it.

    Args:
        requests: in order of issue.
        paths: names that their `path` and `target` index.
        cache: per stream, the number of the page cache that its requests go through.
    """
    file, place, is_late = _cold_files(requests)
    names = Bindings.of(requests, paths)
    path = names.paths_at(file, place)
    query, user = _users(requests, cache, file, place)
    file, place, path = (column[query] for column in (file, place, path))
    is_late = is_late[query]
    handle, stream = np.full(len(file), -1), requests.at("stream", user).astype(np.int64)
    nameless = np.flatnonzero(path < 0)
    opens = _open_on(requests, file[nameless], place[nameless])
    found = opens >= 0
    handle[nameless[found]] = requests.at("handle", opens[found])
    stream[nameless[found]] = requests.at("stream", opens[found])
    kept = np.flatnonzero((path >= 0) | (handle >= 0))
    kept = kept[np.argsort(place[kept], kind="stable")]
    synced = are_synced(requests, file[kept], place[kept])
    each = np.repeat(kept, np.where(synced, 1, 2))
    evicts = np.append(each[1:] != each[:-1], True)[: len(each)]
    rows = Requests.of(
        len(each),
        op=np.where(evicts, Op.EVICT, Op.SYNC),
        file=file[each],
        path=path[each],
        handle=handle[each],
        stream=stream[each],
    )
    place = place[each]
    is_last = np.append(place[1:] != place[:-1], True)[: len(place)]
    return Evictions(place, rows, is_last & ~is_late[each], tuple(names.paths))


def _cold_files(requests: Requests) -> tuple[Ints, Ints, Mask]:
    """Return the files that loads read, where each must be cold, and whether its load has begun.

    A load is what is of the load phase in one step; it finds files cold as it begins, and one
    that is written meanwhile at its first read. Outside of steps there may be many loads: what
    was written since is cold again at the first read of each later open.
    """
    loads = np.flatnonzero(requests["phase"] == Phase.LOAD)
    steps, begin = np.unique(requests["step"][loads], return_index=True)
    reads = loads[requests["op"][loads] == Op.READ]
    step, handle = requests.at("step", reads), requests.at("handle", reads)
    opened = np.where(step < 0, handle, -1)
    first = np.sort(first_of_each(numbered(step, requests.at("file", reads), opened))[1])
    at, step = reads[first], step[first]
    file = requests.at("file", at).astype(np.int64)
    begins = loads[begin][np.searchsorted(steps, step)]
    written = last_before(requests, np.flatnonzero(requests["op"] == Op.WRITE), file, at)
    before = np.full(len(at), -1)  # the first read of the open before, in one step
    order = np.lexsort((at, file, step))
    same = (step[order][1:] == step[order][:-1]) & (file[order][1:] == file[order][:-1])
    before[order[1:][same]] = at[order[:-1][same]]
    needed = (before < 0) | (written > before)
    is_late = written > begins
    return file[needed], np.where(is_late, at, begins)[needed], is_late[needed]


def _users(requests: Requests, cache: Ints, file: Ints, place: Ints) -> tuple[Ints, Ints]:
    """Return by whom each file was touched before its place: pairs of query and request.

    Of the requests that went through one cache there is the first.
    """
    if not len(file):
        return file, place
    data = np.flatnonzero(is_op(requests["op"], DATA_OPS))
    own = cache[requests.at("stream", data)]
    count = int(own.max(initial=0)) + 1
    keys, first = first_of_each(requests.at("file", data).astype(np.int64) * count + own)
    low = np.searchsorted(keys, file * count)
    each = np.searchsorted(keys, (file + 1) * count) - low
    query, user = np.repeat(np.arange(len(file)), each), data[first[spread(low, each)]]
    before = user < place[query]
    return query[before], user[before]


def _open_on(requests: Requests, file: Ints, place: Ints) -> Ints:
    """Return an open that each file is open by at each place; -1: there is none."""
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
                found[query] = row
    return found
