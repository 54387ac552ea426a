"""A program that a process of the job ran, as the list of processes tells it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import NamedTuple

from iotrace.capture.processes import start_ticks_of


class Ending(NamedTuple):
    """What a program had moved when it ended.

    Attributes:
        total_read, total_written: by the kernel's count since its process began, children
            included, in bytes.
        base_read, base_written: what of it is from before the program.
        explained_read, explained_written: what of it is known, without a log.
    """

    time_ns: int
    total_read: int
    total_written: int
    base_read: int
    base_written: int
    explained_read: int
    explained_written: int
    dropped_records: int


@dataclass(frozen=True)
class Program:
    """A program that a process ran: a process may go through several.

    Attributes:
        start_ns: CLOCK_MONOTONIC.
        boottime_ns: the same moment by CLOCK_BOOTTIME, which /proc/PID/stat goes by.
        ending: None if it was killed, or still runs.
        has_log: whether it left a raw log.
        refusal: errno of why it could make none when it had something to record; 0: it had not.
    """

    pid: int
    parent_pid: int
    name: str
    start_ns: int
    boottime_ns: int
    ending: Ending | None = None
    has_log: bool = False
    refusal: int = 0

    @property
    def is_running(self) -> bool:
        """Return whether its process is there, and not a later one with its pid."""
        if self.pid == 1:  # the first of a namespace of pids: here, that is another
            return False
        ticks = start_ticks_of(self.pid)
        if ticks is None:
            return False
        started_ns = ticks * 1_000_000_000 // os.sysconf("SC_CLK_TCK")
        return started_ns <= self.boottime_ns
