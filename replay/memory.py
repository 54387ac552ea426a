"""How much of the machine's memory a replay takes for its payload and for what it reads."""

import os
from pathlib import Path

TAPE_BYTES = 1 << 28
_TAPE_SHARE = 64
_LANDING_SHARE = 8


def affordable_tape_bytes() -> int:
    """Return 256 MiB, or a 64th of the memory where that is less."""
    return min(TAPE_BYTES, _memory_bytes() // _TAPE_SHARE)


def affordable_landing_bytes(workers: int) -> int:
    """Return what reads of one of `workers` on this machine may land in: an 8th is for them all."""
    return _memory_bytes() // _LANDING_SHARE // workers


def _memory_bytes() -> int:
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for limit in ("memory.max", "memory/memory.limit_in_bytes"):  # of the control group
        try:
            memory = min(memory, int(Path("/sys/fs/cgroup", limit).read_text()))
        except (OSError, ValueError):
            continue  # not there, or "max"
    return memory
