"""One process of a replay, on a machine that has no memory for one step, or keeps cached pages.

Usage: short_of_memory.py STEP ARGUMENT...

STEP is `evict` or `spend`, which the second process has no address space for, or a number: then the
first process maps so many bytes of the prepared file `shared`, which keeps them cached.
"""

import mmap
import os
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from iotrace.replay import runner
from iotrace.replay.memory_phases import MemoryPhases
from iotrace.tools.cli import main

_SPARE_BYTES = 1 << 20  # less than what the step maps, more than anything else does meanwhile


def limited(step: Callable[..., Any]) -> Callable[..., Any]:
    """Return the step with next to no address space."""

    def run(*arguments: object) -> Any:
        before = resource.getrlimit(resource.RLIMIT_AS)
        used_bytes = int(Path("/proc/self/statm").read_text().split()[0]) * mmap.PAGESIZE
        resource.setrlimit(resource.RLIMIT_AS, (used_bytes + _SPARE_BYTES, before[1]))
        try:
            return step(*arguments)
        finally:
            resource.setrlimit(resource.RLIMIT_AS, before)

    return run


def keeping(prepare: Callable[..., None], size_bytes: int) -> Callable[..., None]:
    """Return the preparation, after which a mapping keeps a part of the file cached."""

    def run(plan: object, tape: object, root_fd: int) -> None:
        prepare(plan, tape, root_fd)
        fd = os.open("shared", os.O_RDONLY, dir_fd=root_fd)
        mapped = mmap.mmap(fd, size_bytes, prot=mmap.PROT_READ)
        os.close(fd)
        mapped.madvise(mmap.MADV_RANDOM)  # no more than is touched
        kept.append((mapped, mapped[:: mmap.PAGESIZE]))

    return run


kept: list[object] = []
if __name__ == "__main__":
    step, *arguments = sys.argv[1:]
    if step.isdigit():
        runner.prepare = keeping(runner.prepare, int(step))
    elif os.environ["PMI_RANK"] == "1":
        if step == "evict":
            runner.evict_prepared = limited(runner.evict_prepared)
        else:
            MemoryPhases.spend = limited(MemoryPhases.spend)  # type: ignore[method-assign]
    sys.exit(main(arguments))
