"""The raw log of one process, read as numpy columns.

The layout is `csrc/record.h`. A log is readable at any instant, also of a process that was killed
in the middle of a record: what is not complete is counted in `RawLog.torn_records` and left out.
"""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from iotrace.traces.errors import CaptureError
from iotrace.traces.location import RAW_LOGS_SUFFIX
from iotrace.traces.regular import open_regular

MAGIC = 0x31474F4C52544F49
VERSION = 3
LOG_LIMIT = 1
SUFFIX = RAW_LOGS_SUFFIX

RECORD = np.dtype(
    [
        ("start_ns", "<u8"),
        ("end_ns", "<u8"),
        ("offset", "<i8"),
        ("length", "<i8"),
        ("result", "<i8"),
        ("address", "<u8"),
        ("file", "<u4"),
        ("flags", "<u4"),
        ("text_bytes", "<u4"),
        ("api", "u1"),
        ("offset_source", "u1"),
        ("op", "<u2"),
    ]
)

CHUNK_HEADER = np.dtype(
    [
        *((name, "<u4") for name in ("owner_tid", "next_slot", "index", "next_returned")),
        ("reserved", "<u8", (6,)),
    ]
)

LOG_HEADER = np.dtype(
    [
        ("magic", "<u8"),
        *((name, "<u4") for name in ("version", "header_bytes", "chunk_bytes", "slot_bytes")),
        *((name, "<u4") for name in ("pid", "parent_pid")),
        ("pid_start_ticks", "<u8"),
        ("boot_id", "S40"),
        *((name, "<u8") for name in ("monotonic_ns", "realtime_ns")),
        *((name, "<u4") for name in ("chunks", "files")),
        *(
            (name, "<u8")
            for name in (
                "dropped_records",
                "unknown_descriptors",
                "cut_texts",
                "ignored_opens",
                "ignored_bytes_read",
                "other_bytes_read",
                "other_bytes_written",
                "own_bytes_read",
                "ignored_bytes_written",
            )
        ),
        *((name, "<u4") for name in ("op_names_at", "op_names_count")),
        *((name, "<u4") for name in ("api_names_at", "api_names_count")),
        *((name, "<u4") for name in ("offset_source_names_at", "offset_source_names_count")),
        *((name, "<u4") for name in ("argv_at", "argv_bytes")),
        *((name, "<u4") for name in ("rank_at", "rank_bytes")),
        *((name, "<u4") for name in ("executable_at", "executable_bytes")),
        *((name, "<u4") for name in ("path_at", "path_bytes")),
        *((name, "<u8") for name in ("unmatched_completions", "unknown_submissions")),
        ("own_bytes_written", "<u8"),
        ("stopped_by", "<i4"),
        ("reserved", "<u4"),
    ]
)


@dataclass(frozen=True)
class Outside:
    """What a log does not hold, counted by the preload library (counts and bytes)."""

    dropped_records: int
    unknown_descriptors: int
    cut_texts: int
    ignored_opens: int
    ignored_bytes_read: int
    ignored_bytes_written: int
    other_bytes_read: int
    other_bytes_written: int
    own_bytes_read: int
    own_bytes_written: int
    unmatched_completions: int
    unknown_submissions: int


@dataclass(frozen=True)
class LogHeader:
    """Who wrote the log, when, and the names its numbers stand for.

    Attributes:
        stopped_by: why the log stopped growing: -errno, or LOG_LIMIT; 0: it did not.
    """

    pid: int
    parent_pid: int
    pid_start_ticks: int
    boot_id: str
    monotonic_ns: int
    realtime_ns: int
    files: int
    argv: tuple[str, ...]
    rank_variables: dict[str, str]
    executable: str
    op_names: tuple[str, ...]
    api_names: tuple[str, ...]
    offset_source_names: tuple[str, ...]
    outside: Outside
    stopped_by: int


