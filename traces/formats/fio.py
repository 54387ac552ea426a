"""fio's iolog, versions 2 and 3: one line per action on a file.

A log has the order, the extents and (version 3) the time of each action in microseconds; version 2
has pauses at most. It has no end, no result, no thread, no rename, and no name with a space.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from iotrace.traces.errors import TraceFormatError
from iotrace.traces.formats.actions import Actions, Left, actions
from iotrace.traces.formats.lines import Lines, parsing
from iotrace.traces.formats.rows import Rows, absolute, noted
from iotrace.traces.formats.source import Source
from iotrace.traces.metadata import Metadata, Process
from iotrace.traces.trace import Trace
from iotrace.traces.writer import replacing

NAME = "iolog"
HEADER = "fio version {} iolog"
_NAME_MAX = 255  # fio reads no longer word
_PUNCH_HOLE = 0x03  # with KEEP_SIZE: what fio's trim does to a file
_US_NS = 1000
# What each action is in a trace: op, flags.
_ACTIONS = {
    "open": ("open", None),
    "close": ("close", None),
    "read": ("read", None),
    "write": ("write", None),
    "sync": ("sync", 0),
    "datasync": ("sync", 1),
    "trim": ("allocate", _PUNCH_HOLE),
}
_WITH_EXTENT = ("read", "write", "trim")
Named = Callable[[int], str]


def looks_like(source: Source) -> bool:
    """Return whether a file begins as an iolog."""
    first = next(source.first_lines(1), "")
    return first in (HEADER.format(2), HEADER.format(3))


def read(path: Path) -> Trace:
    """Return the requests of a log, each taken as done in full.

    Raises:
        TraceFormatError: a line is none of fio's; it is named.
    """
    rows = Rows()
    lines = Lines(path)
    version = time_ns = 0
    files: dict[str, int] = {}
    is_relative = False
    for text in lines:
        if lines.number == 1:
            version = _version(text, lines)
        elif text.strip():
            with parsing(lines, f"fio iolog of version {version}"):
                words = text.split()
                if version == 3:
                    time_ns = int(words.pop(0)) * _US_NS
                name, action, *numbers = words
                if action == "wait" and version == 2:
                    time_ns += int(numbers[0]) * _US_NS
                elif action != "add":
                    is_relative |= not name.startswith("/")
                    _add(rows, time_ns, absolute(name), files, action, numbers)
    if not version:
        raise TraceFormatError(f"{path} is empty; fio's `write_iolog` writes one")
    notes = [
        "a fio iolog has no results and no ends of requests: each is taken as done in full",
        "a fio iolog has no threads: all requests are in one stream",
    ]
    notes += ["a fio iolog of version 2 has no times, only pauses"] * (version == 2)
    notes += ["names without a folder were put below /"] * is_relative
    return rows.finish(Metadata(processes=(Process(0),), completeness=noted(*notes)))


def _version(text: str, lines: Lines) -> int:
    for version in (2, 3):
        if text.rstrip() == HEADER.format(version):
            return version
    raise lines.error(f"{text[:40]!r} is not the first line of a fio iolog, version 2 or 3")


def _add(
    rows: Rows, time_ns: int, path: str, files: dict[str, int], action: str, numbers: list[str]
) -> None:
    if action not in _ACTIONS:
        raise ValueError(f"no action {action[:40]!r}")
    op, flags = _ACTIONS[action]
    file = files.setdefault(path, len(files))
    values: dict[str, Any] = {"path": path, "file": file, "flags": flags}
    if action in _WITH_EXTENT:
        offset, length = int(numbers[0]), int(numbers[1])
        values |= {"offset": offset, "length": length, "result": 0 if op == "allocate" else length}
        values |= {} if op == "allocate" else {"offset_source": "argument"}
    else:
        values["result"] = 0
    rows.add(op, time_ns, **values)


def write(trace: Trace, target: Path) -> list[str]:
    """Write all requests as one log of version 3, in order of start; return what it leaves out.

    Raises:
        OSError: the file cannot be written.
    """
    left = Left()
    found = actions(trace, left)
    with replacing(target) as file:
        file.writelines(f"{line}\n".encode("utf-8", "surrogateescape") for line in log(found, left))
    streams = len(set(zip(found.process.tolist(), found.thread.tolist(), strict=True)))
    if streams > 1:
        left.say(f"which of the {streams} threads issued a request; --to fio writes one log each")
    return left.sentences()


def log(found: Actions, left: Left, named: Named | None = None) -> Iterator[str]:
    """Yield the lines of a log.

    Args:
        found: the actions, in order.
        named: returns the name of a file in the log; by default its path.
    """
    name_of = named or (lambda file: found.paths[file])
    yield HEADER.format(3)
    opened: dict[int, int] = {}
    added: set[int] = set()
    for action in found:
        name, us = name_of(action.file), action.start_ns // _US_NS
        if len(name) > _NAME_MAX or any(char.isspace() for char in name):
            what = "on files whose name fio cannot read (a space, or over 255 bytes)"
            left.count("request", which=what)
            continue
        is_open = opened.get(action.file, 0) > 0
        if action.file not in added:
            added.add(action.file)
            yield f"{us} {name} add"
        if action.kind == "open":
            opened[action.file] = opened.get(action.file, 0) + 1
            if not is_open:
                yield f"{us} {name} open"
        elif action.kind == "close":
            if not is_open:
                continue
            opened[action.file] -= 1
            if not opened[action.file]:
                yield f"{us} {name} close"
        else:
            if not is_open:
                opened[action.file] = 1
                yield f"{us} {name} open"
            yield f"{us} {name} {action.kind} {action.offset} {action.length}"
