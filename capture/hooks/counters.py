"""What a process and the page cache hold at the begin and the end of a step.

Each value becomes a row of layer `counter`: `name` says of what, `result` how much, in bytes
or, where the name ends in `_ns`, nanoseconds.

| name | of | what |
|---|---|---|
| `resident_bytes` | process | memory it has (VmRSS) |
| `peak_resident_bytes` | process | the most it has had so far |
| `user_cpu_ns` | process | time on a processor so far, all threads, in its own code |
| `system_cpu_ns` | process | the same, in the kernel |
| `processor_wait_ns` | thread | time so far in which no processor was free for it |
| `process_read_bytes` | process | moved by its read calls so far (`rchar` of /proc/PID/io) |
| `process_written_bytes` | process | moved by its write calls so far (`wchar`) |
| `device_read_bytes` | process | brought in from storage for it so far (`read_bytes`) |
| `device_written_bytes` | process | made dirty by it, for storage, so far (`write_bytes`) |
| `cached_bytes` | file | in the page cache |
| `dirty_bytes` | file | of these, not yet handed to storage |
| `writeback_bytes` | file | of these, on their way |

Those of files have a `path`: the file that is saved or loaded, or the folder, for the sum of the
files in it; at the begin of a save there are none. To ask for them takes an open of each file,
which is no request of the job and not in the trace. Kernels before 6.5 tell `cached_bytes` only.
They are left out:

- of a folder with many files, and on those kernels, or on a memory file system, of more than
  64 MiB: the job would wait for it;
- where one of the files is not the user's: the kernel does not tell, or calls all of it cached;
- where the process holds a POSIX lock on one of them: to close a file ends it.
"""

from __future__ import annotations

import ctypes
import os
from json import dumps
from resource import RUSAGE_SELF, getrusage
from time import monotonic_ns
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .emit import Emitter
    from .span import Reading, Span


PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
FILES_MAX = 64  # of one folder: each takes about 10 us
PAGED_BYTES_MAX = 64 << 20  # of all files: 1.2 ms by mincore, median of 21 runs on 2 cores
SYS_CACHESTAT = 451  # of every architecture; Linux 6.5
IO_NAMES = {
    "rchar": "process_read_bytes",
    "wchar": "process_written_bytes",
    "read_bytes": "device_read_bytes",
    "write_bytes": "device_written_bytes",
}
IN_MEMORY = (0x01021994, 0x858458F6)  # tmpfs and ramfs, linux/magic.h
CACHE_NAMES = ("cached_bytes", "dirty_bytes", "writeback_bytes")  # first fields of its result


