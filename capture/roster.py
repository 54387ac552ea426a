"""The processes of a job on this host, those without a raw log included.

The layout is `csrc/roster.h`. Most processes of a job touch no file; what they moved is in the
kernel's count of their parents, some go on after the job, and some can only be seen to start.
"""

from __future__ import annotations

import errno
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from iotrace.capture.rawlog import RawLog
from iotrace.capture.roster_program import Ending, Program
from iotrace.traces.environment import boot_id
from iotrace.traces.regular import read_regular
from iotrace.traces.words import plural

PREFIX, SUFFIX = "processes-", ".roster"

ENTRY = np.dtype(
    [
        *((name, "<u4") for name in ("kind", "pid", "parent_pid", "reason")),
        *((name, "<u8") for name in ("boottime_ns", "monotonic_ns")),
        *((name, "<i8") for name in ("bytes_read", "bytes_written", "base_read", "base_written")),
        *((name, "<u8") for name in ("explained_read", "explained_written", "dropped_records")),
        ("text", "S168"),
    ]
)
HEADER = np.dtype(
    [
        *(("magic", "<u8"), ("room", "<u4"), ("taken", "<u4")),
        *(("boot_id", "S40"), ("reserved", "<u8", (25,))),
    ]
)
BEGIN, END, UNWATCHED, EXEC, STAYED, UNLOGGED = 1, 2, 3, 4, 5, 6
ROOM, MAGIC = 8192, 0x3154534F52544F49
ROSTER_BYTES = HEADER.itemsize + ROOM * ENTRY.itemsize
REASONS = {
    1: "is linked statically; what it did itself was not seen",
    2: "ran with other privileges; what it did was not seen",
    3: "does not use this system's C library; what it did was not seen",
}
# Linked statically nearly everywhere; asked by ctypes where libraries are, it writes a list of them
# into a pipe: 70 bytes for each, which the kernel counts for who waits for it.
HARMLESS_PROGRAMS = ("ldconfig", "ldconfig.real")
HARMLESS_PROGRAM_BYTES = 256 << 10


@dataclass(frozen=True)
class Roster:
    """All processes that were seen to begin.

    Attributes:
        boot_id: of the host that they ran on; pids of others are none of theirs.
        processes: the programs of each process, in order.
        unwatched: sentences about the programs that could not be watched.
        is_cut: whether some may have begun that are not listed.
        is_mixed: whether two had one pid at a time, each in a namespace of its own: then nothing
            tells what to take off whose count.
        harmless: how many others could not, that write no file, by who may have waited for them.
    """

    boot_id: str = ""
    processes: tuple[tuple[Program, ...], ...] = ()
    unwatched: tuple[str, ...] = ()
    harmless: Mapping[int, int] = field(default_factory=dict)
    is_cut: bool = False
    is_mixed: bool = False

    def harmless_bytes(self, pid: int) -> int:
        """Return how many bytes that were no file's a pid's count may hold at most."""
        return self.harmless.get(pid, 0) * HARMLESS_PROGRAM_BYTES

    def by_parent(self) -> Mapping[int, Sequence[tuple[Program, ...]]]:
        """Return the processes by the pid of their parent."""
        found: defaultdict[int, list[tuple[Program, ...]]] = defaultdict(list)
        for process in self.processes:
            found[process[0].parent_pid].append(process)
        return found

    def is_of(self, log: RawLog) -> bool:
        """Return whether a log's process ran on this host."""
        return log.header.boot_id == self.boot_id

    def program_of(self, log: RawLog) -> Program | None:
        """Return the program that wrote a log; None if it is not known."""
        if not self.is_of(log):
            return None
        header = log.header
        programs = self._programs.get(header.pid, ())
        begun = (p for p in programs if p.start_ns <= header.monotonic_ns)
        return max(begun, key=lambda program: program.start_ns, default=None)

    @cached_property
    def _programs(self) -> Mapping[int, Sequence[Program]]:
        found: defaultdict[int, list[Program]] = defaultdict(list)
        for process in self.processes:
            for program in process:
                found[program.pid].append(program)
        return found

    def running(self) -> list[Program]:
        """Return the programs that still run and have left no raw log."""
        last = (process[-1] for process in self.processes)
        return [p for p in last if p.ending is None and not p.has_log and p.is_running]

    @property
    def refusal(self) -> int:
        """Return the errno by which a raw log was refused; 0: none was."""
        return max((program.refusal for program in self.without_log()), default=0)

    def without_log(self) -> Iterator[Program]:
        """Yield the programs that left no raw log."""
        for process in self.processes:
            yield from (program for program in process if not program.has_log)


