"""What the threads of a running job are doing right now, as the kernel tells it in /proc.

A raw log has a blocking request when it has ended, so it cannot tell of one that is stuck. /proc
can, of any process, captured or not: the call a thread is in, its arguments, and where it waits.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from iotrace.capture.processes import RANK_VARIABLES
from iotrace.traces.errors import CaptureError

PROC = Path("/proc")
_PATH_BYTES = 4096
_LAST_RAN = "se.exec_start"
_AT_POSITION = 2**64 - 1  # as an offset of preadv2 and pwritev2

# Calls as (op, argument of the descriptor, of the path, of the length, of the offset); -1: none.
_Form = tuple[str, int, int, int, int]
_X86_64: Mapping[int, _Form] = {
    0: ("read", 0, -1, 2, -1), 1: ("write", 0, -1, 2, -1),
    17: ("read", 0, -1, 2, 3), 18: ("write", 0, -1, 2, 3),
    19: ("read", 0, -1, -1, -1), 20: ("write", 0, -1, -1, -1),
    295: ("read", 0, -1, -1, 3), 296: ("write", 0, -1, -1, 3),
    327: ("read", 0, -1, -1, 3), 328: ("write", 0, -1, -1, 3),
    40: ("sendfile", 1, -1, 3, -1), 326: ("copy", 0, -1, 4, -1),
    2: ("open", -1, 0, -1, -1), 257: ("open", -1, 1, -1, -1), 3: ("close", 0, -1, -1, -1),
    74: ("sync", 0, -1, -1, -1), 75: ("sync", 0, -1, -1, -1), 277: ("sync", 0, -1, -1, -1),
    306: ("sync", 0, -1, -1, -1), 73: ("flock", 0, -1, -1, -1), 72: ("fcntl", 0, -1, -1, -1),
    77: ("truncate", 0, -1, 1, -1), 285: ("allocate", 0, -1, 3, 2),
    82: ("rename", -1, 0, -1, -1), 264: ("rename", -1, 1, -1, -1),
    316: ("rename", -1, 1, -1, -1), 87: ("unlink", -1, 0, -1, -1), 263: ("unlink", -1, 1, -1, -1),
    83: ("mkdir", -1, 0, -1, -1), 258: ("mkdir", -1, 1, -1, -1), 262: ("stat", -1, 1, -1, -1),
    5: ("stat", 0, -1, -1, -1), 332: ("stat", -1, 1, -1, -1), 217: ("list", 0, -1, -1, -1),
    426: ("io_uring wait", 0, -1, -1, -1), 208: ("libaio wait", -1, -1, -1, -1),
    11: ("unmap", -1, -1, 1, -1), 26: ("msync", -1, -1, 1, -1),
    4: ("stat", -1, 0, -1, -1), 6: ("stat", -1, 0, -1, -1), 333: ("libaio wait", -1, -1, -1, -1),
}  # fmt: skip
_AARCH64: Mapping[int, _Form] = {
    63: ("read", 0, -1, 2, -1), 64: ("write", 0, -1, 2, -1),
    67: ("read", 0, -1, 2, 3), 68: ("write", 0, -1, 2, 3),
    65: ("read", 0, -1, -1, -1), 66: ("write", 0, -1, -1, -1),
    69: ("read", 0, -1, -1, 3), 70: ("write", 0, -1, -1, 3),
    56: ("open", -1, 1, -1, -1), 57: ("close", 0, -1, -1, -1),
    82: ("sync", 0, -1, -1, -1), 83: ("sync", 0, -1, -1, -1),
    32: ("flock", 0, -1, -1, -1), 25: ("fcntl", 0, -1, -1, -1),
    46: ("truncate", 0, -1, 1, -1), 47: ("allocate", 0, -1, 3, 2),
    276: ("rename", -1, 1, -1, -1), 35: ("unlink", -1, 1, -1, -1), 34: ("mkdir", -1, 1, -1, -1),
    79: ("stat", -1, 1, -1, -1), 80: ("stat", 0, -1, -1, -1), 291: ("stat", -1, 1, -1, -1),
    61: ("list", 0, -1, -1, -1), 426: ("io_uring wait", 0, -1, -1, -1),
    286: ("read", 0, -1, -1, 3), 287: ("write", 0, -1, -1, 3),
    71: ("sendfile", 1, -1, 3, -1), 285: ("copy", 0, -1, 4, -1),
    84: ("sync", 0, -1, -1, -1), 267: ("sync", 0, -1, -1, -1), 38: ("rename", -1, 1, -1, -1),
    4: ("libaio wait", -1, -1, -1, -1), 292: ("libaio wait", -1, -1, -1, -1),
    215: ("unmap", -1, -1, 1, -1), 227: ("msync", -1, -1, 1, -1),
}  # fmt: skip
_FORMS = {"x86_64": _X86_64, "aarch64": _AARCH64}
# Where the kernel waits, by a part of the function's name.
_WAITS = (
    ("request_wait_answer", "the FUSE server"), ("fuse_", "the FUSE server"),
    ("pipe", "the other end of a pipe"), ("lock_inode", "a file lock"), ("flock", "a file lock"),
    ("rpc_", "the NFS server"), ("nfs", "the NFS server"), ("ptlrpc", "the Lustre server"),
    ("ldlm", "a Lustre lock"), ("cl_sync", "the Lustre server"), ("osc_", "the Lustre server"),
    ("balance_dirty", "dirty pages to be written"), ("jbd2", "the journal"),
    ("folio_wait", "storage"), ("io_schedule", "storage"), ("blk_", "storage"),
    ("rq_qos", "storage"), ("submit_bio", "storage"), ("iomap_dio", "storage"),
    ("cqring", "storage (io_uring)"),
    ("futex", "a lock of the program"), ("nanosleep", "a sleep"), ("poll", "a socket or pipe"),
    ("ep_", "a socket or pipe"), ("sk_", "the network"), ("tcp_", "the network"),
    ("inet_", "the network"), ("unix_", "a local socket"), ("do_wait", "a child process"),
    ("vfs_lock", "a file lock"), ("posix_lock", "a file lock"),
)  # fmt: skip


@dataclass(frozen=True)
class Doing:
    """What one thread does at a moment.

    Attributes:
        rank: from the environment of its process; -1: outside a launcher.
        state: of the kernel: R runs, S and D wait, T is stopped.
        op: of the request it is in; `running`: in none; `page fault` or `other call`.
        path, offset, length: of the request, where its arguments tell.
        waits_for: in words; empty where that is not known, or it runs.
        where: the kernel's function that it waits in.
        idle_seconds: since it last ran on a processor; None: not told.
    """

    pid: int
    thread: int
    rank: int
    name: str
    state: str
    op: str
    path: str | None
    offset: int | None
    length: int | None
    waits_for: str
    where: str
    idle_seconds: float | None

    @property
    def is_io(self) -> bool:
        """Whether it is in a request of a file or a pipe."""
        return self.op not in ("running", "other call")


def look(pid: int, proc: Path = PROC) -> list[Doing]:
    """Return what the threads of a process and of its descendants do.

    Raises:
        CaptureError: there is no such process, or it may not be looked into.
    """
    if not (proc / str(pid)).is_dir():
        raise CaptureError(f"no process {pid} runs here; `ps` lists those that do")
    found: list[Doing] = []
    for process in family(pid, proc):
        with suppress(FileNotFoundError, ProcessLookupError):  # it ended meanwhile
            found += _threads(process, proc)
    return found


def family(pid: int, proc: Path = PROC) -> list[int]:
    """Return a process and its descendants, in order of their numbers."""
    parents: dict[int, int] = {}
    for entry in proc.iterdir():
        if entry.name.isdecimal():
            with suppress(OSError, IndexError, ValueError):
                parents[int(entry.name)] = int(_stat(entry)[1])
    found = {pid}
    while more := {p for p, parent in parents.items() if parent in found and p not in found}:
        found |= more
    return sorted(found)


def _stat(folder: Path) -> list[str]:
    """Return the fields of `stat` after the name, which may hold anything."""
    return (folder / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()


def _threads(pid: int, proc: Path) -> Iterator[Doing]:
    own = proc / str(pid)
    rank = _rank(own)
    for folder in sorted((own / "task").iterdir(), key=lambda path: int(path.name)):
        with suppress(FileNotFoundError, ProcessLookupError):
            yield _one(pid, rank, own, folder)


def _rank(folder: Path) -> int:
    with suppress(OSError):
        given = dict(
            entry.partition("=")[::2]
            for entry in (folder / "environ").read_text("utf-8", "replace").split("\0")
        )
        for name in RANK_VARIABLES:
            if given.get(name, "").isdecimal():
                return int(given[name])
    return -1


def _one(pid: int, rank: int, process: Path, folder: Path) -> Doing:
    fields = _stat(folder)
    try:
        call = (folder / "syscall").read_text().split()
    except PermissionError as error:
        raise CaptureError(
            f"process {pid} may not be looked into; ask as its user, or with CAP_SYS_PTRACE"
        ) from error
    where = ""
    with suppress(OSError):
        where = (folder / "wchan").read_text().strip("0\n")
    op, path, offset, length = _request(process, call, where)
    return Doing(
        pid=pid,
        thread=int(folder.name),
        rank=rank,
        name=(folder / "comm").read_text("utf-8", "replace").strip(),
        state=fields[0],
        op=op,
        path=path,
        offset=offset,
        length=length,
        waits_for=next((what for part, what in _WAITS if part in where), ""),
        where=where,
        idle_seconds=None if op == "running" else _idle(folder, int(fields[36])),
    )


def _request(
    process: Path, call: list[str], where: str
) -> tuple[str, str | None, int | None, int | None]:
    """Return op, path, offset and length."""
    if not call or call[0] == "running":
        return "running", None, None, None
    number = int(call[0])
    if number < 0:  # not in a call, and does not run
        return ("page fault" if where else "running"), None, None, None
    form = _FORMS.get(platform.machine(), {}).get(number)
    if form is None:
        return "other call", None, None, None
    op, fd_at, path_at, length_at, offset_at = form
    arguments = [int(word, 16) for word in call[1:7]]
    length = arguments[length_at] if length_at >= 0 else None
    offset = arguments[offset_at] if offset_at >= 0 else None
    if offset == _AT_POSITION:
        offset = None
    path = None
    if fd_at >= 0:
        fd = arguments[fd_at] & 0xFFFFFFFF
        with suppress(OSError):
            path = os.readlink(process / "fd" / str(fd))
        if op in ("read", "write") and offset is None:
            offset = _position(process, fd)
    elif path_at >= 0:
        path = _string(process, arguments[path_at])
    return op, path, offset, length


def _position(process: Path, fd: int) -> int | None:
    with suppress(OSError, IndexError, ValueError):
        return int((process / "fdinfo" / str(fd)).read_text().split()[1])
    return None


def _string(process: Path, address: int) -> str | None:
    """Return a path in the memory of a process."""
    with suppress(OSError, OverflowError, ValueError), (process / "mem").open("rb", 0) as memory:
        memory.seek(address)
        # To the end of the page: the next one may not be there.
        text = memory.read(_PATH_BYTES - address % _PATH_BYTES) or b""
        return text.partition(b"\0")[0].decode("utf-8", "replace") or None
    return None


def _idle(folder: Path, processor: int) -> float | None:
    """Return how long ago a thread ran.

    The kernel keeps that on the clock of the processor it ran on; ours is read on the same.
    """
    last = _last_ran(folder)
    if last is None:
        return None
    allowed = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {processor})
        now = _last_ran(PROC / "thread-self")
    except OSError:
        return None
    finally:
        os.sched_setaffinity(0, allowed)
    return None if now is None else max(0.0, now - last)


def _last_ran(folder: Path) -> float | None:
    """Return when a thread last ran, in seconds of its processor's clock."""
    with suppress(OSError, ValueError):
        for line in (folder / "sched").read_text().splitlines():
            name, _, value = line.partition(":")
            if name.strip() == _LAST_RAN:
                return float(value) / 1e3
    return None
