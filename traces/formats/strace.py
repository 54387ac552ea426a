"""Import of strace logs: one file, with or without -f, or the folder of files of -ff -o.

What strace shows and how it is read: the descriptors are followed through open, dup, fork, exec
and close, positions through lseek, read and write, so that -y helps and is not needed. Requests of
io_uring and libaio are not in such a log.
"""

from __future__ import annotations

import heapq
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from iotrace.traces.errors import TraceFormatError
from iotrace.traces.formats.lines import Lines, parsing
from iotrace.traces.formats.rows import Rows, noted
from iotrace.traces.formats.source import Source
from iotrace.traces.formats.strace_calls import CREATING, GIVING, UNSEEN, handle, handled
from iotrace.traces.formats.strace_given import GivenDescriptors
from iotrace.traces.formats.strace_lines import Kind, Line, parse_line, unwrapped
from iotrace.traces.formats.strace_names import begin_close
from iotrace.traces.formats.strace_state import Machine
from iotrace.traces.metadata import Metadata
from iotrace.traces.scope import STANDARD_FILES
from iotrace.traces.trace import Trace
from iotrace.traces.words import plural

NAME = "strace"
_PER_THREAD = re.compile(r"\.(\d+)$")
_STEP_NS = 1000  # from one line to the next where the log has no times


def looks_like(source: Source) -> bool:
    """Return whether the first lines are strace's."""
    if source.is_folder:
        files = _thread_files(source.path)
        return bool(files) and looks_like(Source.of(files[0][1]))
    lines = [line for line in source.first_lines(20) if line.strip()]
    calls = 0
    for line in lines:
        try:
            calls += parse_line(line) is not None
        except ValueError:
            return False
    return calls > 0


def read(path: Path) -> Trace:
    """Return the requests of a log.

    Raises:
        TraceFormatError: a line is none of strace's; it is named.
    """
    files = _thread_files(path) if path.is_dir() else [(None, path)]
    if not files:
        raise TraceFormatError(f"{path} has no files NAME.PID as `strace -ff -o NAME` writes them")
    log = _Log(len(files) > 1)
    for call in _merged([_timed(tid, file, log, len(files) > 1) for tid, file in files]):
        log.take(call)
    return log.finish()


def _thread_files(folder: Path) -> list[tuple[int | None, Path]]:
    found = [(_PER_THREAD.search(path.name), path) for path in folder.iterdir() if path.is_file()]
    return sorted((int(match[1]), path) for match, path in found if match)


@dataclass(frozen=True)
class _Timed:
    """A line, when it takes effect and when it began: realtime, or since the log's beginning."""

    ns: int
    start_ns: int
    tid: int
    line: Line
    source: Lines
    number: int

    def __lt__(self, other: _Timed) -> bool:
        return self.ns < other.ns