class Counters:
    """Reads the counters of this process and writes them into its raw log.

    Args:
        emitter: Where they go.
    """

    def __init__(self, emitter: Emitter) -> None:
        self._emitter = emitter
        self._libc = ctypes.CDLL(None)  # the lock of the interpreter is let go meanwhile

    def read(self, path: str | None) -> Reading | None:
        """Return the values of this moment; those that cannot be read are left out.

        Args:
            path: The file, or the folder, whose part of the page cache is asked for.
        """
        try:
            return self._read(path)
        except Exception:
            return None

    def _read(self, path: str | None) -> Reading:
        now_ns = monotonic_ns()
        self._emitter.pause()
        try:
            values = self._process()
            cache = self._cache(path) if path else {}
        except (OSError, ValueError):  # a file may not be opened, or shrinks meanwhile
            cache = {}
        finally:
            self._emitter.resume()
        return now_ns, {"path": path if cache else None, "process": values, "file": cache}

    def emit(self, span: Span, reading: Reading | None) -> None:
        """Write values that were read, of a span whose step is known by now."""
        if reading is None:
            return
        at_ns, values = reading
        fields = {
            "layer": "counter",
            "op": span.op,
            "engine": span.engine,
            "counted": span.is_counted,
            "step": span.step,
            **values,
        }
        self._emitter.emit(at_ns, at_ns, dumps(fields, separators=(",", ":")))

    def _process(self) -> dict[str, int]:
        values = {}
        used = getrusage(RUSAGE_SELF)
        values["user_cpu_ns"] = int(used.ru_utime * 1e9)
        values["system_cpu_ns"] = int(used.ru_stime * 1e9)
        values["peak_resident_bytes"] = used.ru_maxrss * 1024
        waited = read_proc("/proc/thread-self/schedstat").split()  # may be switched off
        if len(waited) > 1:
            values["processor_wait_ns"] = int(waited[1])
        resident = read_proc("/proc/self/statm").split()
        if len(resident) > 1:
            values["resident_bytes"] = int(resident[1]) * PAGE_BYTES
        for line in read_proc("/proc/self/io").splitlines():
            name, _, value = line.partition(b": ")
            known = IO_NAMES.get(name.decode())
            if known:
                values[known] = int(value)
        return values

    def _cache(self, path: str) -> dict[str, int]:
        """Return the sums over a file, or the files of a folder; nothing if one is not known.

        Raises:
            OSError: A file or a folder may not be opened.
        """
        files = list(files_of(path))
        if not 0 < len(files) <= FILES_MAX or self._emitter.may_hold_locks(files):
            return {}
        sums: dict[str, int] = {}
        paged_bytes = 0
        for file in files:
            try:
                fd = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            except FileNotFoundError:
                continue
            try:
                found = None if is_in_memory(self._libc, fd) else self._cachestat(fd)
                if found is None:  # whichever is asked now goes through it page by page
                    paged_bytes += os.fstat(fd).st_size
                    if paged_bytes > PAGED_BYTES_MAX:
                        return {}
                    found = self._cachestat(fd) or mincore(self._libc, fd)
            finally:
                os.close(fd)
            if found is None:
                return {}
            for name, value in found.items():
                sums[name] = sums.get(name, 0) + value
        return sums

    def _cachestat(self, fd: int) -> dict[str, int] | None:
        """Return what the kernel holds of a file, None where it does not tell."""
        whole = (ctypes.c_uint64 * 2)(0, 0)
        pages = (ctypes.c_uint64 * 5)()
        if self._libc.syscall(SYS_CACHESTAT, fd, whole, pages, 0) != 0:
            return None
        return {name: count * PAGE_BYTES for name, count in zip(CACHE_NAMES, pages)}


def is_in_memory(libc: ctypes.CDLL, fd: int) -> bool:
    """Return whether a file lies in memory alone, in pages that are counted one by one.

    That takes 8.5 ms per GiB, against 0.5 ms of ext4's large folios (Linux 6.18, 2 cores).
    """
    status = (ctypes.c_long * 32)()  # struct statfs begins with the magic number
    return libc.fstatfs(fd, status) == 0 and status[0] & 0xFFFFFFFF in IN_MEMORY


def mincore(libc: ctypes.CDLL, fd: int) -> dict[str, int] | None:
    """Return how much of a file is in the page cache, by way of a mapping; None if not known."""
    import mmap  # the job may never need it

    status = os.fstat(fd)
    size_bytes = status.st_size
    # The kernel calls every page of a file cached, to who neither owns it nor may write to it.
    if status.st_uid != os.geteuid() and not os.access(
        f"/proc/self/fd/{fd}", os.W_OK, effective_ids=True
    ):
        return None
    if size_bytes == 0:
        return {CACHE_NAMES[0]: 0}
    with mmap.mmap(fd, size_bytes, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE) as mapped:
        here = (ctypes.c_char * size_bytes).from_buffer(mapped)
        found = ctypes.create_string_buffer(-(-size_bytes // PAGE_BYTES))
        failed = libc.mincore(ctypes.byref(here), ctypes.c_size_t(size_bytes), found)
        del here  # the mapping cannot be closed before
    pages = len(found.raw) - found.raw.count(b"\0")
    return None if failed else {CACHE_NAMES[0]: pages * PAGE_BYTES}


def files_of(path: str) -> Iterator[str]:
    """Yield a file, or the files in a folder at any depth; one more than counted, at most.

    Raises:
        OSError: There is no such file, or a folder may not be read.
    """
    if os.path.isfile(path):
        yield path
        return
    found = 0
    folders = [path]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                elif entry.is_file():  # to open a pipe or a device is not without effect
                    yield entry.path
                    found += 1
                    if found > FILES_MAX:
                        return


def read_proc(path: str) -> bytes:
    """Return a file of /proc, nothing if it cannot be read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        content = b""
        while part := os.read(fd, 4096):
            content += part
        return content
    except OSError:  # some may be opened, and not be read
        return b""
    finally:
        os.close(fd)
