"""blkparse's text of a block trace: requests as the device got them, paired with their completion.

A request begins when it is sent to the driver (D) and ends when it completes (C). It has a device,
sectors and a process, and no file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

from iotrace.traces.errors import TraceFormatError
from iotrace.traces.formats.lines import Lines, parsing
from iotrace.traces.formats.rows import Rows, check_time, noted
from iotrace.traces.formats.source import Source
from iotrace.traces.metadata import Metadata, Process
from iotrace.traces.trace import Trace
from iotrace.traces.words import plural

NAME = "blktrace"
_SECTOR_BYTES = 512
_NS = 10**9
_LINE = re.compile(
    r"\s*(?P<major>\d+),(?P<minor>\d+)\s+\d+\s+\d+\s+(?P<s>\d+)\.(?P<ns>\d{9})\s+(?P<pid>\d+)\s+"
    r"(?P<action>[A-Z]{1,2})\s+(?P<rwbs>[A-Z]+)(?:\s+(?P<rest>.*))?$"
)
_MESSAGE = re.compile(r"\s*\d+,\d+\s+\d+\s+\d+\s+\d+\.\d{9}\s+\d+\s+(?:m|UT?|P)\s")
_EXTENT = re.compile(r"(?P<sector>\d+) \+ (?P<count>\d+)(?: \[(?P<tail>[^\]]*)\])?")
# What blkparse prints behind the requests: "CPU0 (253,0):", "Total (253,0):", "Events (...)".
_SUMMARY = re.compile(r"(CPU\d+|Total|Throughput|Events|Input file|Skips)\b")
_ISSUED, _COMPLETED = "D", "C"
_PUNCH_HOLE = 0x03


class _Issued(NamedTuple):
    """A request on its way."""

    ns: int
    pid: int


def looks_like(source: Source) -> bool:
    """Return whether the first lines are blkparse's."""
    lines = [line for line in source.first_lines(20) if line.strip()]
    lines = list(takewhile(lambda line: not _SUMMARY.match(line), lines))
    return bool(lines) and all(_LINE.match(line) or _MESSAGE.match(line) for line in lines)


class _Log:
    """The rows, and the requests in flight."""

    def __init__(self) -> None:
        self.rows = Rows()
        self.unmatched = 0
        self._in_flight: dict[tuple[str, int, int, str], _Issued] = {}
        self._files: dict[str, int] = {}
        self._processes: dict[int, int] = {}

    def take(self, match: re.Match[str]) -> None:
        """Take one event."""
        if match["action"] not in (_ISSUED, _COMPLETED):
            return
        extent = _EXTENT.match(match["rest"] or "")
        sector, count = (int(extent["sector"]), int(extent["count"])) if extent else (0, 0)
        if (sector + count) * _SECTOR_BYTES >= 2**63:
            raise ValueError(f"no device has a sector {sector}")
        path = f"/dev/block/{match['major']}:{match['minor']}"
        key = path, sector, count, match["rwbs"]
        ns = check_time(int(match["s"]) * _NS + int(match["ns"]))
        if match["action"] == _ISSUED:
            self._in_flight[key] = _Issued(ns, int(match["pid"]))
            return
        issued = self._in_flight.pop(key, None)
        if issued is None:
            self.unmatched += 1
            return
        tail = (extent["tail"] or "0") if extent else "0"
        self._add(key, issued, ns, int(tail) if tail.lstrip("-").isdecimal() else 0)

    def _add(
        self, key: tuple[str, int, int, str], issued: _Issued, end_ns: int | None, error: int
    ) -> None:
        path, sector, count, rwbs = key
        values: dict[str, Any] = {
            "end_ns": None if end_ns is None else max(end_ns, issued.ns),
            "process": self._processes.setdefault(issued.pid, len(self._processes)),
            "path": path,
            "file": self._files.setdefault(path, len(self._files)),
        }
        failed = -abs(error) if error else None
        done = None if end_ns is None else failed
        op = _op(rwbs, count)
        if op == "sync":
            values |= {"flags": 0, "result": 0 if done is None and end_ns is not None else done}
        else:
            offset, length = sector * _SECTOR_BYTES, count * _SECTOR_BYTES
            moved = 0 if op == "allocate" else length
            values |= {"offset": offset, "length": length}
            values["result"] = moved if done is None and end_ns is not None else done
            values |= {"flags": _PUNCH_HOLE} if op == "allocate" else {"offset_source": "argument"}
        self.rows.add(op, issued.ns, **values)

    def finish(self) -> Trace:
        """Return the trace; what was in flight at the end has no completion."""
        lost = len(self._in_flight)
        for key, issued in self._in_flight.items():
            self._add(key, issued, None, 0)
        notes = ["a block trace has devices and sectors, and no files"]
        notes += [f"{plural(self.unmatched, 'completion')} of requests begun before"] * bool(
            self.unmatched
        )
        notes += [f"{plural(lost, 'request')} without a completion in the block trace"] * bool(lost)
        processes = tuple(Process(pid) for pid in self._processes)
        return self.rows.finish(Metadata(processes=processes, completeness=noted(*notes)))


def _op(rwbs: str, count: int) -> str:
    """Return what the RWBS field says: a leading F is a flush before the request."""
    kind = rwbs.lstrip("F")[:1]
    if count == 0 or kind not in ("R", "W", "D"):
        return "sync"
    return {"R": "read", "W": "write", "D": "allocate"}[kind]


def read(path: Path) -> Trace:
    """Return the requests of blkparse's output.

    Raises:
        TraceFormatError: a line is none of blkparse's; it is named.
    """
    log = _Log()
    lines = Lines(path)
    found = False
    for text in _events(lines):
        match = _LINE.match(text)
        if match is None and not _MESSAGE.match(text):
            raise lines.error("this is no line of blkparse's; convert its default output")
        found = True
        if match is not None:
            with parsing(lines, "block trace"):
                log.take(match)
    if not found:
        raise TraceFormatError(f"{path} has no events; convert the output of `blkparse -i NAME`")
    return log.finish()


def _events(lines: Lines) -> Iterator[str]:
    """Yield the lines before blkparse's summary."""
    for text in lines:
        if _SUMMARY.match(text):
            return
        if text.strip():
            yield text