def unlogged(roster: Roster) -> Iterator[str]:
    """Yield how many processes had something to record and no raw log, however they ended."""
    if roster.is_cut:
        yield "the list of processes is cut short: what some did may not be in the trace"
    refused = [p for p in roster.without_log() if p.refusal]
    for refusal in sorted({p.refusal for p in refused}):
        those = [p for p in refused if p.refusal == refusal]
        yield (
            f"{plural(len(those), 'process')} could make no raw log "
            f"({os.strerror(refusal)}), so nothing of it was recorded; the first is "
            f"pid {those[0].pid} ({those[0].name})"
        )


def roster_path(raw_dir: Path) -> Path:
    """Return where the list of this host's processes is."""
    return raw_dir / f"{PREFIX}{os.uname().nodename}{SUFFIX}"


def cut_mark(raw_dir: Path) -> Path:
    """Return the empty file that is there if entries could not be written: it needs no room."""
    return raw_dir / f"{PREFIX}{os.uname().nodename}.cut{SUFFIX}"


def start_roster(raw_dir: Path) -> None:
    """Make the list of this host's processes, empty, with room that processes can map.

    Raises:
        OSError: the disk has no room for it.
    """
    header = np.zeros(1, HEADER)
    header["magic"], header["boot_id"] = MAGIC, boot_id()
    path = roster_path(raw_dir)
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        try:
            os.posix_fallocate(fd, 0, ROSTER_BYTES)
            header["room"] = ROOM
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise
            os.ftruncate(fd, 0)  # without the room, the launcher appends all entries
        os.pwrite(fd, header.tobytes(), 0)
    finally:
        os.close(fd)


