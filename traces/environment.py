"""This machine, as a job on it sees it: its cores and its memory."""

from __future__ import annotations

import os
import platform
from pathlib import Path

from iotrace.traces.metadata import Host

CGROUPS = Path("/sys/fs/cgroup")
VIRTIO_DEVICES = Path("/sys/bus/virtio/devices")
BALLOON = 5  # the virtio id of a memory balloon
FREE_PAGE_REPORTING = 5  # its feature bit, VIRTIO_BALLOON_F_REPORTING


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
    lines = (groups if groups is not None else read_text(Path("/proc/self/cgroup"))).splitlines()
    limits = [limit for line in lines for limit in limits_of(line, root)]
    return min(limits, default=None)


def available_memory_bytes(said: str | None = None) -> int:
    """Return what this process may take without anybody being killed for it.

    Args:
        said: content of /proc/meminfo.
    """
    lines = (said if said is not None else read_text(Path("/proc/meminfo"))).splitlines()
    kib = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limit = memory_limit_bytes()
    return min(int(kib[0]) << 10 if kib else machine, machine if limit is None else limit)


def limits_of(line: str, root: Path) -> list[int]:
    """Return the memory limits on the way from one group to the root."""
    _, controllers, name = line.split(":", 2)
    if controllers and "memory" not in controllers.split(","):
        return []
    base, file = (root / "memory", "memory.limit_in_bytes") if controllers else (root, "memory.max")
    group = base / name.lstrip("/")
    folders = [group, *group.parents]
    values = (read_line(folder / file) for folder in folders if folder.is_relative_to(base))
    # Version 1 says "no limit" with the largest multiple of a page.
    return [int(value) for value in values if value.isdecimal() and int(value) < 2**62]


def read_line(path: Path) -> str:
    """Return the first line of a small file, empty if it cannot be read."""
    return next(iter(read_text(path).splitlines()), "").strip()


def read_text(path: Path) -> str:
    """Return a small file, empty if it cannot be read."""
    try:
        return path.read_text(errors="surrogateescape")
    except OSError:
        return ""
