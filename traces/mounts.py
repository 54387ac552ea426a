"""The file systems that hold a job's files, and what they ask of a request."""

from __future__ import annotations

import ctypes
import os
import re
import struct
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from iotrace.traces.lustre import stripes
from iotrace.traces.metadata import Mount

AT_FDCWD = -100
STATX_DIOALIGN = 0x2000  # Linux 6.1
STATX_BYTES = 256
STATX_MASK_AT = 0
STATX_DIO_ALIGNMENT_AT = 152  # stx_dio_mem_align, stx_dio_offset_align
_MOST_BYTES = 2**63 - 1  # of metadata; file systems over object stores say 2^64 for "no end"


@dataclass(frozen=True)
class MountPoint:
    """A line of /proc/self/mountinfo."""

    path: str
    device: str
    source: str
    file_system: str
    options: str


def find_mounts(paths: Iterable[str], host: int) -> tuple[Mount, ...]:
    """Return the file systems that hold `paths`, in order of first use.

    What a file system asks of direct I/O is asked of a file on it, the first of `paths` there
    that still exists.
    """
    points = mount_points(Path("/proc/self/mountinfo").read_text(errors="surrogateescape"))
    folders: dict[str, MountPoint] = {}
    files: dict[MountPoint, str | None] = {}
    for path in paths:
        folder = os.path.dirname(path)
        point = folders.get(folder) or mount_of(folder, points)
        folders[folder] = point
        if files.setdefault(point, None) is None and os.path.isfile(path):
            files[point] = path
    return tuple(describe_mount(point, file, host) for point, file in files.items())


def mount_points(mountinfo: str) -> list[MountPoint]:
    """Parse /proc/self/mountinfo.

    >>> mount_points("36 35 98:0 / /data\\\\040x rw,noatime shared:1 - xfs /dev/sda1 rw,largeio")
    [MountPoint(path='/data x', device='98:0', source='/dev/sda1', file_system='xfs', \
options='rw,noatime,largeio')]
    """
    points = []
    for line in mountinfo.splitlines():
        fields, _, super_block = line.partition(" - ")
        _, _, device, _, path, options, *_ = fields.split(" ")
        file_system, source, *super_options = super_block.split(" ")
        all_options = [*options.split(","), *",".join(super_options).split(",")]
        joined = ",".join(dict.fromkeys(option for option in all_options if option))
        points.append(MountPoint(unescape(path), device, unescape(source), file_system, joined))
    return points


def unescape(text: str) -> str:
    """Return a field of mountinfo as it was: octal escapes for space, tab, newline, backslash."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)


def mount_of(folder: str, points: Iterable[MountPoint]) -> MountPoint:
    """Return the mount that holds a folder: the longest that is above it, the last if covered."""
    real = os.path.realpath(folder)
    above = [p for p in points if p.path == "/" or f"{real}/".startswith(f"{p.path}/")]
    return max(reversed(above), key=lambda point: len(point.path))


def describe_mount(point: MountPoint, file: str | None, host: int) -> Mount:
    """Return what is known about a file system, as seen through one file on it."""
    memory_alignment, offset_alignment = alignment(file) if file else (None, None)
    stripe_bytes, stripe_count = stripes(file) if file else (None, None)
    space = space_of(point.path)
    return Mount(
        path=point.path,
        host=host,
        source=point.source,
        file_system=point.file_system,
        version=version_of(point),
        options=point.options,
        block_bytes=space and space.f_bsize,
        dio_offset_alignment_bytes=offset_alignment,
        dio_memory_alignment_bytes=memory_alignment,
        read_ahead_bytes=read_ahead_bytes(point.device),
        stripe_bytes=stripe_bytes,
        stripe_count=stripe_count,
        total_bytes=space and min(space.f_blocks * space.f_frsize, _MOST_BYTES),
        free_bytes=space and min(space.f_bavail * space.f_frsize, _MOST_BYTES),
    )


def space_of(path: str) -> os.statvfs_result | None:
    """Return sizes of the file system at a path, None where it is not reachable."""
    try:
        return os.statvfs(path)
    except OSError:
        return None


def version_of(point: MountPoint) -> str:
    """Return the version of a file system that has one of its own; others come with the kernel."""
    if point.file_system.startswith("nfs"):
        return next((o[5:] for o in point.options.split(",") if o.startswith("vers=")), "")
    with suppress(OSError):
        return Path("/sys/fs", point.file_system, "version").read_text().strip()
    return ""


def read_ahead_bytes(device: str) -> int | None:
    """Return the read-ahead of a device, given as major:minor."""
    try:
        return int(Path("/sys/class/bdi", device, "read_ahead_kb").read_text()) * 1024
    except (OSError, ValueError):
        return None


def alignment(file: str) -> tuple[int | None, int | None]:
    """Return what direct I/O on a file asks of buffers and of offsets; None if it is not said."""
    buffer = ctypes.create_string_buffer(STATX_BYTES)
    libc = ctypes.CDLL(None)
    path = os.fsencode(file)
    if not hasattr(libc, "statx") or libc.statx(AT_FDCWD, path, 0, STATX_DIOALIGN, buffer) != 0:
        return None, None
    (mask,) = struct.unpack_from("=I", buffer, STATX_MASK_AT)
    memory, offset = struct.unpack_from("=II", buffer, STATX_DIO_ALIGNMENT_AT)
    return (memory, offset) if mask & STATX_DIOALIGN and offset else (None, None)
