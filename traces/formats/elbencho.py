"""elbencho's operations log (--opslog): a JSON line when an operation begins, and one when it ends.

Times are to the millisecond. Reads and writes name a descriptor, not a file: the file is the one
that the worker has opened last, or `/elbencho/fd-N` where it has opened none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from iotrace.traces.errors import TraceFormatError
from iotrace.traces.foreign_json import parse_foreign_json
from iotrace.traces.formats.lines import Lines, parsing
from iotrace.traces.formats.rows import Rows, absolute, check_time, noted
from iotrace.traces.formats.source import Source
from iotrace.traces.metadata import Metadata, Process
from iotrace.traces.trace import Trace
from iotrace.traces.words import listed, plural

NAME = "elbencho"
_KEYS = {"date", "worker_rank", "op_name", "entry_name", "is_finished"}
_OPS = {
    **dict.fromkeys(("open", "openat"), "open"),
    "close": "close",
    **dict.fromkeys(("pread", "aioread", "cuFileRead", "hdfsPread"), "read"),
    **dict.fromkeys(("pwrite", "aiowrite", "cuFileWrite", "hdfsWrite"), "write"),
    **dict.fromkeys(("S3GetObject", "S3GetObjectAsync"), "read"),
    **dict.fromkeys(("S3PutObject", "S3UploadPart", "S3UploadPartAsync"), "write"),
    **dict.fromkeys(("unlink", "unlinkat"), "unlink"),
    **dict.fromkeys(("mkdir", "mkdirat"), "mkdir"),
    **dict.fromkeys(("rmdir", "rmdirat"), "rmdir"),
}
_ASYNCHRONOUS = {"aioread": "libaio", "aiowrite": "libaio"}
_NO_API = ("S3", "hdfs", "cuFile")
_MS_NS = 10**6
_ERROR = -5  # EIO: the log does not tell which
_MAX_NAME = 40  # of an operation in a note


class _Begun(NamedTuple):
    """An operation that has begun."""

    ns: int
    values: dict[str, Any]


def looks_like(source: Source) -> bool:
    """Return whether the first line is of an operations log."""
    try:
        value = parse_foreign_json(next(source.first_lines(1), ""))
    except ValueError:
        return False
    return isinstance(value, dict) and value.keys() >= _KEYS


def read(path: Path) -> Trace:
    """Return the operations of a log.

    Raises:
        TraceFormatError: a line is none of elbencho's; it is named.
    """
    log = _Log()
    lines = Lines(path)
    for text in lines:
        if text.strip():
            with parsing(lines, "elbencho operations log"):
                event = parse_foreign_json(text)
                log.take(event, str(event["op_name"]))
    if not lines.number:
        raise TraceFormatError(f"{path} is empty; `elbencho --opslog` writes one")
    return log.finish()


class _Log:
    """The rows, and the operations that have begun."""

    def __init__(self) -> None:
        self._rows = Rows()
        self._begun: dict[tuple[int, str, str, int, int], list[_Begun]] = {}
        self._workers: dict[int, int] = {}
        self._opened: dict[int, str] = {}
        self._paths: dict[tuple[int, str], str] = {}
        self._files: dict[str, int] = {}
        self._others: Counter[str] = Counter()
        self._orphans = 0

    def take(self, event: Mapping[str, Any], name: str) -> None:
        """Take one line."""
        if name not in _OPS:
            if event["is_finished"] is False:
                self._others[name] += 1
            return
        worker, entry = int(event["worker_rank"]), str(event["entry_name"])
        offset, length = int(event["offset"]), int(event["length"])
        if min(offset, length) < 0 or offset + length >= 2**63:
            raise ValueError(f"{length} bytes at {offset}")
        ns = _ns(str(event["date"]))
        key = worker, name, entry, offset, length
        if not event["is_finished"]:
            op = _OPS[name]
            values = self._values(worker, name, op, entry, offset, length)
            self._begun.setdefault(key, []).append(_Begun(ns, values))
            return
        waiting = self._begun.get(key)
        if not waiting:
            self._orphans += 1
            return
        begun = waiting.pop(0)
        failed = bool(event["is_error"])
        self._finish(begun, name, max(ns, begun.ns), _ERROR if failed else None)
        if _OPS[name] == "open" and not failed:
            self._opened[worker] = absolute(entry)

    def _values(
        self, worker: int, name: str, op: str, entry: str, offset: int, length: int
    ) -> dict[str, Any]:
        path = self._path(worker, op, entry)
        plain = "posix" if not name.startswith(_NO_API) else None
        values: dict[str, Any] = {
            "api": _ASYNCHRONOUS.get(name, plain),
            "thread": self._workers.setdefault(worker, len(self._workers)),
            "path": path,
        }
        if op in ("read", "write"):
            values |= {"offset": offset, "length": length, "offset_source": "argument"}
        if op not in ("mkdir", "rmdir"):
            values["file"] = self._files.setdefault(path, len(self._files))
        return values

    def _path(self, worker: int, op: str, entry: str) -> str:
        if not entry.isdecimal() or op in ("open", "mkdir", "rmdir", "unlink"):
            return absolute(entry)
        key = worker, entry
        if key not in self._paths:
            self._paths[key] = self._opened.pop(worker, f"/elbencho/fd-{entry}")
        path = self._paths[key]
        if op == "close":
            del self._paths[key]
        return path

    def _finish(self, begun: _Begun, name: str, end_ns: int | None, error: int | None) -> None:
        values = begun.values
        done = values.get("length", 0) if end_ns is not None else None
        result = done if error is None else error
        self._rows.add(_OPS[name], begun.ns, end_ns=end_ns, result=result, **values)

    def finish(self) -> Trace:
        """Return the trace; asynchronous operations have no end in the log."""
        unfinished = 0
        for (_, name, *_), waiting in self._begun.items():
            for begun in waiting:
                self._finish(begun, name, None, None)
                unfinished += 1
        metadata = Metadata(processes=(Process(0),), completeness=noted(*self._notes(unfinished)))
        return self._rows.finish(metadata, is_realtime=True)

    def _notes(self, unfinished: int) -> Iterator[str]:
        yield "elbencho's log has times to the millisecond, and descriptors instead of files"
        if unfinished:
            what = "without an end in the log (asynchronous ones have none)"
            yield f"{plural(unfinished, 'operation')} {what}"
        if self._orphans:
            yield f"{plural(self._orphans, 'end')} of operations whose beginning is not in the log"
        if self._others:
            kinds = listed([repr(name[:_MAX_NAME]) for name, _ in self._others.most_common()])
            yield f"{plural(self._others.total(), 'operation')} of other kinds left out ({kinds})"


def _ns(date: str) -> int:
    when = datetime.strptime(date, "%Y-%m-%dT%H:%M:%S.%f%z")
    return check_time(int(when.timestamp()) * 10**9 + when.microsecond // 1000 * _MS_NS)
