"""What the kernel counted of the bytes that each process moved (/proc/PID/io)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from iotrace.capture.processes import has_ended
from iotrace.capture.rawlog import RawLog
from iotrace.capture.roster import Roster
from iotrace.capture.roster_program import Ending, Program
from iotrace.traces.metadata import ProcessCompleteness
from iotrace.traces.words import sized

ByParent = Mapping[int, Sequence[tuple[Program, ...]]]


class Account(NamedTuple):
    """The counters that the preload library reads as its process ends.

    Like all accounts of the kernel this one includes the children that were waited for, and theirs.

    Attributes:
        harmless_bytes: how much of what was written may be that of `HARMLESS_PROGRAMS`.
    """

    time_ns: int
    bytes_read: int
    bytes_written: int
    harmless_bytes: int = 0

    def without_harmless(self, explained_bytes: int) -> int:
        """Return the bytes written without what harmless programs may have added to them."""
        unexplained = max(0, self.bytes_written - explained_bytes)
        return self.bytes_written - min(unexplained, self.harmless_bytes)

    def without(self, bytes_read: int, bytes_written: int) -> Account:
        """Return what is left when some bytes are taken off."""
        return self._replace(
            bytes_read=max(0, self.bytes_read - bytes_read),
            bytes_written=max(0, self.bytes_written - bytes_written),
        )


def account_of(log: RawLog, program: Program | None) -> Account | None:
    """Return the last counters of a log's process, None if it never came to its end.

    Args:
        program: what the list of processes says of it: a log that was full holds no counters.
    """
    rows = log.rows("counter").tolist()
    last = {log.text(row): log.slots[log.positions[row]] for row in rows}
    read, written = last.get(b"rchar"), last.get(b"wchar")
    if read is not None and written is not None:
        return Account(int(written["start_ns"]), int(read["result"]), int(written["result"]))
    return account_at(program.ending) if program and program.ending else None


def account_at(ending: Ending) -> Account:
    """Return what a program had moved when it ended."""
    return Account(
        ending.time_ns,
        ending.total_read - ending.base_read,
        ending.total_written - ending.base_written,
    )


def own_accounts(
    logs: Sequence[RawLog], family: Sequence[RawLog], roster: Roster
) -> list[Account | None]:
    """Return what each process moved itself; None where that is not known.

    Args:
        logs: the processes asked for.
        family: all logs of the job, for their children.
        roster: the processes of this host, for the children that have no log.
    """
    if roster.is_mixed:
        return [None] * len(logs)
    programs = {log.path: roster.program_of(log) for log in family}
    accounts = {log.path: account_of(log, programs[log.path]) for log in family}
    listed = {program.pid for process in roster.processes for program in process}
    unlisted = [log for log in family if log.header.pid not in listed or not roster.is_of(log)]
    by_parent = roster.by_parent()
    own = []
    for log in logs:
        account = accounts[log.path]
        if account is not None and roster.is_of(log):
            program = programs[log.path]
            since_ns = program.start_ns if program else 0
            account = without_listed(account, log.header.pid, since_ns, by_parent)
            if account is not None:
                account = account._replace(harmless_bytes=roster.harmless_bytes(log.header.pid))
        own.append(without_unlisted(account, log, unlisted, accounts))
    return own


def without_listed(
    account: Account | None, pid: int, since_ns: int, by_parent: ByParent
) -> Account | None:
    """Return an account without the children of a program that ended before it was read.

    Args:
        since_ns: when the program began: what an earlier one's children moved is not in it.
    """
    for process in by_parent.get(pid, ()):
        if account is None:
            return None
        last = process[-1]
        if last.ending is None and last.start_ns >= since_ns and not last.is_running:
            return None  # killed: its bytes are in the account, but how many is not known
        ends = [p.ending for p in process if p.ending and p.ending.time_ns <= account.time_ns]
        if ends and ends[-1].time_ns >= since_ns:
            account = account.without(ends[-1].total_read, ends[-1].total_written)
    return account


def without_unlisted(
    account: Account | None,
    log: RawLog,
    family: Sequence[RawLog],
    accounts: dict[Path, Account | None],
) -> Account | None:
    """Return an account without the children that are in no roster: those of another host."""
    for child in children(log, family):
        theirs = accounts[child.path]
        if account is None or (theirs is None and has_ended(child.header)):
            return None
        if theirs is not None and theirs.time_ns <= account.time_ns:
            account = account.without(theirs.bytes_read, theirs.bytes_written)
    return account


def children(log: RawLog, family: Sequence[RawLog]) -> Iterator[RawLog]:
    """Yield the logs of the processes that one started."""
    for other in family:
        header = other.header
        same_host = header.boot_id == log.header.boot_id
        started_later = header.pid_start_ticks >= log.header.pid_start_ticks
        if same_host and started_later and header.parent_pid == log.header.pid:
            yield other


def unseen_without_log(roster: Roster) -> Iterator[str]:
    """Yield which processes without a log moved bytes that nothing explains."""
    if roster.is_mixed:
        return
    by_parent = roster.by_parent()
    for program in roster.without_log():
        ending = program.ending
        if ending is None:
            continue
        account: Account | None = account_at(ending)._replace(
            harmless_bytes=roster.harmless_bytes(program.pid)
        )
        account = without_listed(account, program.pid, program.start_ns, by_parent)
        if account is None:
            continue
        found = ProcessCompleteness(
            process=-1,
            kernel_bytes_read=account.bytes_read,
            kernel_bytes_written=account.without_harmless(ending.explained_written),
            other_bytes_read=ending.explained_read,
            other_bytes_written=ending.explained_written,
        )
        who = f"pid {program.pid} ({program.name})"
        for unseen, verb in (
            (found.unseen_bytes_written, "wrote"),
            (found.unseen_bytes_read, "read"),
        ):
            if unseen:
                yield f"{who}, or a program it ran, {verb} {sized(unseen)} that were not seen"