@dataclass(frozen=True)
class RawLog:
    """The complete records of one process, in the order of their place in the log.

    A thread may go on in a chunk that an ended thread has left, which can lie before its own: the
    order of issue is that of `start_ns`.

    Attributes:
        slots: every slot of the file, mapped read-only, not copied.
        positions: index into `slots` of each complete record.
        threads: kernel thread id of each complete record.
        torn_records: slots handed out whose record was never completed.
        is_cut: the file ends before the last chunk that was handed out.
    """

    path: Path
    header: LogHeader
    slots: npt.NDArray[Any]
    positions: npt.NDArray[np.int64]
    threads: npt.NDArray[np.uint32]
    torn_records: int
    is_cut: bool

    def __len__(self) -> int:
        return len(self.positions)

    @property
    def records(self) -> npt.NDArray[Any]:
        """A copy of all records with dtype `RECORD`; `column` costs less."""
        return self.slots[self.positions]

    def column(self, name: str) -> npt.NDArray[Any]:
        """Return one field of all records."""
        gathered: npt.NDArray[Any] = self.slots[name][self.positions]
        return gathered

    def rows(self, *ops: str) -> npt.NDArray[np.int64]:
        """Return the indices of the records with one of these ops."""
        codes = [code for code, name in enumerate(self.header.op_names) if name in ops]
        return np.flatnonzero(np.isin(self.column("op"), codes))

    def text(self, row: int) -> bytes:
        """Return the text that follows a record; empty if it has none."""
        position = int(self.positions[row])
        text_bytes = int(self.slots[position]["text_bytes"])
        end = position + 1 + slots_of(text_bytes)
        return self.slots[position + 1 : end].tobytes()[:text_bytes]


