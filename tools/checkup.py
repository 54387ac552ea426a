"""What this machine can do for a capture and for a replay, found out by trying.

Each check does the real thing in miniature: an O_DIRECT write, a preloaded process, a captured
`torch.save`. Reading a version number would say what ought to work; users need what does.
"""

from __future__ import annotations

import os
import platform
import resource
import shutil
import subprocess
import sys
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from iotrace.replay.target import Target
from iotrace.tools.render import format_bytes
from iotrace.traces.metadata import Mount

_SMALL_SHARED_MEMORY_BYTES = 256 << 20  # containers get 64 MiB by default: too little for torch
_REGISTERED_BYTES = 64 << 20
_MEMORY_FILE_SYSTEMS = ("tmpfs", "ramfs", "devtmpfs")


class Status(Enum):
    """How much of the tool works."""

    OK = "ok"
    NOTE = "note"  # works, with something to know
    FAIL = "FAIL"  # a verb of the tool does not work


@dataclass(frozen=True)
class Check:
    """One finding: what was looked at, how it is, and what to do about it."""

    name: str
    status: Status
    detail: str
    remedy: str = ""


def check_python() -> Check:
    """Report the interpreter that runs the tool; the job may use another, 3.9 or newer."""
    return Check("Python", Status.OK, f"{platform.python_version()}  {sys.executable}")


def check_kernel() -> Check:
    """Report the running kernel."""
    system = platform.uname()
    return Check("kernel", Status.OK, f"{system.system} {system.release}  {system.machine}")


def check_io_uring(cause: str | None, liburing_version: str) -> Check:
    """Report whether replays can use io_uring.

    Args:
        cause: why not, in words; None when it works.
        liburing_version: of the library this package was built with.
    """
    if cause is None:
        return Check("io_uring", Status.OK, f"works; liburing {liburing_version}")
    return Check(
        "io_uring",
        Status.NOTE,
        f"not usable: {cause}",
        "replays fall back to pread/pwrite (--executor posix)",
    )


def check_storage(root: Path, mount: Mount, target: Target | OSError) -> list[Check]:
    """Report what replays into `root` can expect.

    Args:
        target: what was found by writing there, or why nothing can be written.
    """
    if not isinstance(target, OSError):
        return [check_file_system(root, mount), check_direct(target), check_eviction(target)]
    return [
        Check(
            "file system",
            Status.FAIL,
            f"no probe of 1 MiB can be written to {root}: {target.strerror or target}",
            "replays and captures need one that can: give --root on it",
        ),
        *(
            Check(name, Status.NOTE, "not tried: nothing can be written there")
            for name in ("O_DIRECT", "cold reads")
        ),
    ]


def check_direct(target: Target) -> Check:
    """Report whether an aligned O_DIRECT write succeeds, and what it asks for."""
    name = "O_DIRECT"
    if target.direct_refusal is not None:
        return Check(
            name,
            Status.NOTE,
            target.direct_refusal,
            "--direct replays buffered here; give --root on another file system",
        )
    if not target.direct_is_effective:
        return Check(name, Status.NOTE, "accepted, but the data go through the page cache")
    alignment_bytes = target.offset_alignment_bytes
    asked = "not told" if alignment_bytes is None else format_bytes(alignment_bytes)
    return Check(name, Status.OK, f"works; alignment of offset and length: {asked}")


def check_eviction(target: Target) -> Check:
    """Report whether reads can be replayed cold, with the file out of the page cache."""
    if target.evicts:
        return Check("cold reads", Status.OK, "the page cache lets go of files when asked")
    return Check(
        "cold reads",
        Status.NOTE,
        "the page cache keeps files: replayed reads are warm",
        "add --direct, or give --root on another file system",
    )


def check_file_system(root: Path, mount: Mount) -> Check:
    """Report what `root` is on, its free space and its read-ahead."""
    name = "file system"
    detail = f"{root} is on {mount.file_system}, {format_bytes(mount.free_bytes)} free"
    if mount.file_system in _MEMORY_FILE_SYSTEMS:
        return Check(
            name,
            Status.NOTE,
            f"{detail}; it is memory: figures say nothing about storage",
            "give --root on the storage you want to know about",
        )
    if mount.read_ahead_bytes is not None:
        detail += f", read-ahead {format_bytes(mount.read_ahead_bytes)}"
    return Check(name, Status.OK, detail)


def check_memlock() -> Check:
    """Report the limit on locked memory, which registered buffers count against."""
    soft_bytes, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    if soft_bytes == resource.RLIM_INFINITY:
        return Check("memlock", Status.OK, "no limit")
    if soft_bytes >= _REGISTERED_BYTES:
        return Check("memlock", Status.OK, format_bytes(soft_bytes))
    return Check(
        "memlock",
        Status.NOTE,
        f"{format_bytes(soft_bytes)}; io_uring buffers may stay unregistered",
        "raise it: ulimit -l unlimited",
    )


def check_shared_memory(folder: Path = Path("/dev/shm")) -> Check:
    """Report the free space of shared memory, which jobs with worker processes need."""
    name = "shared memory"
    if not folder.is_dir():
        return Check(name, Status.NOTE, f"no {folder}", "mount a tmpfs there for torch workers")
    free_bytes = shutil.disk_usage(folder).free
    detail = f"{folder} has {format_bytes(free_bytes)} free"
    if free_bytes < _SMALL_SHARED_MEMORY_BYTES:
        return Check(name, Status.NOTE, detail, "start the container with a larger --shm-size")
    return Check(name, Status.OK, detail)


def check_preload(library: Path) -> Check:
    """Report whether the dynamic linker takes the preload library into a process."""
    name = "preload library"
    if not library.is_file():
        return Check(name, Status.FAIL, f"{library} is missing", "build it: make native")
    child = subprocess.run(
        [sys.executable, "-S", "-c", "print(open('/proc/self/maps').read())"],
        env={**os.environ, "LD_PRELOAD": str(library)},
        capture_output=True,
        text=True,
        check=False,
    )
    if child.returncode == 0 and str(library.resolve()) in child.stdout:
        return Check(name, Status.OK, "loads into a process")
    said = child.stderr.strip().splitlines() or [f"the child ended with {child.returncode}"]
    return Check(name, Status.FAIL, said[0], "build it for this machine: make clean native")
