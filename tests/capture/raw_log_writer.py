"""A writer of raw logs as the preload library writes them, for tests of what reads them."""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from iotrace.capture.rawlog import CHUNK_HEADER, LOG_HEADER, MAGIC, RECORD, VERSION

HEADER_BYTES = 65536
CHUNK_BYTES = 65536
CHUNK_SLOTS = CHUNK_BYTES // RECORD.itemsize
OPS = [
    "none",
    "file",
    "note",
    "open",
    "close",
    "read",
    "write",
    "sync",
    "allocate",
    "truncate",
    "rename",
    "link",
    "unlink",
    "mkdir",
    "rmdir",
    "map",
    "unmap",
    "advise",
    "counter",
    "thread",
    "seek",
]
APIS = ("", "posix", "stdio", "io_uring", "libaio", "mmap")
OFFSET_SOURCES = ("", "argument", "tracked", "queried", "end", "linked end")
BOOT_ID = "5f0c9a52-3f5f-4e0f-9a0e-0d6d8c9f7a11"


@dataclass
class RawLogWriter:
    """Collects the records of one process; `write` lays them out in chunks, thread by thread."""

    pid: int = 4000
    parent_pid: int = 1
    pid_start_ticks: int = 700
    argv: tuple[str, ...] = ("python", "train.py")
    rank_variables: dict[str, str] = field(default_factory=dict)
    executable: str = "/usr/bin/python3"
    monotonic_ns: int = 1_000
    realtime_ns: int = 1_700_000_000_000_001_000
    boot_id: str = BOOT_ID
    counters: dict[str, int] = field(default_factory=dict)
    files: int = 0
    slots: dict[int, list[np.ndarray[Any, Any]]] = field(default_factory=dict)
    clock: Any = field(default_factory=lambda: itertools.count(2_000, 100))

    def add(self, op: str, text: str | bytes = b"", thread: int = 0, **values: Any) -> None:
        """Append one record; without `start_ns` it follows the one before by 100 ns."""
        encoded = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
        values.setdefault("start_ns", next(self.clock))
        values.setdefault("end_ns", values["start_ns"] + 50)
        slots = np.zeros(1 + -(-len(encoded) // RECORD.itemsize), RECORD)
        slots["offset"][0] = slots["length"][0] = slots["result"][0] = -1
        slots["op"][0] = OPS.index(op)
        slots["api"][0] = APIS.index(values.pop("api", "posix"))
        slots["offset_source"][0] = OFFSET_SOURCES.index(values.pop("offset_source", ""))
        slots["text_bytes"][0] = len(encoded)
        for name, value in values.items():
            slots[name][0] = value
        padded = encoded.ljust((len(slots) - 1) * RECORD.itemsize, b"\0")
        slots[1:] = np.frombuffer(padded, RECORD)
        self.add_slots(slots, thread)

    def add_write(self, size: int, start: int, end: int, **values: Any) -> None:
        """Append a whole write of `size` bytes, its times in ns after a second."""
        times = {"start_ns": 10**9 + start, "end_ns": 10**9 + end}
        self.add("write", length=size, result=size, **times, **values)

    def add_slots(self, slots: np.ndarray[Any, Any], thread: int = 0) -> None:
        """Append slots as they are, for records in bulk and for damaged ones."""
        self.slots.setdefault(thread or self.pid, []).append(slots)

    def open(
        self,
        number: int,
        path: str,
        flags: int = 0,
        inode: int = 0,
        size: int = 0,
        device: int = 64,
        **values: Any,
    ) -> None:
        """Append what a successful open writes: the file, then the request."""
        self.files = max(self.files, number)
        self.add(
            "file",
            path,
            file=number,
            offset=device,
            length=inode or 1000 + number,
            result=values.pop("birth_ns", 0),
            address=size,
            flags=0o100644,
            thread=values.get("thread", 0),
            **({"start_ns": values["start_ns"]} if "start_ns" in values else {}),
        )
        self.add("open", file=number, flags=flags, result=0, **values)

    def note(self, thread: int = 0, **fields: Any) -> None:
        """Append a note of a hook; `start_ns` and `end_ns` are the record's."""
        times = {name: fields.pop(name) for name in ("start_ns", "end_ns") if name in fields}
        self.add("note", json.dumps(fields), thread=thread, **times)

    def end(self, rchar: int = 0, wchar: int = 0) -> None:
        """Append what the library counts at the end of a process."""
        self.add("counter", "rchar", result=rchar)
        self.add("counter", "wchar", result=wchar)

    def header(self, chunks: int) -> bytes:
        """Return the header page."""
        page = bytearray(HEADER_BYTES)
        fields = np.zeros(1, LOG_HEADER)
        texts_at = LOG_HEADER.itemsize

        def place(name: str, texts: list[str], count_field: str) -> None:
            nonlocal texts_at
            encoded = b"".join(t.encode("utf-8", "surrogateescape") + b"\0" for t in texts)
            page[texts_at : texts_at + len(encoded)] = encoded
            fields[f"{name}_at"] = texts_at
            fields[f"{name}_{count_field}"] = len(encoded) if count_field == "bytes" else len(texts)
            texts_at += len(encoded) + 1

        place("op_names", list(OPS), "count")
        place("api_names", list(APIS), "count")
        place("offset_source_names", list(OFFSET_SOURCES), "count")
        place("argv", list(self.argv), "bytes")
        place("rank", [f"{k}={v}" for k, v in self.rank_variables.items()], "bytes")
        place("executable", [self.executable], "bytes")
        values: dict[str, Any] = {
            "magic": MAGIC,
            "version": VERSION,
            "header_bytes": HEADER_BYTES,
            "chunk_bytes": CHUNK_BYTES,
            "slot_bytes": RECORD.itemsize,
            "boot_id": self.boot_id.encode(),
            "chunks": chunks,
            "files": self.files,
            "monotonic_ns": self.monotonic_ns,
            "realtime_ns": self.realtime_ns,
            "pid": self.pid,
            "parent_pid": self.parent_pid,
            "pid_start_ticks": self.pid_start_ticks,
        }
        for name, value in (values | self.counters).items():
            fields[name] = value
        page[: LOG_HEADER.itemsize] = fields.tobytes()
        return bytes(page)

    def chunks(self) -> list[np.ndarray[Any, Any]]:
        """Return the chunks: text never crosses the end of one."""
        done = []
        for thread, pieces in self.slots.items():
            chunk, used = new_chunk(thread), 1
            for piece in pieces:
                is_bulk = len(piece) > 1 and bool(np.all(piece["text_bytes"] == 0))
                while len(piece):
                    room = CHUNK_SLOTS - used
                    taken = min(room, len(piece)) if is_bulk else len(piece)
                    if taken == 0 or taken > room:
                        done.append(closed(chunk, used + len(piece)))
                        chunk, used = new_chunk(thread), 1
                        continue
                    chunk[used : used + taken] = piece[:taken]
                    used += taken
                    piece = piece[taken:]
            done.append(closed(chunk, used))
        return done

    def write(self, folder: Path) -> Path:
        """Write the log under the name the library would give it."""
        path = folder / f"{self.pid}-{self.pid_start_ticks}-0badcafe.raw"
        chunks = self.chunks()
        with path.open("wb") as file:
            file.write(self.header(len(chunks)))
            for chunk in chunks:
                file.write(chunk.tobytes())
        return path


def new_chunk(thread: int) -> np.ndarray[Any, Any]:
    chunk = np.zeros(CHUNK_SLOTS, RECORD)
    chunk[:1].view(CHUNK_HEADER)["owner_tid"] = thread
    return chunk


def closed(chunk: np.ndarray[Any, Any], used: int) -> np.ndarray[Any, Any]:
    chunk[:1].view(CHUNK_HEADER)["next_slot"] = used
    return chunk
