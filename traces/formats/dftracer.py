"""DFTracer's JSON lines (.pfw, .pfw.gz): calls with times, sizes and the hash of a file's name.

There is no descriptor and mostly no offset: the position is followed for each process and file,
which is wrong where one process has a file open twice at a time; that is said.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from iotrace.traces.errors import TraceFormatError
from iotrace.traces.foreign_json import parse_foreign_json
from iotrace.traces.formats.lines import Lines, parsing
from iotrace.traces.formats.rows import Rows, absolute, fitting, noted
from iotrace.traces.formats.source import Source
from iotrace.traces.metadata import Metadata, Process
from iotrace.traces.open_flags import flags_of_mode
from iotrace.traces.trace import Trace
from iotrace.traces.words import plural

NAME = "dftracer"
_SUFFIXES = (".pfw", ".pfw.gz")
_LINE_MAX_BYTES = 1 << 20
_UNITS_NS = {"SEC": 10**9, "MS": 10**6, "US": 1000, "NS": 1}
_COMPLETE = (1, "X")  # of versions since 2, and before
_IO = ("POSIX", "STDIO")
_FILE_HASH, _TEXT_HASH, _SETTING = "FH", "SH", "CM"
# What a call is in a trace.
_OPS = {
    **dict.fromkeys(("open", "open64", "openat", "openat64", "creat", "creat64"), "open"),
    **dict.fromkeys(("fopen", "fopen64", "fdopen"), "open"),
    **dict.fromkeys(("close", "fclose"), "close"),
    **dict.fromkeys(("read", "pread", "pread64", "readv", "preadv", "fread"), "read"),
    **dict.fromkeys(("write", "pwrite", "pwrite64", "writev", "pwritev", "fwrite"), "write"),
    **dict.fromkeys(("fsync", "fdatasync"), "sync"),
    **dict.fromkeys(("truncate", "truncate64", "ftruncate", "ftruncate64"), "truncate"),
    "rename": "rename",
    "unlink": "unlink",
    "mkdir": "mkdir",
    "rmdir": "rmdir",
}
_SEEKS = ("lseek", "lseek64", "fseek", "fseeko")
_ITEMS = ("fread", "fwrite")  # their count is of items


def looks_like(source: Source) -> bool:
    """Return whether a file is DFTracer's, or a folder holds such files."""
    if source.is_folder:
        return any(name.endswith(_SUFFIXES) for name in source.names)
    lines = [line for line in source.first_lines(4) if line.strip() not in ("", "[")]
    try:
        values = [parse_foreign_json(line.rstrip().rstrip(",")) for line in lines[:1]]
    except ValueError:
        return False
    return bool(values) and isinstance(values[0], dict) and {"ph", "pid", "cat"} <= values[0].keys()


def read(path: Path) -> Trace:
    """Return the requests of a file, or of all files in a folder.

    Raises:
        TraceFormatError: a line is none of DFTracer's; it is named.
    """
    names = sorted(p for p in path.iterdir() if p.name.endswith(_SUFFIXES)) if path.is_dir() else []
    log = _Log()
    for file in names or [path]:
        log.begin_file()
        for lines, event in _events(file):
            with parsing(lines, "DFTracer log"):
                log.take(event)
    return log.finish()


def _events(path: Path) -> Iterator[tuple[Lines, Mapping[str, Any]]]:
    lines = Lines(path, _LINE_MAX_BYTES)
    for text in lines:
        text = text.strip().rstrip(",")
        if text in ("", "[", "]"):
            continue
        with parsing(lines, "DFTracer log"):
            event = parse_foreign_json(text)
            if not isinstance(event, dict):
                raise ValueError("no object")
        yield lines, event


