"""One time line for the processes of a job, also when they ran on several hosts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from iotrace.capture.rawlog import RawLog


@dataclass(frozen=True)
class Clock:
    """Maps each host's CLOCK_MONOTONIC to ns since the epoch, the first record of the job.

    Attributes:
        epoch_monotonic_ns: the epoch on the clock of the first log's host.
        epoch_realtime_ns: the same instant as wall-clock time.
        shifts_ns: by boot id: what to add to a monotonic time. Processes of one boot share a
            clock exactly; different boots are aligned by their wall clocks.
    """

    epoch_monotonic_ns: int
    epoch_realtime_ns: int
    shifts_ns: Mapping[str, int]

    @classmethod
    def of(cls, logs: Sequence[RawLog]) -> Clock:
        """Return the clock on which the earliest record of `logs` has time 0."""
        realtime_minus_monotonic: dict[str, int] = {}
        for log in logs:
            header = log.header
            lag = header.realtime_ns - header.monotonic_ns
            realtime_minus_monotonic.setdefault(header.boot_id, lag)
        starts = [
            int(log.column("start_ns").min()) + realtime_minus_monotonic[log.header.boot_id]
            for log in logs
            if len(log)
        ]
        if not starts:
            return cls(0, 0, MappingProxyType(dict.fromkeys(realtime_minus_monotonic, 0)))
        epoch_realtime_ns = min(starts)
        shifts = {boot: lag - epoch_realtime_ns for boot, lag in realtime_minus_monotonic.items()}
        return cls(
            epoch_monotonic_ns=-shifts[logs[0].header.boot_id],
            epoch_realtime_ns=epoch_realtime_ns,
            shifts_ns=MappingProxyType(shifts),
        )

    def times(self, log: RawLog, monotonic_ns: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """Return times of a log's records as ns since the epoch."""
        return monotonic_ns.astype(np.int64) + self.shifts_ns[log.header.boot_id]
