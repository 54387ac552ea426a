"""What a worker does in memory before its first request, each on a clock of its own."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from iotrace.replay.allocation import allocate, loaded_bytes
from iotrace.replay.job import Op
from iotrace.replay.pieces import Ints, is_payload, pieces_in_place
from iotrace.replay.plan import Plan
from iotrace.replay.source import copy_from
from iotrace.traces.phases import Phase


@dataclass(frozen=True)
class MemorySeconds:
    """How long it took to take memory that is read into, and to copy what is saved from its source.

    Over workers the time is the slowest one's.
    """

    allocate: float = 0.0
    source: float = 0.0

    @classmethod
    def slowest(cls, workers: Iterable["MemorySeconds"]) -> "MemorySeconds":
        """Return the longest of each."""
        each = [cls(), *workers]
        return cls(max(one.allocate for one in each), max(one.source for one in each))


@dataclass(frozen=True, eq=False)
class MemoryPhases:
    """What there is to do.

    Attributes:
        fresh_bytes: per stream, memory to take from the kernel.
        huge: take it in huge pages.
        saved_bytes: per stream, what is copied from the source.
        source: of SOURCES; None: nothing is copied.
    """

    fresh_bytes: Ints
    huge: bool
    saved_bytes: Ints
    source: str | None = None

    @classmethod
    def of(cls, plan: Plan, allocate: str, source: str | None) -> "MemoryPhases":
        """Return what a plan's loads and saves ask for; as `ReplayOptions` has it."""
        nothing = np.zeros(len(plan.streams), np.int64)
        return cls(
            nothing if allocate == "pooled" else loaded_bytes(plan.requests, plan.streams),
            allocate == "huge",
            nothing if source is None else _saved_bytes(plan),
            source,
        )

    def spend(self, own: npt.NDArray[np.bool_], number: int) -> MemorySeconds:
        """Do it for the streams of one worker; return how long it took.

        Args:
            own: which streams.
            number: of the worker.

        Raises:
            ReplayError: as `copy_from`.
        """
        copied = 0.0
        if self.source is not None:
            copied = copy_from(self.source, int(self.saved_bytes[own].sum()), number)
        return MemorySeconds(allocate(int(self.fresh_bytes[own].sum()), self.huge), copied)


def _saved_bytes(plan: Plan) -> Ints:
    """Return the payload that each stream's saves write."""
    rows = plan.requests
    saves = np.flatnonzero((rows["op"] == Op.WRITE) & (rows["phase"] == Phase.SAVE))
    line, owner, _ = pieces_in_place(rows, plan.pieces, saves)
    stream = rows["stream"][saves[owner]]
    weights = np.where(is_payload(line["file"]), line["length"], 0)
    return np.bincount(stream, weights=weights, minlength=len(plan.streams)).astype(np.int64)