def read_roster(raw_dir: Path, logs: Sequence[RawLog] = ()) -> Roster:
    """Read this host's list; without one, nothing is known.

    Args:
        logs: the raw logs beside it, to know which programs have one.
    """
    try:
        data = read_regular(roster_path(raw_dir))
    except OSError:
        return Roster()
    is_cut = cut_mark(raw_dir).exists() or is_short(data)
    boot = boot_of(data)
    data = data[HEADER.itemsize :]
    entries = np.frombuffer(data, ENTRY, count=len(data) // ENTRY.itemsize)
    entries = entries[entries["kind"] != 0]
    entries = entries[np.argsort(entries["monotonic_ns"], kind="stable")]
    created: defaultdict[int, list[int]] = defaultdict(list)
    for log in logs:
        if log.header.boot_id == boot:
            created[log.header.pid].append(log.header.monotonic_ns)
    by_pid: defaultdict[int, list[Program]] = defaultdict(list)
    for entry in entries[np.isin(entries["kind"], (BEGIN, END, UNLOGGED))]:
        take_in(entry, by_pid[int(entry["pid"])])
    processes = (
        process
        for pid, programs in by_pid.items()
        for process in split(mark_logs(programs, created[pid]))
    )
    static = entries[entries["kind"] == UNWATCHED]
    unwatched = (*sentences(static), *vanished(entries[entries["kind"] != UNLOGGED]))
    harmless = harmless_runs(static)
    return Roster(boot, tuple(processes), unwatched, harmless, is_cut, is_mixed(entries))


def boot_of(data: bytes) -> str:
    """Return which boot a list is of; this one where it does not say."""
    if len(data) < HEADER.itemsize:
        return boot_id()
    boot = np.frombuffer(data, HEADER, count=1)["boot_id"][0].decode("ascii", "replace")
    return str(boot) or boot_id()


def is_mixed(entries: Any) -> bool:
    """Return whether a pid of several namespaces ends twice; only the first of one is pid 1."""
    if not np.any(entries["pid"] == 1):
        return False
    ended: set[int] = set()
    for pid, kind in zip(entries["pid"].tolist(), entries["kind"].tolist(), strict=True):
        if kind in (BEGIN, STAYED):
            ended.discard(pid)
        elif kind == END and pid in ended:
            return True
        elif kind == END:
            ended.add(pid)
    return False


def is_short(data: bytes) -> bool:
    """Return whether a list is not as long as it was made."""
    if len(data) < HEADER.itemsize:
        return True
    room = int(np.frombuffer(data, HEADER, count=1)["room"][0])
    return len(data) < HEADER.itemsize + room * ENTRY.itemsize


def take_in(entry: Any, programs: list[Program]) -> None:
    """Add one entry of a pid to its programs."""
    begins = entry["kind"] == BEGIN
    if begins or not programs:  # a process forked without libc only ends: who knows since when
        programs.append(
            Program(
                pid=int(entry["pid"]),
                parent_pid=int(entry["parent_pid"]),
                name=os.fsdecode(entry["text"]),
                start_ns=int(entry["monotonic_ns"]) if begins else 0,
                boottime_ns=int(entry["boottime_ns"]),
            )
        )
    if entry["kind"] == UNLOGGED:
        programs[-1] = replace(programs[-1], refusal=int(entry["reason"]))
    if entry["kind"] == END:
        names = ("bytes_read", "bytes_written", *ENTRY.names[8:-1])  # type: ignore[index]
        ending = Ending(int(entry["monotonic_ns"]), *(int(entry[name]) for name in names))
        programs[-1] = replace(programs[-1], ending=ending)


def mark_logs(programs: Sequence[Program], created_ns: Iterable[int]) -> list[Program]:
    """Return the programs of a pid with those marked that made a log while they ran."""
    starts = np.array([program.start_ns for program in programs])
    logged = set((np.searchsorted(starts, sorted(created_ns), "right") - 1).tolist())
    return [replace(p, has_log=place in logged) for place, p in enumerate(programs)]


def split(programs: Sequence[Program]) -> Iterator[tuple[Program, ...]]:
    """Yield the processes that had a pid one after the other: each has a parent of its own.

    It is 1 once that has ended, and 0 for a later program of the first process of a namespace.
    """
    process: list[Program] = []
    for program in programs:
        if process and program.parent_pid not in (process[-1].parent_pid, 0, 1):
            yield tuple(process)
            process = []
        process.append(program)
    if process:
        yield tuple(process)


def sentences(entries: Any) -> Iterator[str]:
    """Yield once for each program why it could not be watched."""
    seen = dict.fromkeys(zip(entries["text"].tolist(), entries["reason"].tolist(), strict=True))
    for text, reason in seen:
        if not is_harmless(text) and reason in REASONS:
            yield f"{os.fsdecode(text)} {REASONS[reason]}"


def is_harmless(path: bytes) -> bool:
    """Return whether a program that cannot be watched is known to write no file."""
    return os.path.basename(os.fsdecode(path)) in HARMLESS_PROGRAMS


def harmless_runs(entries: Any) -> Mapping[int, int]:
    """Return how often harmless programs were started, by pid of who may have waited for them."""
    runs: defaultdict[int, int] = defaultdict(int)
    for entry in entries:
        if is_harmless(entry["text"]):  # told by the parent (posix_spawn) or by its child
            for pid in {int(entry["pid"]), int(entry["parent_pid"])}:
                runs[pid] += 1
    return dict(runs)


def vanished(entries: Any) -> Iterator[str]:
    """Yield the programs that were executed and could not even say that they began."""
    last: dict[int, Any] = {}
    named: set[int] = set()
    for entry in entries:
        pid, kind = int(entry["pid"]), int(entry["kind"])
        if kind == UNWATCHED:
            named.add(pid)
        elif kind == END and pid in last and last[pid]["kind"] == EXEC:
            continue  # what it was before ends, to make way
        else:
            last[pid] = entry
            named -= {pid} if kind != EXEC else set()
    for pid, entry in last.items():
        if entry["kind"] == EXEC and pid not in named:
            yield (
                f"pid {pid} went on as {os.fsdecode(entry['text'])}, which could keep no record "
                "(another user, root folder or limits); what it did was not seen"
            )