def slots_of(text_bytes: int) -> int:
    """Return how many slots a text takes."""
    return -(-text_bytes // RECORD.itemsize)


def read_raw_log(path: str | Path) -> RawLog:
    """Map a raw log and find its complete records.

    Raises:
        CaptureError: the file is no raw log, or too short to hold a log's header.
    """
    path = Path(path)
    data = mapped(path)
    header = read_fields(path, data)
    header_bytes, chunk_bytes = int(header["header_bytes"]), int(header["chunk_bytes"])
    whole_slots = max(0, len(data) - header_bytes) // RECORD.itemsize
    slots = np.frombuffer(data, RECORD, count=whole_slots, offset=header_bytes)
    slots = slots[: int(header["chunks"]) * (chunk_bytes // RECORD.itemsize)]
    description = describe(data, header)
    is_complete, torn_records = find_records(slots, chunk_bytes // RECORD.itemsize, header)
    positions = np.flatnonzero(is_complete)
    return RawLog(
        path=path,
        header=description,
        slots=slots,
        positions=positions,
        threads=owners(slots, positions, chunk_bytes // RECORD.itemsize, description.op_names),
        torn_records=torn_records,
        is_cut=len(data) < header_bytes + int(header["chunks"]) * chunk_bytes,
    )


def mapped(path: Path) -> mmap.mmap:
    try:
        with open_regular(path) as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except ValueError:  # an empty file cannot be mapped
        raise CaptureError(f"{path} is empty: the process wrote nothing, delete it") from None
    except OSError as error:
        raise CaptureError(f"cannot read {path}: {error.strerror}; check the path") from None


def read_fields(path: Path, data: mmap.mmap) -> Any:
    """Return the header's fields after checking that they can be trusted."""
    if len(data) < LOG_HEADER.itemsize:
        raise CaptureError(f"{path} is cut inside its header; nothing of it can be recovered")
    header = np.frombuffer(data, LOG_HEADER, count=1)[0]
    if int(header["magic"]) != MAGIC:
        raise CaptureError(f"{path} is not a raw log; give the folder that capture wrote")
    if int(header["version"]) != VERSION:
        raise CaptureError(
            f"{path} has raw log version {header['version']}, this iotrace reads {VERSION}; "
            "recover it with the version that captured it"
        )
    chunk_bytes, slot_bytes = int(header["chunk_bytes"]), int(header["slot_bytes"])
    if slot_bytes != RECORD.itemsize or chunk_bytes < 2 * slot_bytes or chunk_bytes % slot_bytes:
        raise CaptureError(f"{path} has a damaged header; leave it out of the folder")
    if len(data) < int(header["header_bytes"]):
        raise CaptureError(f"{path} is cut inside its header; nothing of it can be recovered")
    return header


def find_records(
    slots: npt.NDArray[Any], slots_per_chunk: int, header: Any
) -> tuple[npt.NDArray[np.bool_], int]:
    """Return which slots hold a complete record, and the number of torn ones."""
    heads = slots[::slots_per_chunk].view(CHUNK_HEADER)
    used = np.where(heads["owner_tid"] == 0, 0, heads["next_slot"])
    is_record = (np.arange(slots_per_chunk) < used[:, np.newaxis]).ravel()[: len(slots)]
    is_record[::slots_per_chunk] = False  # a chunk's own header
    with_text = np.flatnonzero(is_record & (slots["text_bytes"] != 0))
    sizes = slots["text_bytes"][with_text].tolist()
    next_record = 0
    for slot, text_bytes in zip(with_text.tolist(), sizes, strict=True):
        if slot < next_record:  # text that happens to look like a record with text
            continue
        chunk_end = (slot // slots_per_chunk + 1) * slots_per_chunk
        next_record = min(slot + 1 + slots_of(text_bytes), chunk_end)
        is_record[slot + 1 : next_record] = False
    complete = is_record & (slots["op"] != 0) & (slots["op"] < header["op_names_count"])
    complete &= slots["api"] < header["api_names_count"]
    complete &= slots["offset_source"] < header["offset_source_names_count"]
    if next_record > len(slots):  # the text was cut off with the file
        complete[slot] = False
    # A slot may stay empty: where a record did not fit the chunk's end any more.
    begun = (slots["op"] != 0) | (slots["start_ns"] != 0) | (slots["text_bytes"] != 0)
    return complete, int(np.count_nonzero(is_record & begun & ~complete))


def owners(
    slots: npt.NDArray[Any],
    positions: npt.NDArray[np.int64],
    slots_per_chunk: int,
    op_names: Sequence[str],
) -> npt.NDArray[np.uint32]:
    """Return the thread of each record; a chunk passes on when its thread ends."""
    heads = slots[::slots_per_chunk].view(CHUNK_HEADER)
    chunks = positions // slots_per_chunk
    threads: npt.NDArray[np.uint32] = heads["owner_tid"][chunks]
    if "thread" not in op_names:
        return threads
    for row in np.flatnonzero(slots["op"][positions] == op_names.index("thread")):
        chunk_end = np.searchsorted(chunks, chunks[row], "right")
        threads[row:chunk_end] = slots["result"][positions[row]]
    return threads


def describe(data: mmap.mmap, header: Any) -> LogHeader:
    """Turn the header's fields and its texts into values."""

    def names(field: str) -> tuple[str, ...]:
        at, count = int(header[f"{field}_at"]), int(header[f"{field}_count"])
        return tuple(decode(data[at : int(header["header_bytes"])].split(b"\0", count)[:count]))

    def texts(field: str) -> list[str]:
        at, text_bytes = int(header[f"{field}_at"]), int(header[f"{field}_bytes"])
        if text_bytes == 0:
            return []
        return decode(data[at : at + text_bytes].removesuffix(b"\0").split(b"\0"))

    variables = (text.partition("=") for text in texts("rank") if text)
    return LogHeader(
        pid=int(header["pid"]),
        parent_pid=int(header["parent_pid"]),
        pid_start_ticks=int(header["pid_start_ticks"]),
        boot_id=header["boot_id"].decode("ascii", "replace").strip(),
        monotonic_ns=int(header["monotonic_ns"]),
        realtime_ns=int(header["realtime_ns"]),
        files=int(header["files"]),
        argv=tuple(texts("argv")),
        rank_variables={name: value for name, _, value in variables},
        executable="".join(texts("executable")[:1]),
        op_names=names("op_names"),
        api_names=names("api_names"),
        offset_source_names=names("offset_source_names"),
        outside=Outside(**{field.name: int(header[field.name]) for field in fields(Outside)}),
        stopped_by=int(header["stopped_by"]),
    )


def decode(texts: Sequence[bytes]) -> list[str]:
    """Decode file names and arguments; bytes that are no UTF-8 survive as surrogates."""
    return [text.decode("utf-8", "surrogateescape") for text in texts]
