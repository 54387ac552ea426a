"""Rows on their way from another format into a trace: one array per column, no object per row."""

from __future__ import annotations

import os
from array import array
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from iotrace.traces.columns import Column, Ints, Shapes, Strings
from iotrace.traces.environment import available_memory_bytes
from iotrace.traces.errors import TraceFormatError
from iotrace.traces.metadata import Completeness, Metadata, Process
from iotrace.traces.schema import DATA_OPS, INT_COLUMNS, TEXT_COLUMNS
from iotrace.traces.trace import Trace
from iotrace.traces.version import tool_version
from iotrace.traces.vocabulary import Vocabulary

_NULL = -(2**63)
_INT32 = frozenset(("rank", "process", "thread", "file", "flags", "step"))
_NEVER_NULL = {"rank": -1, "process": 0, "thread": 0}
_NOT_NEGATIVE = ("offset", "length", "process", "thread", "file")
_MAX_ERRNO = 4095
# The arrays here, numpy's copies of them and Arrow's are alive at a time.
_ROW_BYTES = 3 * 8 * (len(INT_COLUMNS) + len(TEXT_COLUMNS))


def check_time(time_ns: int) -> int:
    """Return a time that rows can hold; importers ask before they keep it for a row to come.

    Raises:
        ValueError: they cannot.
    """
    if abs(time_ns) >= 2**62:
        raise ValueError(f"{time_ns} ns is no time that a trace can hold")
    return time_ns


