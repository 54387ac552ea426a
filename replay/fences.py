"""What must wait for what: the order that a replay keeps besides each stream's own.

Requests on one file keep their order where it shows: everything that names, sizes or syncs a
file against all else on it, and reads and writes of the same bytes where one of them writes.
Files that take turns at one name (`model.tmp`, renamed over the last `model`) are ordered as one.
"""

import os

import numpy as np
import numpy.typing as npt

from iotrace.replay.files import resets_of
from iotrace.replay.grouping import first_of_each, grouped, grouped_by_place, numbered
from iotrace.replay.intervals import Coverage, running_max
from iotrace.replay.job import DATA_OPS, Fence, Op, is_op
from iotrace.replay.pieces import HOLE, Ints, Pieces
from iotrace.replay.requests import Requests
from iotrace.traces.sync_kind import syncs_file_system, syncs_folder

Mask = npt.NDArray[np.bool_]

_ON_DIRECTORIES = (Op.MKDIR, Op.RMDIR)
_NAMING = (Op.OPEN, Op.RENAME, Op.UNLINK, Op.LINK)


def find_fences(
    requests: Requests, pieces: Pieces, file_count: int, queue_depth: int = 1
) -> tuple[Ints, Ints]:
    """Return the domain and the `Fence` of each request.

    Args:
        requests: in order of issue.
        pieces: what they index.
        file_count: number of files.
        queue_depth: requests in flight per stream; with one, a stream's own order is enough for
            opens that neither make nor empty a file.

    Returns:
        Domains (what the job calls `file`; -1: none) and fences.
    """
    domain = find_domains(requests, file_count)
    fence = np.full(len(requests), int(Fence.FILE))
    fence[is_op(requests["op"], DATA_OPS)] = Fence.NONE
    free = _is_private(requests) & _has_streams(requests, domain)
    fence[free & (requests["op"] == Op.CLOSE)] = Fence.NONE
    if queue_depth == 1:
        fence[free & _is_plain_open(requests, domain)] = Fence.NONE
    fence[_reads_holes(requests, pieces)] = Fence.FILE
    fence[_is_global(requests)] = Fence.ALL
    fence[_conflicts(requests, domain, fence)] = Fence.FILE
    return domain, fence


def find_domains(requests: Requests, file_count: int) -> Ints:
    """Return, per request, which set of files it is ordered with.

    A file that is only read needs no order beyond each open's own: there, opens are the domains.
    """
    component = _components(requests, file_count)
    domain = np.append(component, -1)[requests["file"]]
    plain = is_op(requests["op"], (Op.READ, Op.CLOSE)) | (
        (requests["op"] == Op.OPEN) & (requests["flags"] | os.O_DIRECT == os.O_DIRECT)
    )
    changed = np.zeros(file_count + 1, np.bool_)
    changed[domain[~plain & (domain >= 0)]] = True
    only_read = (domain >= 0) & ~changed[domain]
    domain[only_read] = file_count + requests["handle"][only_read]
    used = np.zeros(int(domain.max(initial=-1)) + 2, np.bool_)
    used[domain] = True
    return np.asarray(np.append(np.cumsum(used[:-1]) - 1, -1)[domain])


def _components(requests: Requests, file_count: int) -> Ints:
    """Return the lowest file that each file shares names with, over any number of names."""
    naming = requests.compress(is_op(requests["op"], _NAMING) & (requests["file"] >= 0))
    pairs = np.concatenate(
        [
            np.stack([naming["file"], naming["path"]]),
            np.stack([naming["file"], naming["target"]])[:, naming["target"] >= 0],
        ],
        axis=1,
    ).astype(np.int64)
    label = np.arange(file_count, dtype=np.int64)
    if not pairs.size:
        return label
    file, path = pairs
    while True:
        lowest = np.full(int(path.max()) + 1, file_count)
        np.minimum.at(lowest, path, label[file])
        better = label.copy()
        np.minimum.at(better, file, lowest[path])
        better = better[better]
        if np.array_equal(better, label):
            return label
        label = better


def _is_private(requests: Requests) -> Mask:
    """Return which requests use a handle that only one stream uses."""
    handle = requests["handle"]
    return np.asarray((handle >= 0) & ~_are_shared(handle, requests["stream"]))


def _has_streams(requests: Requests, domain: Ints) -> Mask:
    """Return which requests are on a domain of several streams.

    Only there do fences hold anyone up, and opens and closes go without where they can: a close
    waits by itself for what is in flight on its handle.
    """
    return np.asarray((domain >= 0) & _are_shared(domain, requests["stream"]))


def _are_shared(group: npt.NDArray[np.integer], stream: npt.NDArray[np.integer]) -> Mask:
    """Return which rows are in a group, numbered from -1, that has rows of several streams."""
    one = np.zeros(int(group.max(initial=-1)) + 2, stream.dtype)  # any of the streams
    one[group] = stream
    shared = np.zeros(len(one), np.bool_)
    shared[group[stream != one[group]]] = True
    return np.asarray(shared[group])


