"""Which file a record is about: identities that survive renames and the reuse of inodes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np
import numpy.typing as npt

from iotrace.capture.clock import Clock
from iotrace.capture.names import UNKNOWN, Event, History, Naming
from iotrace.capture.paths import PathTable
from iotrace.capture.rawlog import RawLog

Codes = npt.NDArray[np.int32]
Inode = tuple[str, int, int]  # boot id, device, number

# These name their paths in text; of opens those that failed, of syncs those of folders.
NAMING_OPS = (
    *("open", "truncate", "stat", "getxattr", "sync"),
    *("rename", "link", "unlink", "mkdir", "rmdir"),
)
FIELDS = ("file", "offset", "length", "result", "address", "flags")
INODE_OPS = ("rename", "link", "unlink")
# The birth time of a file that is opened as it is made; the clock it comes from may lag by a tick.
NEW_FILE_NS = 1_000_000_000
EVER_NS = -(2**63)


@dataclass(frozen=True)
class LogFiles:
    """The files of one log: by the number of an open, and by record for those that name paths.

    Codes index `FileTable.paths`; -1 is unknown, or no path.
    """

    ids: Codes
    paths: Codes
    named_rows: npt.NDArray[np.int64]
    named_ids: Codes
    named_paths: Codes
    named_targets: Codes


@dataclass(frozen=True)
class FileTable:
    """Every file that the job opened; a file has one identity in all processes.

    Attributes:
        logs: the files of each log.
        paths: every path of the job.
        inodes: by identity: boot id, device and number.
        opened_bytes: by identity: size when the job first opened it.
        last_paths: by identity: code of the last name it had.
        is_gone: by identity: whether that name was unlinked, or given to another file.
        names: by path code: the identities that had this name.
        histories: by inode: the identities it was.
    """

    logs: tuple[LogFiles, ...]
    paths: PathTable
    inodes: tuple[Inode, ...]
    opened_bytes: npt.NDArray[np.int64]
    last_paths: Codes
    is_gone: npt.NDArray[np.bool_]
    names: dict[int, History]
    histories: dict[Inode, History]

    def __len__(self) -> int:
        return len(self.inodes)

    def named(self, path: str, time_ns: int) -> int:
        """Return the file that had this name at a time, -1 if none ever had."""
        history = self.names.get(self.paths.find(path))
        return history.at(time_ns) if history else UNKNOWN


def identify(logs: Sequence[RawLog], clock: Clock) -> FileTable:
    """Find the files of all logs and what they were called."""
    paths = PathTable()
    boots = [log.header.boot_id for log in logs]
    events = [event for log in enumerate(logs) for event in read_events(*log, clock, paths)]
    events.sort(key=lambda event: event.time_ns)
    opened, histories = identities(events, boots, clock.epoch_realtime_ns)
    naming = Naming(paths)
    ids = [
        naming.see(event, opened_id if event.op == "file" else holder(event, boots, histories))
        for event, opened_id in zip(events, opened, strict=True)
    ]
    first: dict[int, Event] = {}
    for event, identity in zip(events, ids, strict=True):
        if event.op == "file":
            first.setdefault(identity, event)
    return FileTable(
        logs=tuple(log_files(events, ids, len(logs))),
        paths=paths,
        inodes=tuple((boots[e.log], e.offset, e.length) for e in first.values()),
        opened_bytes=np.array([e.address for e in first.values()], np.int64),
        last_paths=np.array([naming.last[i] for i in range(len(first))], np.int32),
        is_gone=np.array([i in naming.gone for i in range(len(first))], np.bool_),
        names=naming.histories,
        histories=histories,
    )


def read_events(place: int, log: RawLog, clock: Clock, paths: PathTable) -> Iterator[Event]:
    """Yield the records of one log that describe or name a file."""
    rows = log.rows("file", *NAMING_OPS)
    records = log.slots[log.positions[rows]]
    usable = (records["text_bytes"] > 0) & (records["file"] <= log.header.files)
    # An open through a ring has the path of its file beside it; only a failed one needs that.
    usable &= (records["op"] != log.header.op_names.index("open")) | (records["file"] == 0)
    rows, records = rows[usable], records[usable]
    columns = (
        clock.times(log, records["start_ns"]),
        repeat(place),
        rows,
        (log.header.op_names[op] for op in records["op"].tolist()),
        *(records[n].astype(np.int64) for n in FIELDS),
    )
    lists = (c.tolist() if isinstance(c, np.ndarray) else c for c in columns)
    for values in zip(*lists, strict=False):
        path, _, target = log.text(values[2]).partition(b"\0")
        target_code = paths.code_of_spelling(target) if target else UNKNOWN
        described = (*values, paths.code_of_spelling(path), target_code)
        yield Event._make(described)


def identities(
    events: Sequence[Event], boots: Sequence[str], epoch_realtime_ns: int
) -> tuple[list[int], dict[Inode, History]]:
    """Return each event's file, for opens; and what each inode was over time.

    An inode is another file after its last name is gone. Its birth time tells, but not on every
    file system, and not within one tick of the kernel's coarse clock.
    """
    known: dict[tuple[Inode, int, int], int] = {}
    inodes = Inodes()
    ids = []
    for event in events:
        inode = (boots[event.log], event.offset, event.length)
        identity = UNKNOWN
        if event.op == "file":
            opened_ns = event.time_ns + epoch_realtime_ns
            born_ns = max(0, event.result)  # none: unknown
            is_old = 0 < born_ns < opened_ns - NEW_FILE_NS
            lives = 0 if is_old else inodes.ended[inode]
            identity = known.setdefault((inode, born_ns, lives), len(known))
            birth_ns = born_ns - epoch_realtime_ns if born_ns else None
            inodes.open(inode, event, identity, birth_ns)
        elif event.result == 0 and event.op in INODE_OPS:
            inodes.change(inode, event)
        ids.append(identity)
    return ids, inodes.histories


class Inodes:
    """Follows, in time order, which file an inode is.

    Attributes:
        ended: by inode: how many files it has been that are gone.
        histories: by inode: its files over time, unknown where it was one that was never opened.
    """

    def __init__(self) -> None:
        """Start before the first event."""
        self.ended: defaultdict[Inode, int] = defaultdict(int)
        self.histories: dict[Inode, History] = {}
        self._links: defaultdict[Inode, int] = defaultdict(int)
        self._named: dict[int, Inode] = {}
        self._last_end_ns: dict[Inode, int] = {}

    def open(self, inode: Inode, event: Event, identity: int, birth_ns: int | None) -> None:
        """Take in that a file was opened: the inode was it before, but not before its birth."""
        self._named[event.path] = inode
        history = self.histories.setdefault(inode, History())
        since_ns = event.time_ns
        if not history.values or history.values[-1] == UNKNOWN:
            ended_ns = self._last_end_ns.get(inode, EVER_NS)
            since_ns = min(since_ns, max(ended_ns, EVER_NS if birth_ns is None else birth_ns))
        if not history.values:
            history.add(EVER_NS, UNKNOWN)
        history.add(since_ns, identity)

    def change(self, inode: Inode, event: Event) -> None:
        """Take in a call that changed names, and what it made of the file that lost one."""
        if event.op == "unlink":
            self._named.pop(event.path, None)
            self._lose_name(inode, event.time_ns)
            return
        if event.op == "link":
            self._links[inode] += 1
        else:
            self._named.pop(event.path, None)
            replaced = self._named.get(event.target, inode)
            if replaced != inode:
                self._lose_name(replaced, event.time_ns)
        self._named[event.target] = inode

    def _lose_name(self, inode: Inode, time_ns: int) -> None:
        if self._links[inode]:
            self._links[inode] -= 1
            return
        self.ended[inode] += 1
        self._last_end_ns[inode] = time_ns + 1
        if inode in self.histories:
            self.histories[inode].add(time_ns + 1, UNKNOWN)


def holder(event: Event, boots: Sequence[str], histories: dict[Inode, History]) -> int:
    """Return the file whose inode a rename, link or unlink named."""
    if event.op not in INODE_OPS:
        return UNKNOWN
    history = histories.get((boots[event.log], event.offset, event.length))
    return history.at(event.time_ns) if history else UNKNOWN


def log_files(events: Sequence[Event], ids: Sequence[int], logs: int) -> Iterator[LogFiles]:
    """Yield the view of each log."""
    rows: list[list[tuple[int, ...]]] = [[] for _ in range(logs)]
    opens: list[list[tuple[int, ...]]] = [[] for _ in range(logs)]
    for event, identity in zip(events, ids, strict=True):
        if event.op == "file":
            opens[event.log].append((event.number, identity, event.path))
        else:
            rows[event.log].append((event.row, identity, event.path, event.target))
    for opened, named in zip(opens, rows, strict=True):
        number, identity, path = as_columns(opened, 3)
        by_number = np.full((2, int(number.max(initial=0)) + 1), UNKNOWN, np.int32)
        by_number[:, number] = identity, path
        named_rows, named_ids, named_paths, named_targets = as_columns(sorted(named), 4)
        yield LogFiles(
            ids=by_number[0],
            paths=by_number[1],
            named_rows=named_rows,
            named_ids=named_ids.astype(np.int32),
            named_paths=named_paths.astype(np.int32),
            named_targets=named_targets.astype(np.int32),
        )


def as_columns(rows: Sequence[tuple[int, ...]], width: int) -> npt.NDArray[Any]:
    """Return the transposed rows; of shape (width, 0) if there are none."""
    return np.array(rows, np.int64).reshape(-1, width).T