class _Log:
    """The rows of a log, and what has been seen of its form; `has_files`: one per thread."""

    def __init__(self, has_files: bool) -> None:
        self.machine = Machine()
        self.rows = Rows()
        self.forms: Counter[str] = Counter()
        self._has_files = has_files
        self._given = GivenDescriptors(self.machine)
        self._begun: dict[int, tuple[int, Line]] = {}
        self._watched: set[int] = set()
        self._called: Counter[str] = Counter()

    def take(self, call: _Timed) -> None:
        """Add what one line tells."""
        if not self._has_files:
            self._take(call)
            return
        with parsing(call.source, "strace log", call.number):
            self._given.before(call.tid, call.line)
        self._take(call)
        self._given.after(call.tid, call.line)

    def _take(self, call: _Timed) -> None:
        line = call.line
        with parsing(call.source, "strace log", call.number):
            self._watched.add(call.tid)
            if line.kind is Kind.BEGIN:
                self._begun[call.tid] = call.start_ns, line
                if line.name in CREATING:
                    self.machine.space(call.tid)
                    self.machine.expect(call.tid, "CLONE_THREAD" in line.text)
                elif line.name == "close":
                    begin_close(self.machine.space(call.tid), call.tid, line.text)
                return
            start_ns, text, was_split = call.start_ns, line.text, line.kind is Kind.END
            if was_split:
                begun = self._begun.pop(call.tid, None)
                if begun is None or begun[1].name != line.name:
                    self.machine.lost["beginnings"] += 1
                    return
                start_ns, text = begun[0], begun[1].text + line.text
            end_ns = None if line.duration_ns is None else start_ns + line.duration_ns
            if end_ns is None and was_split and "none" not in self.forms:
                end_ns = max(call.ns, start_ns)
            if line.result is None:
                return
            self._called[line.name] += line.result >= 0
            if not handled(line.name):
                return
            for op, values in handle(self.machine, call.tid, line, text, was_split):
                self._add(call.tid, op, start_ns, end_ns, values)

    def _add(
        self, tid: int, op: str, start_ns: int, end_ns: int | None, values: dict[str, Any]
    ) -> None:
        space = self.machine.space(tid)
        values |= {"process": space.number, "thread": space.thread(tid)}
        self.rows.add(op, start_ns, end_ns=end_ns, api="posix", **values)

    def finish(self) -> Trace:
        """Return the trace."""
        if not self.forms:
            raise TraceFormatError("the strace log has no calls; was it cut short?")
        spaces = self.machine.spaces
        command = next((space.argv for space in spaces if space.argv), ())
        metadata = Metadata(
            command=command,
            processes=tuple(space.described() for space in spaces),
            completeness=noted(
                *self._notes(), unknown_descriptors=self.machine.lost["descriptors"]
            ),
            extra={STANDARD_FILES: sorted(self.machine.given)} if self.machine.given else {},
        )
        has_times = "none" not in self.forms or "durations" in self.forms
        return self.rows.finish(metadata, "realtime" in self.forms, has_times)

    def _notes(self) -> Iterator[str]:
        if "none" in self.forms:
            yield "the strace log has no times (-ttt): only the order of the lines is known"
        elif "relative" in self.forms and self._has_files:
            yield "the strace logs have relative times (-r): their threads' order is not known"
        if self.forms["seconds"] and self._has_files:
            yield (
                "the strace logs have whole seconds (-t): the order of their threads is not known, "
                "nor positions that processes share"
            )
        if "day" in self.forms:
            yield "the strace log has times of day (-t, -tt): the date is not known"
        if "durations" not in self.forms:
            yield "the strace log has no durations (-T): most ends of requests are not known"
        for name in UNSEEN:
            if self._called[name]:
                calls = plural(self._called[name], "call")
                yield f"{calls} of {name}: strace does not show the requests that it makes"
        created = sum(self._called[name] for name in CREATING)
        if created and len(self._watched) == 1:
            tasks = plural(created, "task")
            yield f"{tasks} (process or thread) begun and not followed (strace -f)"
        if self._called["execve"] and not self._called["mmap"]:
            yield "the strace log has no mmap (left out by -e?): mapped files do not show"
        for what, count in sorted(self.machine.lost.items()):
            if what != "descriptors":
                noun, lacking = _LOST[what]
                yield f"{plural(count, noun)} {lacking}"
        if self._begun:
            calls = plural(len(self._begun), "call")
            yield f"{calls} had not returned at the end of the strace log"


_LOST = {
    "positions": ("request", "whose position the strace log does not tell"),
    "folders": ("path", "relative to a folder that the strace log does not tell (-y shows it)"),
    "beginnings": ("call", "of which the strace log has the end alone"),
}


def _timed(tid: int | None, path: Path, log: _Log, has_others: bool) -> Iterator[_Timed]:
    """Yield the calls of one file with their times.

    Where other files have other threads, a descriptor is given at the end of its call if that is
    known: its number may be one that another thread has freed since the call began.
    """
    lines = Lines(path)
    last_ns, torn = 0, None
    giving: _Timed | None = None
    for text in lines:
        if torn is not None:
            raise torn
        try:
            with parsing(lines, "strace log"):
                line = parse_line(text)
        except TraceFormatError as error:
            torn = error  # the last line of a killed strace is no error
            continue
        if line is None:
            continue
        last_ns = _time(line, last_ns, log.forms)
        if line.duration_ns is not None:
            log.forms["durations"] = 1
        if giving is not None:
            yield replace(giving, ns=min(giving.ns, last_ns))
            giving = None
        who = tid if line.thread is None else line.thread
        timed = _Timed(last_ns, last_ns, who or 0, line, lines, lines.number)
        if has_others and line.name in GIVING and line.duration_ns is not None:
            giving = replace(timed, ns=last_ns + line.duration_ns)
        else:
            yield timed
        if line.duration_ns is not None and "none" in log.forms:
            last_ns += line.duration_ns
    if giving is not None:
        yield giving
    if torn is not None and lines.number == 1:
        raise torn


def _time(line: Line, last_ns: int, forms: Counter[str]) -> int:
    stamp = line.stamp
    if stamp.realtime_ns is not None:
        forms["realtime"] = 1
        return stamp.realtime_ns
    if stamp.day_ns is not None:
        forms["day"] = 1
        forms["seconds"] |= stamp.day_ns % 10**9 == 0
        return unwrapped(stamp.day_ns, last_ns)
    if stamp.since_last_ns is not None:
        forms["relative"] = 1
        return last_ns + stamp.since_last_ns
    forms["none"] = 1
    return last_ns + _STEP_NS


def _merged(files: Sequence[Iterator[_Timed]]) -> Iterator[_Timed]:
    return heapq.merge(*files) if len(files) > 1 else files[0]
