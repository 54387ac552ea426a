"""The directory replayed into: its file system, and what direct I/O and eviction do there."""

import ctypes
import errno
import fcntl
import mmap
import os
import struct
import tempfile
from dataclasses import dataclass
from pathlib import Path

from iotrace.replay.loop import resident_bytes

_PROBE_BYTES = 1 << 20
_AT_EMPTY_PATH = 0x1000
_STATX_DIOALIGN = 0x2000
_STATX_BYTES = 256
_RWF_DONTCACHE = 0x80  # linux/fs.h, since 6.14
# Byte offsets in struct statx (linux/stat.h): what it filled in, and the alignment of offsets.
_MASK_AT, _OFFSET_AT = 0, 156
_FIEMAP = 0xC020660B  # FS_IOC_FIEMAP (linux/fs.h)


@dataclass(frozen=True)
class Target:
    """What a replay can expect below its root.

    Attributes:
        file_system: its name, such as `ext4`.
        offset_alignment_bytes: what O_DIRECT asks of offsets and lengths; None: not told.
        direct_refusal: why O_DIRECT cannot be used; None: it can.
        direct_is_effective: whether an O_DIRECT write stays out of the page cache.
        uncached_refusal: why RWF_DONTCACHE cannot be used; None: it can.
        evicts: whether the page cache lets go of a file's clean pages when asked.
    """

    file_system: str
    offset_alignment_bytes: int | None
    direct_refusal: str | None
    direct_is_effective: bool
    uncached_refusal: str | None
    evicts: bool


def probe_target(directory: Path) -> Target:
    """Find out by trying, with a file of 1 MiB that is removed again.

    Raises:
        OSError: the file cannot be written.
    """
    with tempfile.NamedTemporaryFile(dir=directory, prefix="probe-") as probe:
        payload = mmap.mmap(-1, _PROBE_BYTES)  # aligned to pages
        offset_alignment = _direct_alignment(probe.fileno())
        refusal, effective = _try_direct(probe.name, payload)
        if os.pwrite(probe.fileno(), payload, 0) < _PROBE_BYTES:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        uncached = _try_uncached(probe.fileno(), payload)
        os.fsync(probe.fileno())
        os.posix_fadvise(probe.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        evicts = resident_bytes(probe.fileno()) < _PROBE_BYTES // 2
    return Target(
        file_system=file_system_of(directory),
        offset_alignment_bytes=offset_alignment,
        direct_refusal=refusal,
        direct_is_effective=effective,
        uncached_refusal=uncached,
        evicts=evicts,
    )


def _try_direct(path: str, payload: mmap.mmap) -> tuple[str | None, bool]:
    """Return why a direct, aligned write fails, and whether the page cache stays empty."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_DIRECT)
    except OSError as error:
        return f"opening with O_DIRECT fails: {error.strerror}", False
    try:
        os.pwrite(fd, payload, 0)
        return None, resident_bytes(fd) < _PROBE_BYTES // 2
    except OSError as error:
        return f"an aligned O_DIRECT write fails: {error.strerror}", False
    finally:
        os.close(fd)


def writes_in_place(directory: Path) -> bool:
    """Return whether a block that is written again stays where it is, as far as can be told.

    Found out by trying, with a file of 1 MiB that is removed again; where the file system does
    not tell where blocks are, by its name.

    Raises:
        OSError: the file cannot be written.
    """
    with tempfile.TemporaryFile(dir=directory, prefix="probe-") as probe:
        places = set()
        for _ in range(2):
            os.pwrite(probe.fileno(), os.urandom(_PROBE_BYTES), 0)
            os.fsync(probe.fileno())
            places.add(_first_place(probe.fileno()))
    return len(places) == 1 and (None not in places or file_system_of(directory) != "zfs")


def _first_place(fd: int) -> int | None:
    """Return where on the device an open file begins, in bytes; None: not told."""
    # struct fiemap with one extent (linux/fiemap.h): start, length, flags, mapped, count, reserved;
    # logical, physical, length and more.
    request = bytearray(struct.pack("=QQIIII", 0, _PROBE_BYTES, 0, 0, 1, 0) + bytes(56))
    try:
        fcntl.ioctl(fd, _FIEMAP, request)
    except OSError:
        return None
    mapped, place = struct.unpack_from("=I", request, 20)[0], struct.unpack_from("=Q", request, 40)
    return int(place[0]) if mapped else None


def _try_uncached(fd: int, payload: mmap.mmap) -> str | None:
    """Return why a write that the page cache is not to keep fails."""
    try:
        os.pwritev(fd, [payload], 0, _RWF_DONTCACHE)
    except OSError as error:
        return f"a write with RWF_DONTCACHE fails: {error.strerror}"
    return None


def _direct_alignment(fd: int) -> int | None:
    """Return the alignment of offsets that statx tells, where it does (Linux 6.1)."""
    buffer = ctypes.create_string_buffer(_STATX_BYTES)
    try:
        statx = ctypes.CDLL(None).statx
    except AttributeError:  # glibc before 2.28
        return None
    if statx(fd, b"", _AT_EMPTY_PATH, _STATX_DIOALIGN, buffer):
        return None

    def number(at: int) -> int:
        return int.from_bytes(buffer.raw[at : at + 4], "little")

    if not number(_MASK_AT) & _STATX_DIOALIGN:
        return None
    return number(_OFFSET_AT) or None


@dataclass(frozen=True)
class MountPoint:
    """Where a folder lies: mount point, file system type, and device or server."""

    path: str = ""
    file_system: str = ""
    source: str = ""


def mount_of(directory: Path) -> MountPoint:
    """Return the mount that holds `directory`; empty where unknown."""
    try:
        lines = Path("/proc/self/mountinfo").read_text(errors="surrogateescape").splitlines()
    except OSError:
        return MountPoint()
    here = str(directory.resolve())
    best = MountPoint()
    for line in lines:
        before, _, after = line.partition(" - ")
        path = before.split()[4].encode("latin-1", "surrogateescape").decode("unicode_escape")
        inside = path == "/" or here == path or here.startswith(path + "/")
        if inside and len(path) >= len(best.path):
            best = MountPoint(path, *after.split()[:2])
    return best


def file_system_of(directory: Path) -> str:
    """Return the name of the file system that holds `directory`; empty where unknown."""
    return mount_of(directory).file_system
