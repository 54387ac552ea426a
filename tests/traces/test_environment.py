"""What a trace says about the machine and its file systems."""

import os
import subprocess
from pathlib import Path

import pytest

from iotrace.traces.environment import (
    available_memory_bytes,
    describe_host,
    gives_memory_back,
    memory_limit_bytes,
)
from iotrace.traces.mounts import (
    MountPoint,
    find_mounts,
    mount_of,
    mount_points,
)


def test_the_host_is_the_one_the_job_ran_on() -> None:
    """Two traces are compared by what these say."""
    host = describe_host()
    assert host.name == os.uname().nodename
    assert host.kernel == os.uname().release
    assert host.cores == int(subprocess.check_output(["nproc"]))
    kib = next(
        line.split()[1]
        for line in Path("/proc/meminfo").read_text().splitlines()
        if line.startswith("MemTotal")
    )
    assert host.memory_bytes == int(kib) * 1024
    assert len(host.boot_id) == 36


def test_the_memory_limit_is_the_least_on_the_way_to_the_root(tmp_path: Path) -> None:
    """A container's own group often has no limit while the one around it has."""
    group = tmp_path / "pod" / "job"
    group.mkdir(parents=True)
    (group / "memory.max").write_text("max\n")
    (tmp_path / "pod" / "memory.max").write_text("4096\n")
    assert memory_limit_bytes("0::/pod/job\n", tmp_path) == 4096
    (group / "memory.max").write_text("1024\n")
    assert memory_limit_bytes("0::/pod/job\n", tmp_path) == 1024


def test_the_first_version_of_control_groups_is_understood(tmp_path: Path) -> None:
    """Clusters still run it; its "no limit" is a huge number."""
    group = tmp_path / "memory" / "slurm" / "job"
    group.mkdir(parents=True)
    (tmp_path / "memory" / "memory.limit_in_bytes").write_text("9223372036854771712\n")
    (group / "memory.limit_in_bytes").write_text("8192\n")
    groups = "5:cpu,cpuacct:/slurm/job\n4:memory:/slurm/job\n"
    assert memory_limit_bytes(groups, tmp_path) == 8192


def test_the_available_memory_is_what_the_kernel_says() -> None:
    """Less than the machine has, where others use it; without an answer, all of it."""
    machine = available_memory_bytes("")
    assert available_memory_bytes("MemTotal: 9 kB\nMemAvailable:    2048 kB\n") == 2 << 20
    assert 0 < available_memory_bytes() < machine


def test_what_others_in_a_container_use_is_not_available(tmp_path: Path) -> None:
    """But what the page cache holds of files is: it is given up first."""
    for version, group, names in (
        ("0::/pod\n", tmp_path / "pod", ("memory.max", "memory.current", "inactive_file")),
        (
            "4:memory:/pod\n",
            tmp_path / "memory" / "pod",
            ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
        ),
    ):
        group.mkdir(parents=True)
        (group / names[0]).write_text("8192\n")
        assert available_memory_bytes("", version, tmp_path) == 8192
        (group / names[1]).write_text("7000\n")
        (group / "memory.stat").write_text(f"anon 6000\n{names[2]} 1000\n")
        assert available_memory_bytes("", version, tmp_path) == 2192
        (group / names[1]).write_text("99999\n")
        assert available_memory_bytes("", version, tmp_path) == 0


def test_no_limit_is_none(tmp_path: Path) -> None:
    """Not zero, and not the size of the memory."""
    assert memory_limit_bytes("0::/\n", tmp_path) is None


def test_a_mount_says_what_a_request_must_know(tmp_path: Path) -> None:
    """As findmnt and stat say it."""
    path = tmp_path / "x"
    path.write_bytes(b"x")
    (mount,) = find_mounts([str(path)], host=3)
    said = subprocess.check_output(
        ["findmnt", "-n", "-r", "-o", "TARGET,FSTYPE", "--target", tmp_path], text=True
    ).split()
    assert [mount.path, mount.file_system] == said
    assert mount.host == 3
    assert mount.block_bytes == os.statvfs(path).f_bsize
    assert mount.total_bytes is not None
    assert mount.free_bytes is not None
    assert 0 < mount.free_bytes < mount.total_bytes


def test_a_mount_without_end_is_as_large_as_metadata_can_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file system over a bucket says 16 EiB, which no trace could be read with."""
    endless = os.statvfs_result((4096, 4096, 2**52, 2**52, 2**51, 0, 0, 0, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda path: endless)
    (mount,) = find_mounts([str(tmp_path / "x")], host=0)
    assert (mount.total_bytes, mount.free_bytes) == (2**63 - 1, 2**63 - 1)


def test_direct_alignment_is_that_of_the_file_system(tmp_path: Path) -> None:
    """A direct write at the reported alignment works; without a report there is nothing to try."""
    path = tmp_path / "x"
    path.write_bytes(b"x")
    (mount,) = find_mounts([str(path)], host=0)
    alignment = mount.dio_offset_alignment_bytes
    if alignment is None:
        pytest.skip(f"{mount.file_system} does not say what direct I/O asks for")
    assert alignment & (alignment - 1) == 0
    command = ["dd", "if=/dev/zero", f"of={path}", f"bs={alignment}", "count=1", "oflag=direct"]
    subprocess.run(command, check=True, capture_output=True)


def test_each_file_system_is_listed_once(tmp_path: Path) -> None:
    """Also when thousands of files are on it, and when some are gone."""
    paths = [str(tmp_path / name) for name in "abc"] + ["/dev/shm/x", "/dev/shm/y"]
    mounts = find_mounts(paths, host=0)
    assert len(mounts) == len({mount.path for mount in mounts})
    assert "/dev/shm" in [mount.path for mount in mounts]


def test_a_file_is_on_the_mount_that_covers_it() -> None:
    """Of two mounts on one folder the last is seen; a name is no folder of a longer name."""
    points = [
        MountPoint(p, f"8:{n}", "", "xfs", "") for n, p in enumerate(["/", "/d", "/d", "/data"])
    ]
    assert mount_of("/d/x", points).device == "8:2"
    assert mount_of("/data/x", points).device == "8:3"
    assert mount_of("/database/x", points).device == "8:0"


def test_every_mount_of_this_machine_can_be_read() -> None:
    """Bind mounts, overlays and network file systems fill these lines in many ways."""
    text = Path("/proc/self/mountinfo").read_text()
    assert len(mount_points(text)) == len(text.splitlines())


def test_the_version_of_nfs_is_in_its_options() -> None:
    """Version 4.2 copies and allocates on the server, 3 does not."""
    line = "36 35 0:40 / /home rw - nfs4 server:/home rw,vers=4.2,rsize=1048576"
    (point,) = mount_points(line)
    assert (point.file_system, point.options) == ("nfs4", "rw,vers=4.2,rsize=1048576")


@pytest.mark.parametrize(
    ("identity", "features", "found"),
    [
        ("0x0005", "01100101", True),
        ("0x0005", "01100001", False),  # a balloon without free page reporting
        ("0x0002", "01100101", False),  # a disk
        ("", "", False),
    ],
)
def test_a_virtual_machine_that_gives_memory_back_is_known(
    tmp_path: Path, identity: str, features: str, found: bool
) -> None:
    """There the first use of a page costs what no disk explains."""
    (tmp_path / "virtio0").mkdir()
    (tmp_path / "virtio0" / "device").write_text(identity + "\n")
    (tmp_path / "virtio0" / "features").write_text(features + "\n")
    assert gives_memory_back(tmp_path) is found
    assert not gives_memory_back(tmp_path / "none")
