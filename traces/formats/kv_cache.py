"""The I/O trace of MLPerf Storage's KV-cache benchmark: one line per object written or read.

The benchmark moves no data in this mode: there are no ends, no threads and no offsets, and each
object is one file. Objects in memory tiers are left out; the storage tier is Tier-2.
"""

from __future__ import annotations

import csv
from pathlib import Path

from iotrace.traces.formats.lines import Lines, parsing
from iotrace.traces.formats.rows import Rows, absolute, noted
from iotrace.traces.formats.source import Source
from iotrace.traces.formats.strace_lines import to_ns
from iotrace.traces.metadata import Metadata, Process
from iotrace.traces.trace import Trace
from iotrace.traces.words import plural

NAME = "kv-cache"
_HEADER = "Timestamp,Operation,Object_Size_Bytes,Tier,Key,Phase"
_STORAGE = "Tier-2"
_FOLDER = "/kv-cache"
_WITHOUT_KEY = f"{_FOLDER}/objects-without-key"
_OPS = {"Read": "read", "Write": "write"}


def looks_like(source: Source) -> bool:
    """Return whether the first line is the benchmark's."""
    return next(source.first_lines(1), "").strip() == _HEADER


def read(path: Path) -> Trace:
    """Return the objects that go to storage.

    Raises:
        TraceFormatError: a line is none of the benchmark's; it is named.
    """
    rows = Rows()
    lines = Lines(path)
    files: dict[str, int] = {}
    in_memory = without_key = 0
    for text in lines:
        if lines.number == 1:
            if text.strip() != _HEADER:
                raise lines.error(f"the first line must be {_HEADER}")
            continue
        if not text.strip():
            continue
        with parsing(lines, "KV-cache trace"):
            (fields,) = csv.reader([text], strict=True)
            seconds, operation, size, tier, key, _ = fields
            op, length = _OPS[operation], int(size)
            if tier != _STORAGE:
                in_memory += 1
                continue
            name = absolute(f"{_FOLDER}/{absolute(key)}")
            if name == _FOLDER:  # the benchmark's default is an empty key
                name, without_key = _WITHOUT_KEY, without_key + 1
            rows.add(
                op,
                to_ns(seconds),
                path=name,
                file=files.setdefault(name, len(files)),
                offset=0,
                length=length,
                result=length,
                offset_source="argument",
            )
    notes = [
        "made of a KV-cache trace, which is a simulation: objects without ends, threads or offsets",
        f"{plural(in_memory, 'operation')} on objects in memory tiers left out"
        if in_memory
        else "",
        f"{plural(without_key, 'operation')} on objects without a key, as if all were one"
        if without_key
        else "",
    ]
    metadata = Metadata(processes=(Process(0),), completeness=noted(*notes))
    return rows.finish(metadata, is_realtime=True)
