"""This machine, as a job on it sees it: its cores and its memory."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from iotrace.traces.metadata import Host

CGROUPS = Path("/sys/fs/cgroup")
VIRTIO_DEVICES = Path("/sys/bus/virtio/devices")
BALLOON = 5  # the virtio id of a memory balloon
FREE_PAGE_REPORTING = 5  # its feature bit, VIRTIO_BALLOON_F_REPORTING


class _Files(NamedTuple):
    """Where a control group tells its limit and its use, and what its statistics call cache."""

    limit: str
    used: str
    cached: str


_VERSION_1 = _Files("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
_VERSION_2 = _Files("memory.max", "memory.current", "inactive_file")


def describe_host() -> Host:
    """Return this machine as the job sees it: its cores and memory limit are those of its group."""
    return Host(
        name=platform.node(),
        boot_id=boot_id(),
        kernel=platform.release(),
        machine=platform.machine(),
        cores=len(os.sched_getaffinity(0)),
        memory_bytes=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        cgroup_limit_bytes=memory_limit_bytes(),
        gives_memory_back=gives_memory_back(),
    )


def gives_memory_back(devices: Path = VIRTIO_DEVICES) -> bool:
    """Return whether this is a virtual machine that gives free memory back to its host.

    The host must then find memory again at the first use of a page that was free: a file written
    into the page cache after a pause was seen to take 4 to 10 times as long as one written right
    after another was removed. A recording and a replay differ by as much.
    """
    for device in devices.glob("*"):
        identity, features = read_line(device / "device"), read_line(device / "features")
        is_balloon = identity.startswith("0x") and int(identity, 16) == BALLOON
        if is_balloon and features[FREE_PAGE_REPORTING : FREE_PAGE_REPORTING + 1] == "1":
            return True
    return False


def boot_id() -> str:
    """Return the id of this boot of this host; empty where the kernel does not say."""
    return read_line(Path("/proc/sys/kernel/random/boot_id"))


def memory_limit_bytes(groups: str | None = None, root: Path = CGROUPS) -> int | None:
    """Return the least memory limit of this process's control groups, None without one.

    Args:
        groups: content of /proc/self/cgroup.
        root: where the control groups are mounted.
    """
    return min((limit for limit, _ in _limits(groups, root)), default=None)


def available_memory_bytes(
    said: str | None = None, groups: str | None = None, root: Path = CGROUPS
) -> int:
    """Return what this process may take without anybody being killed for it.

    Args:
        said: content of /proc/meminfo.
        groups, root: see `memory_limit_bytes`.
    """
    lines = (said if said is not None else read_text(Path("/proc/meminfo"))).splitlines()
    kib = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    left = (max(limit - used, 0) for limit, used in _limits(groups, root))
    return min(int(kib[0]) << 10 if kib else machine, *left, machine)


def _limits(groups: str | None, root: Path) -> Iterator[tuple[int, int]]:
    """Yield the memory limits of groups and of those around them, with what is used of each."""
    text = groups if groups is not None else read_text(Path("/proc/self/cgroup"))
    for line in text.splitlines():
        _, controllers, name = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        base, files = (root / "memory", _VERSION_1) if controllers else (root, _VERSION_2)
        group = base / name.lstrip("/")
        for folder in (one for one in (group, *group.parents) if one.is_relative_to(base)):
            limit = _number(read_line(folder / files.limit))
            # Version 1 says "no limit" with the largest multiple of a page.
            if limit is not None and limit < 2**62:
                yield limit, _used_bytes(folder, files)


def _used_bytes(folder: Path, files: _Files) -> int:
    """Return what a group uses, without the part of the page cache that is given up first."""
    words = (line.split() for line in read_text(folder / "memory.stat").splitlines())
    cached = [_number(word[1]) for word in words if len(word) == 2 and word[0] == files.cached]
    return (_number(read_line(folder / files.used)) or 0) - (next(iter(cached), 0) or 0)


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() else None


def read_line(path: Path) -> str:
    """Return the first line of a small file, empty if it cannot be read."""
    return next(iter(read_text(path).splitlines()), "").strip()


def read_text(path: Path) -> str:
    """Return a small file, empty if it cannot be read."""
    try:
        return path.read_text(errors="surrogateescape")
    except OSError:
        return ""
