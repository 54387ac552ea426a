"""Darshan's extended traces (DXT): the text of darshan-dxt-parser, and binary logs by PyDarshan.

DXT has reads and writes with extents and times, per rank and file. It has no opens, flags, syncs
or renames, and no threads; the text rounds times to 0.1 ms.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from iotrace.traces.errors import TraceFormatError
from iotrace.traces.formats.lines import Lines, parsing
from iotrace.traces.formats.rows import Rows, absolute, noted
from iotrace.traces.formats.source import Source
from iotrace.traces.formats.strace_lines import to_ns
from iotrace.traces.location import one_line
from iotrace.traces.metadata import Completeness, Host, Metadata, Process
from iotrace.traces.trace import Trace

TEXT_NAME, NAME = "dxt", "darshan"
_SUFFIX = ".darshan"
_TITLE = re.compile(r"# darshan log version: [\d.]+")
_HEADER = re.compile(r"# (start_time|exe|nprocs): (.*)")
_FILE = re.compile(r"# DXT, file_id: \d+, file_name: (.*)")
_RANK = re.compile(r"# DXT, rank: (-?\d+), hostname: (.*)")
_POSIX, _MPIIO = "X_POSIX", "X_MPIIO"
_WIDTH = 8  # words of a segment; those after are of Lustre
_LIMITS = (
    "Darshan's DXT has no opens, syncs or renames, no threads, and no result of a request",
    "Darshan's DXT shows nothing of stdio, mapped memory, io_uring or libaio",
    "Darshan stops recording a file or a job at its limits and does not say how much it left out",
)


def looks_like(source: Source) -> bool:
    """Return whether a text is darshan-dxt-parser's."""
    lines = list(source.first_lines(400))
    return any(_TITLE.match(line) for line in lines[:10]) and any("DXT" in line for line in lines)


def looks_binary(source: Source) -> bool:
    """Return whether a file is a log of Darshan, by its name."""
    return not source.is_folder and source.path.suffix == _SUFFIX


class _Segments:
    """The rows of a log, rank by rank."""

    def __init__(self) -> None:
        self._rows = Rows()
        self._files: dict[str, int] = {}
        self._ranks: dict[int, int] = {}
        self._hosts: dict[str, int] = {}
        self._host_of: dict[int, int] = {}

    def add(
        self, op: str, path: str, who: tuple[int, str], extent: tuple[int, int], ns: tuple[int, int]
    ) -> None:
        """Add one segment of a rank on a host; `ns`: start and end since the job's start."""
        (rank, host), (offset, length) = who, extent
        process = self._ranks.setdefault(rank, len(self._ranks))
        self._host_of[process] = self._hosts.setdefault(host, len(self._hosts))
        name = absolute(path)
        self._rows.add(
            op,
            ns[0],
            end_ns=max(ns),
            api="posix",
            rank=rank,
            process=process,
            path=name,
            file=self._files.setdefault(name, len(self._files)),
            offset=offset,
            length=length,
            result=length,
            offset_source="argument",
        )

    def finish(self, header: dict[str, str]) -> Trace:
        """Return the trace; `header`: what the log says of the job."""
        exe = header.get("exe", "").split()
        processes = tuple(
            Process(0, host=self._host_of[process], rank=rank, argv=tuple(exe))
            for rank, process in self._ranks.items()
        )
        hosts = tuple(Host(name) for name in self._hosts)
        said: Completeness = noted(*_LIMITS)
        metadata = Metadata(command=tuple(exe), hosts=hosts, processes=processes, completeness=said)
        trace = self._rows.finish(metadata)
        start = header.get("start_time", "")
        if not start.isdecimal() or len(start) > 10:
            return trace
        epoch_ns = int(start) * 10**9 + self._rows.first_ns
        return trace.with_metadata(replace(trace.metadata, epoch_realtime_ns=epoch_ns))


def read_text(path: Path) -> Trace:
    """Return the segments of darshan-dxt-parser's output: POSIX's, else MPI-IO's.

    Raises:
        TraceFormatError: a line is none of the parser's; it is named.
    """
    wanted = _POSIX if any(_POSIX in line for line in _heads(path)) else _MPIIO
    segments = _Segments()
    header: dict[str, str] = {}
    name = host = None
    lines = Lines(path)
    for text in lines:
        if text.startswith("#"):
            found = _HEADER.match(text)
            if found:
                header[found[1]] = found[2]
            if found := _FILE.match(text):
                name = found[1]
            elif found := _RANK.match(text):
                host = found[2]
        elif text.strip():
            with parsing(lines, "Darshan DXT text"):
                words = text.split()
                if words[0] not in (_POSIX, _MPIIO) or len(words) < _WIDTH:
                    raise ValueError("no segment")
                if name is None or host is None:
                    raise ValueError("a segment before its file")
                if words[0] == wanted:
                    extent = int(words[4]), int(words[5])
                    ns = to_ns(words[6]), to_ns(words[7])
                    op = {"write": "write", "read": "read"}[words[2]]
                    segments.add(op, name, (int(words[1]), host), extent, ns)
    return segments.finish(header)


def _heads(path: Path) -> Iterator[str]:
    return (line[:16] for line in Lines(path))


def read_binary(path: Path) -> Trace:
    """Return the DXT segments of a log of Darshan.

    Raises:
        TraceFormatError: PyDarshan is not installed, or cannot read it, or there are no segments.
    """
    try:
        from darshan import DarshanReport
    except ModuleNotFoundError as error:
        raise TraceFormatError(
            f"{path} is a binary log; `pip install darshan`, or convert the text of "
            f"`darshan-dxt-parser {path}`"
        ) from error
    try:
        report = DarshanReport(str(path), read_all=False)
        module = next((m for m in ("DXT_POSIX", "DXT_MPIIO") if m in report.modules), None)
        if module is None:
            raise TraceFormatError(
                f"{path} has no DXT segments; run the job with DXT_ENABLE_IO_TRACE=1"
            )
        report.mod_read_all_dxt_records(module)
        return _from_report(report, module)
    except (RuntimeError, OSError, ValueError, KeyError, TypeError) as error:
        raise TraceFormatError(f"{path} cannot be read by PyDarshan: {one_line(error)}") from error


def _from_report(report: Any, module: str) -> Trace:
    segments = _Segments()
    names = report.name_records
    for record in report.records[module]:
        path = names.get(record["id"], f"/darshan/{record['id']}")
        for op in ("write", "read"):
            for segment in record[f"{op}_segments"]:
                begin, end = (float(segment[key]) for key in ("start_time", "end_time"))
                extent = int(segment["offset"]), int(segment["length"])
                who = int(record["rank"]), str(record["hostname"])
                segments.add(op, path, who, extent, (round(begin * 1e9), round(end * 1e9)))
    job = report.metadata["job"]
    return segments.finish(
        {"start_time": str(job["start_time_sec"]), "exe": str(report.metadata.get("exe", ""))}
    )
