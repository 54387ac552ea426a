"""What the kernel counted of the bytes that each process moved (/proc/PID/io)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from iotrace.capture.processes import has_ended
from iotrace.capture.rawlog import RawLog


class Account(NamedTuple):
    """The counters that the preload library reads as its process ends.

    Like all accounts of the kernel this one includes the children that were waited for, and theirs.
    """

    time_ns: int
    bytes_read: int
    bytes_written: int


def account_of(log: RawLog) -> Account | None:
    """Return the last counters in a log, None if its process never came to its end."""
    rows = log.rows("counter").tolist()
    last = {log.text(row): log.slots[log.positions[row]] for row in rows}
    read, written = last.get(b"rchar"), last.get(b"wchar")
    if read is None or written is None:
        return None
    return Account(int(written["start_ns"]), int(read["result"]), int(written["result"]))


def own_accounts(logs: Sequence[RawLog], family: Sequence[RawLog]) -> list[Account | None]:
    """Return what each process moved itself; None where that is not known.

    Children without a log cannot be taken off: programs that touched no file in scope.

    Args:
        logs: the processes asked for.
        family: all logs of the job, for their children.
    """
    accounts = {log.path: account_of(log) for log in family}
    return [own_account(log, family, accounts) for log in logs]


def own_account(
    log: RawLog, family: Sequence[RawLog], accounts: dict[Path, Account | None]
) -> Account | None:
    """Return an account without the children that ended before it was read."""
    account = accounts[log.path]
    if account is None:
        return None
    bytes_read, bytes_written = account.bytes_read, account.bytes_written
    for child in children(log, family):
        theirs = accounts[child.path]
        if theirs is None and has_ended(child.header):
            return None  # killed: its bytes are in the account, but how many is not known
        if theirs is not None and theirs.time_ns <= account.time_ns:
            bytes_read -= theirs.bytes_read
            bytes_written -= theirs.bytes_written
    return Account(account.time_ns, max(0, bytes_read), max(0, bytes_written))


def children(log: RawLog, family: Sequence[RawLog]) -> Iterator[RawLog]:
    """Yield the logs of the processes that one started."""
    for other in family:
        header = other.header
        same_host = header.boot_id == log.header.boot_id
        started_later = header.pid_start_ticks >= log.header.pid_start_ticks
        if same_host and started_later and header.parent_pid == log.header.pid:
            yield other