def _is_plain_open(requests: Requests, domain: Ints) -> Mask:
    """Return which opens find their file there and leave it as it is."""
    first = np.zeros(len(requests), np.bool_)
    first[first_of_each(domain)[1]] = True
    opens = requests["op"] == Op.OPEN
    creates = (requests["flags"] & os.O_CREAT != 0) & (first | _renews_name(requests))
    return np.asarray(opens & ~resets_of(requests) & ~creates)


def _renews_name(requests: Requests) -> Mask:
    """Return which opens are the first of their file: with O_CREAT they may make it."""
    renews = np.zeros(len(requests), np.bool_)
    opens = np.flatnonzero((requests["op"] == Op.OPEN) & (requests["file"] >= 0))
    renews[opens[first_of_each(requests["file"][opens])[1]]] = True
    return renews


def _reads_holes(requests: Requests, pieces: Pieces) -> Mask:
    """Return which reads find zeros: only a write behind these may have made the file so long."""
    reads = requests["piece_count"] > 0  # others have no first piece
    if not np.any(pieces["file"] == HOLE):
        return np.zeros(len(requests), np.bool_)
    first, count = requests["first_piece"][reads], requests["piece_count"][reads]
    holes = np.concatenate([[0], np.cumsum(pieces["file"] == HOLE)])
    reads[reads] = holes[first + count] > holes[first]
    return np.asarray(reads)


def _is_global(requests: Requests) -> Mask:
    directory_renames = (requests["op"] == Op.RENAME) & (requests["file"] < 0)
    flags = requests["flags"]
    of_many = (requests["op"] == Op.SYNC) & (syncs_file_system(flags) | syncs_folder(flags))
    return np.asarray(is_op(requests["op"], _ON_DIRECTORIES) | directory_renames | of_many)


def _conflicts(requests: Requests, domain: Ints, fence: Ints) -> list[int]:
    """Return the reads and writes that must wait for an earlier one on the same bytes.

    Candidates are, between two fences on a domain, sets of overlapping requests with a write
    among them. Each is gone through in order, and a request that meets bytes written, or writes
    bytes touched, since the last fence found there is the next one.
    """
    data = is_op(requests["op"], DATA_OPS) & (requests["length"] > 0) & (fence == Fence.NONE)
    rows = np.flatnonzero(data)
    start, end = requests["offset"], requests["offset"] + requests["length"]
    rows = rows[_go_back(requests.at("file", rows), start[rows], end[rows])]
    if not len(rows):
        return []
    epoch = fence_epochs(domain, fence)
    key = numbered(requests["file"][rows], domain[rows], epoch[rows])
    order = grouped_by_place(key, start[rows])
    key, order = key[order], rows[order]
    fresh = np.concatenate([[True], key[1:] != key[:-1]])
    reach = running_max(end[order], fresh)
    cluster = np.cumsum(np.concatenate([[True], start[order][1:] >= reach[:-1]]) | fresh) - 1
    writes = requests["op"] == Op.WRITE
    doubtful = (np.bincount(cluster) > 1) & (np.bincount(cluster, weights=writes[order]) > 0)
    chosen = doubtful[cluster]
    order, cluster = order[chosen], cluster[chosen]
    in_time = np.lexsort((order, cluster))
    found: list[int] = []
    for own in np.split(order[in_time], np.flatnonzero(np.diff(cluster[in_time])) + 1):
        columns = (own, start[own], end[own], writes[own])
        found += _meetings(*(column.tolist() for column in columns))
    return found


def _go_back(file: Ints, start: Ints, end: Ints) -> Mask:
    """Return which requests are on files that are not gone through in order: others meet none."""
    order = grouped(file)
    file_then, start, end = file[order], start[order], end[order]
    back = (file_then[1:] == file_then[:-1]) & (start[1:] < end[:-1])
    goes_back = np.zeros(int(file.max(initial=0)) + 1, np.bool_)
    goes_back[file_then[1:][back]] = True
    return np.asarray(goes_back[file])


def _meetings(
    index: list[int], start: list[int], end: list[int], is_write: list[bool]
) -> list[int]:
    """Return the requests of one set that must wait, given in order of time."""
    found = []
    written, touched = Coverage(), Coverage()
    for place, low, high, writes in zip(index, start, end, is_write, strict=True):
        if (touched if writes else written).meets(low, high):
            found.append(place)
            written, touched = Coverage(), Coverage()
        touched.add(low, high)
        if writes:
            written.add(low, high)
    return found


def fence_epochs(domain: Ints, fence: Ints) -> Ints:
    """Return how many fences lie before each request, on its domain or on all of them."""
    fences = (fence != Fence.NONE).astype(np.int64)
    everything = np.cumsum(fence == Fence.ALL)
    order = grouped(domain)
    running = np.cumsum(fences[order])
    epoch = np.empty(len(domain), np.int64)
    epoch[order] = running
    return np.asarray(epoch + everything)
