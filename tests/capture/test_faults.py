"""Loads through mmap, seen as page faults; the process's own count is the oracle."""

import mmap
import os
import re
import resource
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from iotrace.capture.fault_rings import HEAD_AT, PREFIX, RECORD_SAMPLE, SUFFIX, Ring, begun
from iotrace.capture.faults import LOST_AT, SAMPLE, parse, read_faults
from iotrace.traces.reader import read_trace
from iotrace.traces.trace import Trace
from iotrace.traces.words import sized
from tests.tools.command import iotrace

from .preload_job import capture

MAP_LOCKED = 0x2000  # <bits/mman.h>: what others drop from the page cache is not dropped
AHEAD = "what read-ahead brought of them was not seen"
PAGE_BYTES = resource.getpagesize()
# No capability is left: to perf this is any user, to the file system still the owner.
AS_ANY_USER = ("setpriv", "--bounding-set=-all", "--inh-caps=-all", "--ambient-caps=-all")
LOAD = """
import resource, sys
import torch
from safetensors.torch import load_file
torch.set_num_threads(1)
def touch(tensor):
    tensor.view(torch.uint8)[:: int(sys.argv[2])].sum()
touch(torch.ones(1 << 20, dtype=torch.uint8))  # the code's own pages are in memory then
before = resource.getrusage(resource.RUSAGE_SELF).ru_majflt
for tensor in load_file(sys.argv[1]).values():
    touch(tensor)
print(resource.getrusage(resource.RUSAGE_SELF).ru_majflt - before)
"""


@dataclass(frozen=True)
class Disk:
    """A file system on a loop device."""

    folder: Path
    device: str

    def set_read_ahead(self, kib: int) -> None:
        """Set what is read beyond a page that is missing; 0: nothing."""
        name = Path(self.device).name
        Path(f"/sys/block/{name}/queue/read_ahead_kb").write_text(str(kib))

    def forget(self) -> None:
        """Drop what the page cache holds of it."""
        subprocess.run(["umount", self.folder], check=True)
        subprocess.run(["mount", self.device, self.folder], check=True)


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Disk]:
    """Return a disk with 64 MiB in a safetensors file, `weights`."""
    torch = pytest.importorskip("torch")
    save_file = pytest.importorskip("safetensors.torch").save_file
    if os.getuid() != 0 or not shutil.which("losetup"):
        pytest.skip("a loop device needs root")
    folder = tmp_path_factory.mktemp("disk")
    image, place = folder / "image", folder / "mounted"
    place.mkdir()
    with image.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, 120 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", image], check=True)
    found = subprocess.run(
        ["losetup", "--find", "--show", image], capture_output=True, text=True, check=False
    )
    if found.returncode:
        pytest.skip(f"no loop device: {found.stderr.strip()}")
    disk = Disk(place, found.stdout.strip())
    try:
        subprocess.run(["mount", disk.device, place], check=True)
        tensors = {f"layer.{i}": torch.ones(16 << 20, dtype=torch.uint8) for i in range(4)}
        save_file(tensors, place / "weights")
        (folder / "load.py").write_text(LOAD)
        yield disk
    finally:
        subprocess.run(["umount", place], check=False)
        subprocess.run(["losetup", "--detach", disk.device], check=True)


def run_capture(disk: Disk, *prefix: str) -> tuple[Trace, int]:
    """Load the file under capture; return the trace and the faults that the process counted."""
    folder = disk.folder.parent
    capture = ["capture", "--force", "-o", str(folder / "trace.parquet"), "--"]
    capture += [sys.executable, "load.py", str(disk.folder / "weights"), str(PAGE_BYTES)]
    if prefix:
        command = [*prefix, sys.executable, "-m", "iotrace.tools", *capture]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    else:
        done = iotrace(*capture, cwd=folder)
    assert done.returncode == 0, done.stderr
    return read_trace(folder / "trace.parquet"), int(done.stdout)


@pytest.mark.parametrize(
    ("read_ahead_kib", "prefix"),
    [(128, ()), (16, AS_ANY_USER), (0, ()), (0, AS_ANY_USER)],
    ids=["128 KiB as root", "16 KiB as any user", "none as root", "none as any user"],
)
def test_each_fault_of_a_load_is_a_row(
    disk: Disk, read_ahead_kib: int, prefix: tuple[str, ...]
) -> None:
    """A mapped load is slow where read-ahead is off, and nothing but its faults shows that."""
    disk.set_read_ahead(read_ahead_kib)
    disk.forget()
    trace, counted = run_capture(disk, *prefix)
    rows = trace.where(trace.row_mask(op="fault"))
    assert set(rows.strings("path")) == {str(disk.folder / "weights")}
    assert abs(len(rows) - counted) <= max(3, 0.02 * counted)
    file_bytes = (disk.folder / "weights").stat().st_size
    offsets = rows.ints("offset")
    assert (offsets % PAGE_BYTES == 0).all() and offsets.max() < file_bytes
    if read_ahead_kib == 0:
        pages = len(np.unique(offsets)) * PAGE_BYTES
        assert pages > 0.98 * file_bytes
    completeness = trace.metadata.completeness
    mapped = [problem for problem in completeness.problems() if "mapped" in problem]
    unseen = f"{sized(file_bytes)} of 1 file were mapped into memory for reading; {AHEAD}"
    assert mapped == ([unseen] if read_ahead_kib else [])


