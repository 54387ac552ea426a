"""Watch a job's major page faults: software events of perf, which need no privilege.

A load through mmap makes no read calls: it stops at each page that is not in memory. The events are
opened in this process for each CPU and inherited by the job, all its threads and processes.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import platform
import select
import struct
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

from iotrace.traces.environment import boot_id

PREFIX, SUFFIX = "faults-", ".perf"
REFUSED = "faults.refused"
PERF_EVENT_OPEN = {"x86_64": 298, "aarch64": 241}

TYPE_SOFTWARE, COUNT_PAGE_FAULTS_MAJ = 1, 6
SAMPLE_TID, SAMPLE_TIME, SAMPLE_ADDR = 1 << 1, 1 << 2, 1 << 3
INHERIT, EXCLUDE_KERNEL, EXCLUDE_HYPERVISOR = 1 << 1, 1 << 5, 1 << 6
WATERMARK, USE_CLOCKID = 1 << 14, 1 << 25
FD_CLOEXEC = 1 << 3
ATTRIBUTE_BYTES = 112
RECORD_LOST, RECORD_SAMPLE = 2, 9
SAMPLE_BYTES = 32

# What an unprivileged user may lock for each CPU (perf_event_mlock_kb) is just above 512 KiB.
MOST_RING_PAGES = 128
HEAD_AT, TAIL_AT = 1024, 1032  # in the first page of a ring, see linux/perf_event.h
POLL_SECONDS = 0.05
# What signals, the terminal and a process that asks take at a time while the job runs.
SPARE_DESCRIPTORS = 8


@dataclass
class Ring:
    """The events of one CPU, and the file they go to.

    The file begins with a record of how many of them found no room on the disk: it is overwritten
    then, which needs none.
    """

    fd: int
    memory: mmap.mmap
    size_bytes: int
    file: FileIO
    unkept_bytes: int = 0

    def drain(self) -> None:
        """Move what has come in to the file."""
        (head,) = struct.unpack_from("<Q", self.memory, HEAD_AT)
        (tail,) = struct.unpack_from("<Q", self.memory, TAIL_AT)
        while tail < head:
            at = tail % self.size_bytes
            count = min(head - tail, self.size_bytes - at)
            begin = mmap.PAGESIZE + at
            self._keep(self.memory[begin : begin + count])
            tail += count
        struct.pack_into("<Q", self.memory, TAIL_AT, tail)

    def _keep(self, events: bytes) -> None:
        left = memoryview(events)
        if not self.unkept_bytes:  # what fits later would follow on a cut record
            with suppress(OSError):
                while left:
                    left = left[os.write(self.file.fileno(), left) :]
        if not left:
            return
        self.unkept_bytes += len(left)
        with suppress(OSError):
            os.pwrite(self.file.fileno(), lost_record(-(-self.unkept_bytes // SAMPLE_BYTES)), 0)

    def close(self) -> None:
        """End the events."""
        with suppress(OSError):
            self.file.close()
        self.memory.close()
        os.close(self.fd)


def attributes(ring_bytes: int, with_kernel: bool) -> bytes:
    """Return a struct perf_event_attr: each major fault with thread, time and address."""
    flags = INHERIT | EXCLUDE_HYPERVISOR | WATERMARK | USE_CLOCKID
    flags |= 0 if with_kernel else EXCLUDE_KERNEL
    packed = struct.pack(
        "<IIQQQQQI",
        TYPE_SOFTWARE,
        ATTRIBUTE_BYTES,
        COUNT_PAGE_FAULTS_MAJ,
        1,  # each of them
        SAMPLE_TID | SAMPLE_TIME | SAMPLE_ADDR,
        0,
        flags,
        ring_bytes // 4,
    )
    clock = struct.pack("<i", 1)  # CLOCK_MONOTONIC, at byte 92
    return (packed.ljust(92, b"\0") + clock).ljust(ATTRIBUTE_BYTES, b"\0")


def open_event(cpu: int, ring_bytes: int) -> int:
    """Open the events of the calling thread and all it starts on one CPU.

    Faults on the job's memory inside system calls need a privilege; without it, they stay unseen.

    Raises:
        OSError: this is refused.
    """
    number = PERF_EVENT_OPEN.get(platform.machine())
    if number is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    libc = ctypes.CDLL(None, use_errno=True)
    for with_kernel in (True, False):
        attribute = attributes(ring_bytes, with_kernel)
        fd: int = libc.syscall(number, attribute, 0, cpu, -1, FD_CLOEXEC)
        if fd >= 0:
            return fd
    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def open_ring(cpu: int, path: Path) -> Ring:
    """Open the events of one CPU with as large a ring as is allowed.

    Raises:
        OSError: even the smallest is refused.
    """
    pages = MOST_RING_PAGES
    while True:
        fd = open_event(cpu, pages * mmap.PAGESIZE)
        try:
            memory = mmap.mmap(fd, (1 + pages) * mmap.PAGESIZE)
            return Ring(fd, memory, pages * mmap.PAGESIZE, begun(path))
        except OSError:
            os.close(fd)
            if pages == 1:
                raise
            pages //= 2


def begun(path: Path) -> FileIO:
    """Make a file for events, which says that none was lost."""
    file = FileIO(path, "w")
    try:
        file.write(lost_record(0))
    except OSError:
        file.close()
        raise
    return file


def lost_record(count: int) -> bytes:
    """Return a PERF_RECORD_LOST as long as a sample."""
    return struct.pack("<IHHQQQ", RECORD_LOST, 0, SAMPLE_BYTES, 0, count, 0)


def online_cpus() -> Iterator[int]:
    """Yield the CPUs that run."""
    for part in Path("/sys/devices/system/cpu/online").read_text().strip().split(","):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def leave_descriptors() -> None:
    """Make sure that the rest of the capture still finds descriptors: rings are worth less.

    Raises:
        OSError: it would not.
    """
    with ExitStack() as stack:
        for _ in range(SPARE_DESCRIPTORS):
            stack.callback(os.close, os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))


def read_until(stop: threading.Event, rings: list[Ring]) -> None:
    """Empty the rings as they fill."""
    poll = select.poll()
    for ring in rings:
        poll.register(ring.fd, select.POLLIN)
    while not stop.is_set():
        poll.poll(POLL_SECONDS * 1000)
        drain_all(rings)


def drain_all(rings: Sequence[Ring]) -> None:
    """Move what has come in to the files."""
    for ring in rings:
        ring.drain()


@contextmanager
def watched_faults(raw_dir: Path) -> Iterator[None]:
    """Record the major faults of all processes that are started inside, next to the raw logs.

    Where that is refused, the folder says why.
    """
    with ExitStack() as stack:
        rings: list[Ring] = []
        try:
            for cpu in online_cpus():
                path = raw_dir / f"{PREFIX}{boot_id()}-{cpu}{SUFFIX}"
                ring = open_ring(cpu, path)
                stack.callback(ring.close)
                rings.append(ring)
            leave_descriptors()
        except (OSError, ValueError) as error:
            rings.clear()
            stack.close()
            with suppress(OSError):
                (raw_dir / REFUSED).write_text(str(getattr(error, "strerror", None) or error))
        if rings:
            stop = threading.Event()
            reader = threading.Thread(target=read_until, args=(stop, rings), daemon=True)
            reader.start()
            stack.callback(drain_all, rings)
            stack.callback(reader.join)
            stack.callback(stop.set)
        yield