class _Log:
    """The rows of all files, and what their names and positions are known to be."""

    def __init__(self) -> None:
        self._rows = Rows()
        self._names: dict[str, str] = {}
        self._unit_ns = 1000
        self._processes: dict[tuple[int, int], int] = {}
        self._described: list[Process] = []
        self._threads: dict[int, dict[int, int]] = {}
        self._positions: dict[tuple[int, str], int] = {}
        self._opens: Counter[tuple[int, str]] = Counter()
        self._files: dict[str, int] = {}
        self._lost: Counter[str] = Counter()
        self._number = 0
        self._ended: list[bool] = []

    def begin_file(self) -> None:
        """Begin another process's file: hashes are of all, units are not."""
        self._unit_ns = 1000
        self._number += 1
        self._ended.append(False)

    def take(self, event: Mapping[str, Any]) -> None:
        """Add what one line tells."""
        arguments = event.get("args") or {}
        if not isinstance(arguments, dict):
            raise ValueError("arguments that are no object")
        name = str(event.get("name"))
        if event.get("cat") == "dftracer":
            if name in (_FILE_HASH, _TEXT_HASH):
                self._names[str(arguments["value"])] = str(arguments["name"])
            elif name == _SETTING and arguments.get("name") == "time_metric":
                self._unit_ns = _UNITS_NS[str(arguments["value"])]
            elif name == "end":
                self._ended[-1] = True
            elif name == "start":
                self._describe(event, arguments)
        elif event.get("cat") in _IO and event.get("ph") in _COMPLETE:
            self._call(name, event, arguments)

    def _process(self, event: Mapping[str, Any]) -> int:
        key = self._number, int(event["pid"])
        number = self._processes.setdefault(key, len(self._processes))
        if number == len(self._described):
            self._described.append(Process(key[1]))
        return number

    def _describe(self, event: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
        number = self._process(event)
        command = self._names.get(str(arguments.get("cmd_hash")), "")
        parent = arguments.get("ppid")
        self._described[number] = Process(
            int(event["pid"]),
            parent_pid=parent if type(parent) is int else None,
            argv=tuple(command.split(";")) if command else (),
        )

    def _call(self, name: str, event: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
        process = self._process(event)
        path = self._path(arguments)
        if name in _SEEKS:
            if path is not None and int(arguments.get("ret", -1)) >= 0 and name[0] == "l":
                self._positions[process, path] = int(arguments["ret"])
            return
        if name not in _OPS:
            return
        op = _OPS[name]
        if path is None:
            self._lost["unnamed"] += 1
            return
        start_ns = int(event["ts"]) * self._unit_ns
        threads = self._threads.setdefault(process, {})
        values: dict[str, Any] = {
            "end_ns": start_ns + int(event["dur"]) * self._unit_ns,
            "api": "stdio" if event["cat"] == "STDIO" else "posix",
            "process": process,
            "thread": threads.setdefault(int(event["tid"]), len(threads)),
            "path": path,
            "file": self._files.setdefault(path, len(self._files)),
            "result": _result(arguments),
        }
        values |= getattr(self, f"_{op}", self._plain)(process, path, name, arguments, values)
        if (values["result"] or 0) < 0:
            values = fitting(op, values)
        self._rows.add(op, start_ns, **values)

    def _path(self, arguments: Mapping[str, Any], key: str = "fhash") -> str | None:
        for name in (key, "fname"):
            found = self._names.get(str(arguments.get(name)), arguments.get(name))
            if isinstance(found, str) and found.startswith("/"):
                return absolute(found)
        return None

    def _plain(self, *_: Any) -> dict[str, Any]:
        return {}

    def _open(
        self, process: int, path: str, name: str, arguments: Mapping[str, Any], values: Any
    ) -> dict[str, Any]:
        if (values["result"] or 0) >= 0:
            self._positions[process, path] = 0
            self._opens[process, path] += 1
            if self._opens[process, path] > 1:
                self._lost["twice"] += 1
        flags, mode = arguments.get("flags"), str(arguments.get("mode"))
        if name.startswith("f"):
            flags = flags_of_mode(mode) if mode[0] in "rwa" else None
        if type(flags) is int and flags & os.O_APPEND:
            self._positions.pop((process, path), None)  # at an end that is not told
        told = type(flags) is int and name != "fdopen"  # of a file that is open already
        return {"flags": flags if told else None, "result": min(values["result"] or 0, 0)}

    def _close(self, process: int, path: str, *_: Any) -> dict[str, Any]:
        self._opens[process, path] = max(self._opens[process, path] - 1, 0)
        return {}

    def _moves(
        self, process: int, path: str, name: str, arguments: Mapping[str, Any], values: Any
    ) -> dict[str, Any]:
        size = int(arguments.get("size", 1)) if name in _ITEMS else 1
        count = arguments.get("count")
        result = values["result"]
        moved = max(result or 0, 0) * (size if (result or 0) > 0 else 1)
        length = moved if count is None else int(count) * size
        offset, source = arguments.get("offset"), "argument"
        if type(offset) is not int:
            offset, source = self._positions.get((process, path)), "tracked"
            if offset is None:
                self._lost["positions"] += 1
                source = None  # type: ignore[assignment]
            else:
                self._positions[process, path] = offset + moved
        done = result if result is None or result < 0 else moved
        return {"offset": offset, "length": length, "result": done, "offset_source": source}

    _read = _write = _moves

    def _sync(self, process: int, path: str, name: str, *_: Any) -> dict[str, Any]:
        return {"flags": int(name == "fdatasync")}

    def _truncate(
        self, process: int, path: str, name: str, arguments: Mapping[str, Any], values: Any
    ) -> dict[str, Any]:
        return {"length": int(arguments["length"])}

    def _rename(
        self, process: int, path: str, name: str, arguments: Mapping[str, Any], values: Any
    ) -> dict[str, Any]:
        target = self._path(arguments, "newpath_hash")
        if target is None:
            raise ValueError("a rename without its new name")
        if (values["result"] or 0) >= 0:
            self._files[target] = self._files.pop(path)
        return {"target": target}

    def finish(self) -> Trace:
        """Return the trace."""
        lost = self._lost
        notes = [
            "DFTracer shows no descriptors: positions were followed for each process and file",
            "DFTracer shows nothing of mapped memory, io_uring or libaio",
            f"{plural(lost['twice'], 'time')} a process opened a file again: offsets may be wrong"
            if lost["twice"]
            else "",
            f"{plural(lost['positions'], 'request')} at positions that DFTracer does not tell"
            if lost["positions"]
            else "",
            f"{plural(lost['unnamed'], 'call')} on files whose name DFTracer does not tell"
            if lost["unnamed"]
            else "",
            "" if all(self._ended) else "a DFTracer file has no `end`: its process was cut short",
        ]
        if not len(self._rows) and not self._described:
            raise TraceFormatError("the DFTracer log has no calls; was the process cut short?")
        command = next((p.argv for p in self._described if p.argv), ())
        metadata = Metadata(
            command=command, processes=tuple(self._described), completeness=noted(*notes)
        )
        return self._rows.finish(metadata, is_realtime=True)


def _result(arguments: Mapping[str, Any]) -> int | None:
    """Return what a call gave; -EIO for an error, whose number DFTracer does not tell."""
    value = arguments.get("ret", 0)
    if type(value) is not int:
        return None
    return -5 if value < 0 else value
