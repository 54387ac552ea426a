"""The page faults of a job, as rows on the files that were mapped there."""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from iotrace.capture.fault_rings import PREFIX, RECORD_LOST, RECORD_SAMPLE, REFUSED, SUFFIX
from iotrace.capture.files import LogFiles
from iotrace.capture.rawlog import RawLog
from iotrace.traces.regular import read_regular

SAMPLE = np.dtype(
    [
        *(("type", "<u4"), ("misc", "<u2"), ("size", "<u2")),
        *(("pid", "<u4"), ("tid", "<u4"), ("time_ns", "<u8"), ("address", "<u8")),
    ]
)
LOST_AT = 16  # bytes of header and id before the count
MAJOR = 1  # flags of a fault row
NEVER_ENDS = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Faults:
    """All major faults that were seen.

    Attributes:
        samples: with dtype `SAMPLE`, in order of time.
        lost: how many came too fast to be kept, or found no room on the disk.
        refused: why none could be seen; empty if they could.
        boots: of the hosts that were watched; pids of others are none of theirs.
    """

    samples: npt.NDArray[Any]
    lost: int = 0
    refused: str = ""
    boots: frozenset[str] = frozenset()

    def of(self, log: RawLog, until_ns: int) -> npt.NDArray[Any]:
        """Return those of a log's process, up to a time of CLOCK_MONOTONIC."""
        if log.header.boot_id not in self.boots:
            return self.samples[:0]
        is_own = self.samples["pid"] == log.header.pid
        own: npt.NDArray[Any] = self.samples[is_own & (self.samples["time_ns"] < until_ns)]
        return own


@dataclass(frozen=True)
class OnFiles:
    """Faults on mapped files, one entry each.

    Attributes:
        files, paths: codes as in `FileTable`.
        offsets: of the page in its file, in bytes.
    """

    tids: npt.NDArray[np.uint32]
    times_ns: npt.NDArray[np.int64]
    addresses: npt.NDArray[np.uint64]
    files: npt.NDArray[np.int32]
    paths: npt.NDArray[np.int32]
    offsets: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.tids)


@dataclass(frozen=True)
class Mapping:
    """A part of a file in memory, from a time on."""

    address: int
    length: int
    offset: int
    file: int
    path: int
    start_ns: int
    end_ns: int


def read_faults(raw_dir: Path) -> Faults:
    """Read what the capture recorded beside the raw logs."""
    parts, lost, boots = [], 0, set()
    for path in sorted(raw_dir.glob(f"{PREFIX}*{SUFFIX}")):
        boots.add(path.name.removeprefix(PREFIX).rpartition("-")[0])
        samples, missed = parse(read_regular(path))
        parts.extend(samples)
        lost += missed
    try:
        refused = read_regular(raw_dir / REFUSED).decode("utf-8", "replace")
    except OSError:
        refused = "" if parts else "they were not watched"
    every = np.concatenate([np.empty(0, SAMPLE), *parts])
    in_order = every[np.argsort(every["time_ns"], kind="stable")]
    return Faults(in_order, lost, refused, frozenset(boots))


def parse(data: bytes) -> tuple[list[npt.NDArray[Any]], int]:
    """Return the samples of one CPU in runs, and how many were lost."""
    runs: list[npt.NDArray[Any]] = [np.empty(0, SAMPLE)]
    lost, at = 0, 0
    while at + SAMPLE.itemsize <= len(data):
        left = np.frombuffer(data, SAMPLE, (len(data) - at) // SAMPLE.itemsize, at)
        is_sample = (left["type"] == RECORD_SAMPLE) & (left["size"] == SAMPLE.itemsize)
        count = len(left) if is_sample.all() else int(np.argmin(is_sample))
        runs.append(left[:count])
        at += count * SAMPLE.itemsize
        if count < len(left):
            size = int(left["size"][count])
            if left["type"][count] == RECORD_LOST:
                lost += int.from_bytes(data[at + LOST_AT : at + LOST_AT + 8], "little")
            at += max(size, 8)
    return runs, lost


def mappings(log: RawLog, view: LogFiles) -> Iterator[Mapping]:
    """Yield what a process mapped, in order; times are of CLOCK_MONOTONIC."""
    rows = log.rows("map", "unmap")
    records = log.slots[log.positions[rows]]
    is_map = records["op"] == log.header.op_names.index("map")
    open_maps: dict[int, int] = {}
    ends = np.full(len(rows), NEVER_ENDS)
    for row in np.argsort(records["start_ns"], kind="stable").tolist():
        address = int(records["address"][row])
        if is_map[row]:
            open_maps[address] = row
        elif address in open_maps and records["result"][row] == 0:
            ends[open_maps.pop(address)] = records["start_ns"][row]
    for row in np.flatnonzero(is_map & (records["result"] == 0)).tolist():
        number = int(records["file"][row])
        if number < len(view.ids):
            yield Mapping(
                address=int(records["address"][row]),
                length=int(records["length"][row]),
                offset=int(records["offset"][row]),
                file=int(view.ids[number]),
                path=int(view.paths[number]),
                start_ns=int(records["start_ns"][row]),
                end_ns=int(ends[row]),
            )


def on_files(samples: npt.NDArray[Any], mapped: Sequence[Mapping]) -> OnFiles:
    """Return the faults that hit mapped files, with the place in the file."""
    samples = samples[np.argsort(samples["address"], kind="stable")]
    ascending = np.ascontiguousarray(samples["address"])  # or each search would copy them
    owner = np.full(len(samples), -1, np.int32)
    for number, part in enumerate(mapped):  # a later one lies over an earlier
        ends = np.array((part.address, part.address + part.length), np.uint64)
        first, last = np.searchsorted(ascending, ends)
        times = samples["time_ns"][first:last].astype(np.int64)
        owner[first:last][(times >= part.start_ns) & (times <= part.end_ns)] = number
    kept, owner = samples[owner >= 0], owner[owner >= 0]

    def of(name: str, dtype: Any) -> npt.NDArray[Any]:
        return np.array([getattr(part, name) for part in mapped], dtype)[owner]

    page = ~np.uint64(mmap.PAGESIZE - 1)
    addresses = kept["address"] & page
    return OnFiles(
        tids=kept["tid"].astype(np.uint32),
        times_ns=kept["time_ns"].astype(np.int64),
        addresses=addresses,
        files=of("file", np.int32),
        paths=of("path", np.int32),
        offsets=(addresses - of("address", np.uint64)).astype(np.int64) + of("offset", np.int64),
    )


def faults_of(
    place: int, logs: Sequence[RawLog], views: Sequence[LogFiles], faults: Faults
) -> OnFiles:
    """Return the faults of one log's process on files that it mapped."""
    log = logs[place]
    begin_ns = log.header.monotonic_ns  # a process that goes through programs has a log of each
    others = [
        other.header.monotonic_ns
        for other in logs
        if (other.header.pid, other.header.boot_id) == (log.header.pid, log.header.boot_id)
    ]
    until_ns = min((other for other in others if other > begin_ns), default=NEVER_ENDS)
    samples = faults.of(log, until_ns)
    since_ns = 0 if begin_ns == min(others) else begin_ns
    samples = samples[samples["time_ns"] >= since_ns]
    mapped = list(mappings(log, views[place])) if len(samples) else []
    return on_files(samples, mapped)
