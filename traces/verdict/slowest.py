"""The slowest request, file and tensor of a save or load."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from iotrace.traces.columns import IntArray, ends_of
from iotrace.traces.requests import Requests
from iotrace.traces.trace import Trace
from iotrace.traces.verdict.episodes import Episode
from iotrace.traces.verdict.tensors import TensorsOf

_TIMED_OPS = ("read", "write", "sync", "open", "rename", "truncate", "allocate", "unlink")


@dataclass(frozen=True)
class SlowRequest:
    """One request, with the tensor that most of its bytes are of, and how many others it has.

    `offset` is `None` where it is not known.
    """

    op: str
    path: str | None
    rank: int
    offset: int | None
    length: int
    seconds: float
    at_seconds: float
    tensor: str | None
    other_tensors: int

    @property
    def tensors(self) -> str | None:
        """The tensors in words; `None` where no tensor is known."""
        more = f" and {self.other_tensors} more" if self.other_tensors else ""
        return f"{self.tensor}{more}" if self.tensor else None


@dataclass(frozen=True)
class SlowFile:
    """Time of all requests on one file, added up."""

    path: str
    seconds: float
    requests: int
    bytes: int


@dataclass(frozen=True)
class SlowTensor:
    """Time of the reads or writes that lie in one tensor, added up."""

    name: str
    seconds: float
    requests: int
    bytes: int


@dataclass(frozen=True)
class Slowest:
    """The slowest first; `tensors` only where requests are about single tensors."""

    requests: tuple[SlowRequest, ...]
    files: tuple[SlowFile, ...]
    tensors: tuple[SlowTensor, ...]


def find_slowest(episode: Episode, trace: Trace, count: int = 3) -> Slowest:
    """Return the slowest `count` requests, files and tensors of an episode."""
    requests = episode.requests.where(episode.requests.is_op(*_TIMED_OPS))
    order = np.argsort(-requests.elapsed_ns, kind="stable")[:count].tolist()
    slow = tuple(_request(requests, trace, row, episode.start_ns) for row in order)
    return Slowest(slow, _files(requests, count), _tensors(episode, trace, count))


def _request(requests: Requests, trace: Trace, row: int, begin_ns: int) -> SlowRequest:
    path, length = requests.path_of(row), int(requests.length[row])
    offset = int(requests.offset[row]) if requests.has_offset[row] else None
    tensor, others = None, 0
    if path is not None and offset is not None and requests.is_data[row]:
        tensor, others = TensorsOf.request(requests, trace, row).within(offset, length)
    return SlowRequest(
        op=requests.ops[int(requests.op[row])],
        path=path,
        rank=int(requests.rank[row]),
        offset=offset,
        length=length,
        seconds=float(requests.elapsed_ns[row]) / 1e9,
        at_seconds=float(requests.start_ns[row] - begin_ns) / 1e9,
        tensor=tensor,
        other_tensors=others,
    )


def _files(requests: Requests, count: int) -> tuple[SlowFile, ...]:
    named = requests.where(requests.home >= 0)
    sums = [
        np.bincount(named.home, weights=weights, minlength=len(named.homes))
        for weights in (named.elapsed_ns, np.ones(len(named)), named.moved)
    ]
    order = np.argsort(-sums[0], kind="stable")[:count]
    return tuple(
        SlowFile(named.homes[i], float(sums[0][i]) / 1e9, int(sums[1][i]), int(sums[2][i]))
        for i in order.tolist()
        if sums[1][i]
    )


def _tensors(episode: Episode, trace: Trace, count: int) -> tuple[SlowTensor, ...]:
    """Give each data request to the tensor at its middle, if it is no longer than two of them."""
    rows = trace.row_mask(layer="tensor", op=episode.name)
    tensors = trace.where(rows & (trace.ints("step") == episode.step) & (trace.ints("length") > 0))
    requests = episode.requests
    data = requests.where(requests.is_data & requests.has_offset & (requests.home >= 0))
    if not len(tensors) or not len(data):
        return ()
    owner = _owners(tensors, data)
    length = tensors.ints("length")
    fits = (owner >= 0) & (data.length <= 2 * length[owner])
    owner, elapsed, moved = owner[fits], data.elapsed_ns[fits], data.moved[fits]
    total = np.bincount(owner, weights=elapsed, minlength=len(tensors))
    number = np.bincount(owner, minlength=len(tensors))
    held = np.bincount(owner, weights=moved, minlength=len(tensors))
    chosen = np.argsort(-total, kind="stable")[:count].tolist()
    return tuple(
        SlowTensor(
            tensors.text_at("name", i) or "", float(total[i]) / 1e9, int(number[i]), int(held[i])
        )
        for i in chosen
        if number[i]
    )


def _owners(tensors: Trace, data: Requests) -> IntArray:
    """Return the tensor at the middle of each request, -1 where there is none."""
    file, offset = data.homes_of(tensors), tensors.ints("offset")
    order = np.lexsort((offset, file))
    file, offset = file[order], offset[order]
    end = ends_of(offset, tensors.ints("length")[order])
    middle = data.offset + data.length // 2
    # Both sides as one number: the rank of (file, offset) among all that are to be compared.
    both = np.lexsort(
        (
            np.r_[np.zeros(len(file)), np.ones(len(middle))],
            np.r_[offset, middle],
            np.r_[file, data.home],
        )
    )
    is_tensor = both < len(file)
    before = np.cumsum(is_tensor) - 1
    found = np.empty(len(middle), np.int64)
    found[both[~is_tensor] - len(file)] = before[~is_tensor]
    good = (found >= 0) & (file[found] == data.home) & (middle < end[found])
    return np.where(good, order[found], -1)
