"""What a recorded save or load would take on storage where each request is a round trip."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from iotrace.replay.probe import Capability
from iotrace.traces.verdict.shape import ROUND_TRIP_US
from iotrace.traces.verdict.verdict import Finding

_SMALL_BYTES = 4096
# What a program waits for beside reads and writes; a file's names and state are asked for once.
_NAMES = ("open", "close", "sync", "truncate", "allocate", "rename", "link", "unlink", "mkdir")
_DATA = ("read", "write")


@dataclass(frozen=True)
class Prediction:
    """The same requests on other storage: how many round trips, and how long in all."""

    round_trips: int
    seconds: float


def predict(finding: Finding, storage: Capability | None) -> Prediction | None:
    """Return what `finding` would take there, on its slowest rank.

    What passes without I/O stays as it was. `None` where requests are not round trips: there the
    page cache and what else goes on decide, and no sum of single requests tells the time. The
    same holds where page faults read, in pieces of the kernel's choice.
    """
    if storage is None or not finding.seconds or finding.paging is not None:
        return None
    trip_us = storage.one_by_one_us("write", _SMALL_BYTES, direct=False)
    if trip_us is None or trip_us < ROUND_TRIP_US:
        return None
    rank = finding.slowest_rank
    requests = finding.episode.requests
    own = (requests.process == rank.process) & (requests.start_ns < rank.window[1])
    requests = requests.where(own)
    data_us = 0.0
    trips = 0
    for op in _DATA:
        sizes, counts = np.unique(requests.length[requests.is_op(op)], return_counts=True)
        each = [storage.one_by_one_us(op, int(size), direct=False) for size in sizes.tolist()]
        depth = finding.shapes[op].depth if op in finding.shapes else 1.0
        data_us += (
            sum(us * count for us, count in zip(each, counts.tolist(), strict=True) if us) / depth
        )
        trips += int(counts.sum())
    names = int(requests.is_op(*_NAMES).sum())
    outside = rank.between_seconds + rank.rank_seconds + finding.away_seconds
    return Prediction(trips + names, outside + (data_us + names * trip_us) / 1e6)
