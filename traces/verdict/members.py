"""The processes that take part in a save or load, and which rows are of each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from iotrace.traces.columns import IntArray, Mask
from iotrace.traces.requests import Requests
from iotrace.traces.verdict.episodes import Episode


@dataclass(frozen=True, eq=False)
class Members:
    """The processes of an episode, ascending; each is known by its place among them.

    Attributes:
        processes: indices into the metadata's processes.
        requests: by process, those of each in order of start.
        of_request: the process of each.
        of_span: the process of each span of the episode.
        span_start_ns, span_end_ns, span_ops: when it was, and what.
        ranks: the highest of its rows; -1 outside a launcher.
    """

    processes: IntArray
    requests: Requests
    of_request: IntArray
    of_span: IntArray
    span_start_ns: IntArray
    span_end_ns: IntArray
    span_ops: tuple[str, ...]
    ranks: IntArray

    @classmethod
    def of(cls, episode: Episode) -> Members:
        """Return the processes of an episode."""
        spans = [(s.process, s.rank, s.start_ns, s.end_ns) for s in episode.spans]
        process, rank, start_ns, end_ns = np.array(spans, np.int64).reshape(-1, 4).T
        requests = episode.requests.where(np.argsort(episode.requests.process, kind="stable"))
        processes = np.unique(np.r_[requests.process, process])
        of_request = np.searchsorted(processes, requests.process)
        of_span = np.searchsorted(processes, process)
        ranks = np.full(len(processes), -1)
        np.maximum.at(ranks, of_request, requests.rank)
        np.maximum.at(ranks, of_span, rank)
        span_ops = tuple(span.op for span in episode.spans)
        return cls(processes, requests, of_request, of_span, start_ns, end_ns, span_ops, ranks)

    def __len__(self) -> int:
        return len(self.processes)

    def begun_ns(self) -> IntArray:
        """Return the first start of each process."""
        first = np.full(len(self), np.iinfo(np.int64).max)
        np.minimum.at(first, self.of_request, self.requests.start_ns)
        np.minimum.at(first, self.of_span, self.span_start_ns)
        return first

    def ended_ns(self, chosen: Mask, at_least_ns: IntArray) -> IntArray:
        """Return the last end of some of the requests of each process."""
        last = at_least_ns.copy()
        np.maximum.at(last, self.of_request[chosen], self.requests.end_ns[chosen])
        return last

    def counted(self, chosen: Mask) -> IntArray:
        """Return how many of some of the requests each process has."""
        return np.bincount(self.of_request[chosen], minlength=len(self))

    def moved_bytes(self, op: str) -> IntArray:
        """Return the bytes that the requests of one op of each process moved."""
        chosen, total = self.requests.is_op(op), np.zeros(len(self), np.int64)
        np.add.at(total, self.of_request[chosen], self.requests.moved[chosen])
        return total

    def is_span(self, op: str) -> Mask:
        """Return which spans are of an op."""
        return np.array([one == op for one in self.span_ops], np.bool_)