def fitting(op: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of a call that moved nothing, without an extent that no file has.

    Its arguments may be any 64 bits, as they are what it failed for.
    """
    kept = dict(values)
    if not 0 <= (kept.get("offset") or 0) < 2**63:
        kept |= {"offset": None, "offset_source": None}
    if not 0 <= (kept.get("length") or 0) < 2**63 - (kept.get("offset") or 0):
        kept["length"] = 0 if op in DATA_OPS else None
    return kept


class Rows:
    """The rows that an importer has found so far.

    Args:
        limit_bytes: most memory that they may need in the end; by default half of what is there.
    """

    def __init__(self, limit_bytes: int | None = None) -> None:
        self._most_rows = (limit_bytes or available_memory_bytes() // 2) // _ROW_BYTES
        self._ints = {name: array("q") for name in INT_COLUMNS if name not in ("seq", "address")}
        self._codes = {name: array("i") for name in (*TEXT_COLUMNS, "shape")}
        self._texts: dict[str, Vocabulary[str]] = {name: Vocabulary() for name in TEXT_COLUMNS}
        self._shapes: Vocabulary[tuple[int, ...]] = Vocabulary()

    def __len__(self) -> int:
        return len(self._ints["start_ns"])

    @property
    def first_ns(self) -> int:
        """The earliest start so far; 0 without rows."""
        return min(self._ints["start_ns"], default=0)

    def add(
        self,
        op: str,
        start_ns: int,
        layer: str = "request",
        shape: tuple[int, ...] | None = None,
        **values: Any,
    ) -> None:
        """Add a row; the columns that are not given are null, as their default says.

        Raises:
            ValueError: what a trace cannot hold, such as a negative offset.
            TraceFormatError: there is no room for more rows.
        """
        values |= {"op": op, "layer": layer, "start_ns": start_ns}
        self._check(values)
        for name, codes in self._codes.items():
            if name != "shape":
                codes.append(self._texts[name].code(values.pop(name, None)))
        self._codes["shape"].append(self._shapes.code(shape))
        for name, column in self._ints.items():
            value = values.pop(name, None)
            column.append(_NEVER_NULL.get(name, _NULL) if value is None else value)
        if values:
            raise TypeError(f"no columns {sorted(values)}")

    def _check(self, values: Mapping[str, Any]) -> None:
        if len(self) >= self._most_rows:
            raise TraceFormatError(
                f"more than {self._most_rows} rows do not fit into memory; split the input"
            )
        for name in ("path", "target"):
            text = values.get(name)
            if text is not None and (not text.startswith("/") or "\0" in text):
                raise ValueError(f"{text[:80]!r} is no absolute path")
        for name in _NOT_NEGATIVE:
            if (values.get(name) or 0) < 0:
                raise ValueError(f"{name} {values[name]} is negative")
        for name in _INT32 & values.keys():
            if not -(2**31) <= (values[name] or 0) < 2**31:
                raise ValueError(f"{name} {values[name]} does not fit 32 bits")
        offset, length = values.get("offset") or 0, values.get("length") or 0
        if offset + length >= 2**63:
            raise ValueError("a number does not fit 63 bits")
        check_time(values["start_ns"])
        end_ns, result = values.get("end_ns"), values.get("result")
        if end_ns is not None and end_ns < values["start_ns"]:
            raise ValueError("the end lies before the start")
        if end_ns is not None:
            check_time(end_ns)
        if result is not None and values["layer"] == "request":
            self._check_result(result, values)

    def _check_result(self, result: int, values: Mapping[str, Any]) -> None:
        if result < -_MAX_ERRNO:
            raise ValueError(f"{result} is no error number")
        length = values.get("length")
        if values["op"] in ("read", "write") and length is not None and result > length:
            raise ValueError(f"{result} bytes moved of {length} that were asked for")

    def finish(
        self, metadata: Metadata, is_realtime: bool = False, has_times: bool = True
    ) -> Trace:
        """Return the trace: times from the first row's on, `seq` in order of start.

        Args:
            metadata: without an epoch, and with a process for each number in the rows; those
                that are missing are added.
            is_realtime: whether the times so far are ns since 1970, UTC.
            has_times: whether they are times at all, and not only an order, which `seq` keeps.
        """
        starts_ns = np.frombuffer(self._ints["start_ns"], np.int64)
        epoch_ns = int(starts_ns.min(initial=2**62)) if len(self) else 0
        columns: dict[str, Column] = {}
        for name, column in self._ints.items():
            values = np.frombuffer(column, np.int64)
            valid = values != _NULL
            if name in ("start_ns", "end_ns"):
                values = np.where(valid, values - epoch_ns, 0)
            columns[name] = values if name in _NEVER_NULL else Ints(values, valid)
        columns["start_ns"] = (starts_ns - epoch_ns) * has_times
        seq = np.empty(len(self), np.int64)
        seq[np.argsort(starts_ns, kind="stable")] = np.arange(len(self))
        columns["seq"] = seq
        for name, texts in self._texts.items():
            columns[name] = Strings(np.frombuffer(self._codes[name], np.int32), texts.values())
        shapes = np.frombuffer(self._codes["shape"], np.int32)
        columns["shape"] = Shapes(shapes, self._shapes.values())
        return Trace.from_columns(
            columns, self._completed(metadata, epoch_ns if is_realtime else 0)
        )

    def _completed(self, metadata: Metadata, epoch_realtime_ns: int) -> Metadata:
        used = int(np.frombuffer(self._ints["process"], np.int64).max(initial=-1)) + 1
        missing = tuple(Process(0) for _ in range(used - len(metadata.processes)))
        return replace(
            metadata,
            epoch_realtime_ns=epoch_realtime_ns,
            tool_version=tool_version(),
            processes=(*metadata.processes, *missing),
        )


def noted(*notes: str, unknown_descriptors: int = 0) -> Completeness:
    """Return a completeness that tells what the format could not say; empty notes are left out."""
    said = tuple(note for note in notes if note)
    return Completeness(notes=said, unknown_descriptors=unknown_descriptors)


def absolute(path: str, folder: str = "/") -> str:
    """Return `path` as seen from `folder`, without a look at any file system.

    >>> absolute("a/../b//c", "/scratch")
    '/scratch/b/c'
    """
    normal = os.path.normpath(os.path.join("/", folder, path))
    return "/" + normal.lstrip("/")