def test_a_load_from_the_page_cache_says_what_was_not_seen(disk: Disk) -> None:
    """It makes no fault, and must not pass for a load of nothing."""
    with (disk.folder / "weights").open("rb") as file:
        flags = mmap.MAP_SHARED | mmap.MAP_POPULATE | MAP_LOCKED
        with mmap.mmap(file.fileno(), 0, flags, mmap.PROT_READ):
            trace, _ = run_capture(disk)
    assert not trace.row_mask(op="fault").any()
    file_bytes = (disk.folder / "weights").stat().st_size
    assert (
        f"{sized(file_bytes)} of 1 file were mapped into memory for reading; "
        "what was read of them from memory was not seen"
    ) in trace.metadata.completeness.problems()


@pytest.mark.parametrize("prefix", [(), AS_ANY_USER], ids=["root", "any user"])
def test_a_load_of_which_a_part_was_cached_says_how_much(
    disk: Disk, prefix: tuple[str, ...]
) -> None:
    """It has faults, and a replay of it that starts cold would read twice as much."""
    disk.set_read_ahead(16)
    disk.forget()
    weights = disk.folder / "weights"
    file_bytes = weights.stat().st_size
    with weights.open("rb") as file:
        for _ in range(3 * file_bytes // (4 << 20)):
            file.read(1 << 20)
    trace, _ = run_capture(disk, *prefix)
    assert trace.row_mask(op="fault").any()
    problem, ahead = [p for p in trace.metadata.completeness.problems() if "mapped" in p]
    assert ahead.endswith(AHEAD)
    found = re.fullmatch(
        r"about ([\d.]+) MiB of (.*) of 1 file were in memory already when they were mapped "
        "into it for reading: such a load is partly warm",
        problem,
    )
    assert found, problem
    assert found[2] == sized(file_bytes)
    assert abs(float(found[1]) * (1 << 20) / file_bytes - 0.75) < 0.03
    rows = trace.where(trace.row_mask(layer="counter"))
    looks = [name == "mapped_cached_bytes" for name in rows.strings("name")]
    assert {path for path, is_look in zip(rows.strings("path"), looks, strict=True) if is_look} == {
        str(weights)
    }


@pytest.mark.parametrize(("mode", "looks"), [(0o444, 0), (0o666, 1)])
def test_root_of_a_namespace_is_told_the_cache_of_what_it_may_write(
    tmp_path: Path, mode: int, looks: int
) -> None:
    """Of a file of others that it may only read, the kernel calls every page cached."""
    alone = ("unshare", "--user", "--map-root-user")
    if os.getuid() or subprocess.run([*alone, "true"], capture_output=True).returncode:
        pytest.skip("giving a file away needs root, and namespaces of users may be refused")
    (tmp_path / "theirs").write_bytes(bytes(PAGE_BYTES))
    (tmp_path / "theirs").chmod(mode)
    os.chown(tmp_path / "theirs", 1000, 1000)
    code = "import mmap; f = open('theirs'); mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)"
    job = f"cd '{tmp_path}'; exec '{sys.executable}' -S -c \"{code}\""
    captured = capture([*alone, "sh", "-c", job], tmp_path / "logs")
    assert captured.done.returncode == 0, captured.done.stderr
    texts = [log.text(row) for log in captured.logs for row in log.rows("counter").tolist()]
    assert texts.count(b"mapped_cached_bytes") == looks


def test_what_came_too_fast_is_counted() -> None:
    """A ring that was full says how much it did not take."""
    samples = np.zeros(3, SAMPLE)
    samples["type"], samples["size"], samples["pid"] = 9, SAMPLE.itemsize, (1, 2, 3)
    lost = np.array([2 | 24 << 48, 0, 7], "<u8").tobytes()
    assert len(lost) == LOST_AT + 8
    runs, count = parse(samples[:2].tobytes() + lost + samples[2:].tobytes())
    assert count == 7
    assert np.concatenate(runs)["pid"].tolist() == [1, 2, 3]


def test_events_that_find_no_room_on_the_disk_are_counted(tmp_path: Path) -> None:
    """Those that did are kept, the file says how many did not, and nobody is stopped."""
    if os.getuid() != 0:
        pytest.skip("mounting a small file system needs root")
    page, per_page = mmap.PAGESIZE, mmap.PAGESIZE // SAMPLE.itemsize
    mount = ["mount", "-t", "tmpfs", "-o", f"size={page}", "tmpfs", str(tmp_path)]
    if subprocess.run(mount).returncode != 0:
        pytest.skip("this container may not mount")
    try:
        memory = mmap.mmap(-1, 3 * page)
        samples = np.zeros(2 * per_page, SAMPLE)
        samples["type"], samples["size"] = RECORD_SAMPLE, SAMPLE.itemsize
        samples["time_ns"] = np.arange(len(samples))
        memory[page:] = samples.tobytes()
        path = tmp_path / f"{PREFIX}x-0{SUFFIX}"
        ring = Ring(os.open(os.devnull, os.O_RDONLY), memory, 2 * page, begun(path))
        for head in (page // 2, 3 * page // 2, 2 * page):
            struct.pack_into("<Q", memory, HEAD_AT, head)
            ring.drain()
        faults = read_faults(tmp_path)
        ring.close()
    finally:
        subprocess.run(["umount", tmp_path], check=True)
    kept = per_page - 1  # one record counts the others
    assert faults.samples["time_ns"].tolist() == list(range(kept))
    assert faults.lost == 2 * per_page - kept
