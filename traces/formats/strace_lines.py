"""The lines that strace prints, in any mix of -f, -t, -tt, -ttt, -r, -T and -y."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from enum import Enum

_PID_MAX = 1 << 22  # of Linux; a larger whole number is a time (-ttt without a fraction)
_DAY_NS = 86_400 * 10**9
_PREFIX = re.compile(
    r"\s*(?:\[pid\s+(?P<pid>\d+)\]\s+|(?P<tid>\d+)\s+(?![.\d]*\.\d+\s*\)))?"
    r"(?:(?P<clock>\d\d:\d\d:\d\d(?:\.\d+)?)\s+|(?P<seconds>\d+\.\d+|\d{9,})\s+)?"
    r"(?:\(\+\s*\d+\.\d+\)\s+)?"
)
_NAME = re.compile(r"[\w?]+(?=\()")
_RESUMED = re.compile(r"<\.\.\. ([\w?]+) resumed>")
_RESUMED_OLD = re.compile(r"<\.\.\. ([\w?]+) resumed\s*")
_UNFINISHED = "<unfinished ...>"
_NUMBER = re.compile(r"-?(?:0x[0-9a-f]+|\d+)")
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"(?:\.\.\.)?|<[^<>]*>|[\[{(]|[\]})]|,|[^"<\[{(\]}),]+|.')
_ESCAPE = re.compile(rb"\\(?:([0-7]{1,3})|x([0-9a-fA-F]{1,2})|(.))")
_LETTERS = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"v": b"\v", b"f": b"\f"}
# What strace says of itself, and signals and exits.
_REMARKS = ("+++", "---", "strace: ", ">")


class Kind(Enum):
    """How much of a call a line holds."""

    WHOLE = 0
    BEGIN = 1  # ... <unfinished ...>
    END = 2  # <... read resumed>


@dataclass(frozen=True)
class Stamp:
    """When a line was printed, in ns; which of the three is given depends on the options."""

    realtime_ns: int | None = None
    day_ns: int | None = None
    since_last_ns: int | None = None


@dataclass(frozen=True)
class Line:
    """One line.

    Attributes:
        thread: thread id; None where the log has none.
        text: of the arguments; without what other lines of the call hold.
        result: None where the call did not return, or its part is on a later line.
        result_path: what -y shows of a returned descriptor.
        duration_ns: from -T.
    """

    thread: int | None
    stamp: Stamp
    kind: Kind
    name: str
    text: str
    result: int | None = None
    error: str = ""
    result_path: str | None = None
    duration_ns: int | None = None


def parse_line(text: str) -> Line | None:
    """Return what a line says; None if it is a remark, or empty.

    Raises:
        ValueError: strace does not print such lines.
    """
    match = _PREFIX.match(text)
    assert match is not None  # every part of it may be empty
    rest = text[match.end() :]
    thread, stamp = _stamped(match)
    if not rest or rest.startswith(_REMARKS):
        return None
    resumed = _RESUMED.match(rest) or _RESUMED_OLD.match(rest)
    if resumed:
        arguments, tail = _split_result(rest[resumed.end() :])
        return _returned(thread, stamp, Kind.END, resumed[1], arguments, tail)
    name = _NAME.match(rest)
    if name is None:
        raise ValueError("no call")
    inner = rest[name.end() + 1 :]
    if inner.rstrip().endswith(_UNFINISHED):
        return Line(thread, stamp, Kind.BEGIN, name[0], inner.rstrip()[: -len(_UNFINISHED)])
    arguments, tail = _split_result(inner)
    return _returned(thread, stamp, Kind.WHOLE, name[0], arguments, tail)


def _stamped(match: re.Match[str]) -> tuple[int | None, Stamp]:
    who = match["pid"] or match["tid"]
    thread = int(who) if who else None
    seconds = match["seconds"]
    if thread is not None and thread > _PID_MAX and match["tid"] and not seconds:
        thread, seconds = None, match["tid"]
    if match["clock"]:
        hours, minutes, rest = match["clock"].split(":")
        return thread, Stamp(day_ns=(int(hours) * 60 + int(minutes)) * 60 * 10**9 + to_ns(rest))
    if not seconds:
        return thread, Stamp()
    ns = to_ns(seconds)
    # A log with relative times has no gap of three years in it.
    return thread, Stamp(realtime_ns=ns) if ns >= 10**17 else Stamp(since_last_ns=ns)


def to_ns(seconds: str) -> int:
    """Return decimal seconds as ns, exactly.

    >>> to_ns("1795997927.70262")
    1795997927702620000
    """
    whole, _, fraction = seconds.partition(".")
    return int(whole) * 10**9 + int((fraction + "0" * 9)[:9])


def unwrapped(day_ns: int, before_ns: int) -> int:
    """Return a time of day as one that does not fall back at midnight.

    Args:
        day_ns: since midnight.
        before_ns: the time of the line before, so unwrapped.
    """
    days = before_ns // _DAY_NS
    back = before_ns - (days * _DAY_NS + day_ns)
    return (days + (back > _DAY_NS // 2)) * _DAY_NS + day_ns


def _split_result(text: str) -> tuple[str, str]:
    """Split at the `) = ` before the result, which is the last one outside names."""
    end = len(text)
    for _ in range(16):  # a name may hold an equals sign
        end = text.rfind("= ", 0, end)
        if end < 0:
            break
        before = text[:end].rstrip(" ")
        if before.endswith(")") and len(before) < end:
            return before[:-1], text[end + 2 :]
    raise ValueError("no result")


def _returned(
    thread: int | None, stamp: Stamp, kind: Kind, name: str, arguments: str, tail: str
) -> Line:
    tail = tail.rstrip(" ")
    duration_ns = None
    if tail.endswith(">"):
        before, _, spent = tail[:-1].rpartition(" <")
        if spent.replace(".", "", 1).isdigit():
            tail, duration_ns = before.rstrip(" "), to_ns(spent)
        elif spent == "unavailable":
            tail = before.rstrip(" ")
    if tail.startswith("?"):
        return Line(thread, stamp, kind, name, arguments, duration_ns=duration_ns)
    number = _NUMBER.match(tail)
    if number is None:
        raise ValueError("no result")
    rest = tail[number.end() :]
    path = rest[1 : rest.rfind(">")] if rest.startswith("<") else None
    error = rest.split()[0] if rest.startswith(" E") else ""
    result = int(number[0], 0)
    return Line(thread, stamp, kind, name, arguments, result, error, path, duration_ns)


def split_arguments(text: str) -> list[str]:
    """Return the arguments at the top level.

    >>> split_arguments('3</a,b>, [{iov_base="x,y"..., iov_len=2}], 1')
    ['3</a,b>', '[{iov_base="x,y"..., iov_len=2}]', '1']

    Raises:
        ValueError: a text has no end.
    """
    found: list[str] = []
    parts: list[str] = []
    depth = 0
    for token in _TOKEN.findall(text):
        if token == '"':
            raise ValueError("a text without an end")
        if token == "," and depth == 0:
            found.append("".join(parts).strip())
            parts = []
            continue
        depth += (token in "[{(") - (token in "]})") if len(token) == 1 else 0
        parts.append(token)
    last = "".join(parts).strip()
    return [*found, last] if last or found else []


def unquoted(argument: str) -> str:
    r"""Return the text that an argument quotes.

    >>> unquoted(r'"/tmp/a\"b\303\244"')
    '/tmp/a"bä'

    Raises:
        ValueError: it is no text: an address, or NULL.
    """
    text = argument.removesuffix("...")
    if len(text) < 2 or not text.startswith('"') or not text.endswith('"'):
        raise ValueError(f"{argument[:40]!r} is no text")
    return unescaped(text[1:-1])


def unescaped(text: str) -> str:
    """Return what the escapes in a text or a name stand for."""
    if "\\" not in text:
        return text
    return os.fsdecode(_ESCAPE.sub(_unescape, os.fsencode(text)))


def _unescape(match: re.Match[bytes]) -> bytes:
    octal, hexadecimal, letter = match.groups()
    if octal or hexadecimal:
        return bytes([int(octal or hexadecimal, 8 if octal else 16) & 0xFF])
    return _LETTERS.get(letter, letter)
