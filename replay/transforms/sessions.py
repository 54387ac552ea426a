"""From the first use of a file to the last: what has one open and one close."""

import os
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from iotrace.replay.grouping import grouped, numbered
from iotrace.replay.pieces import Ints
from iotrace.replay.requests import Requests
from iotrace.traces.phases import Phase

Mask = npt.NDArray[np.bool_]

# What a handle keeps of the opens it stands for: it decides how each request is carried out.
HANDLE_FLAGS = os.O_DIRECT | os.O_SYNC | os.O_DSYNC


@dataclass(frozen=True, eq=False)
class Sessions:
    """One open per process, file, step, and saving or loading.

    Attributes:
        of_row: per request, its session.
        first: per session, its first request.
        last: per session, its last one.
    """

    of_row: Ints
    first: Ints
    last: Ints

    @classmethod
    def of(cls, rows: Requests, process: Ints, flags: Ints, era: Ints) -> "Sessions":
        """Return the sessions of `rows`, in order of issue.

        Args:
            rows: requests on the new files.
            process: per request, who issued it.
            flags: per request, HANDLE_FLAGS of the open it went through.
            era: per request, a number that changes when its file is emptied.
        """
        loads = (rows["phase"] == Phase.LOAD).astype(np.int64)
        keys = numbered(process, rows["file"], rows["step"], loads, flags, era)
        order = grouped(keys)
        keys = keys[order]
        begins = np.ones(len(rows), np.bool_)
        begins[1:] = keys[1:] != keys[:-1]
        of_row = np.empty(len(rows), np.int64)
        of_row[order] = np.cumsum(begins) - 1
        ends = np.append(begins[1:], True)[: len(rows)]
        return cls(of_row, order[begins], order[ends])

    def any_of(self, chosen: Mask) -> Mask:
        """Return which sessions have any of the chosen requests."""
        return np.asarray(np.bincount(self.of_row[chosen], minlength=len(self.first)) > 0)

    def last_of(self, chosen: Mask) -> Ints:
        """Return the last of the chosen requests of each session that has any."""
        last = np.full(len(self.first), -1)
        np.maximum.at(last, self.of_row[chosen], np.flatnonzero(chosen))
        return last[last >= 0]
