"""The requests of a plan: the fields of the job's that a transform has to know, by columns."""

from typing import ClassVar

import numpy as np
import numpy.typing as npt

from iotrace.replay.job import REQUEST
from iotrace.replay.table import Ints, Mask, Table

_BY_SCHEDULE = ("fence", "file_before", "file_fences", "global_fences", "reserved")
_ALL = 0xFFFFFFFF
_SHARED = ("file", "handle", "stream", "step", "phase", "due_ns")
_NONE = ("file", "handle", "path", "target", "source_row", "step")  # indices; -1: none


class Requests(Table):
    """Requests in order of issue, with the fields of REQUEST but those that `schedule` adds.

    Those that are not given are -1 if they are an index, and else 0.

    >>> opens = Requests.of(2, op=1, file=[0, 1])
    >>> opens["file"].tolist(), opens["path"].tolist(), opens["length"].tolist()
    ([0, 1], [-1, -1], [0, 0])
    """

    RECORD = REQUEST
    DEFAULTS: ClassVar = {
        name: -1 if name in _NONE else 0 for name in REQUEST.names or () if name not in _BY_SCHEDULE
    }

    def without_flags(self, place: Ints | Mask, bits: int) -> "Requests":
        """Return the requests without these bits of `flags` in those at `place`."""
        return self.having_at(place, flags=self["flags"][place] & np.uint32(_ALL ^ bits))

    def beside(self, **columns: npt.ArrayLike) -> "Requests":
        """Return as many requests that have of these what is said of `_SHARED`, and `columns`."""
        return Requests.of(len(self), **{**{name: self[name] for name in _SHARED}, **columns})
