"""Runs programs under the real preload library, and under strace as the oracle."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from iotrace.capture.rawlog import RawLog, read_raw_log

ROOT = Path(__file__).parents[2]
LIBRARY = ROOT / "capture" / "libiotrace_capture.so"
SOURCES = Path(__file__).parent / "csrc"
# Alone, and without writing bytecode, which Python renames to its place.
PYTHON = (sys.executable, "-I", "-B", "-c")
SYSTEM = "/usr/*\n/lib*\n/etc/*\n/proc/*\n/dev/*"


@dataclass(frozen=True)
class Request:
    """One record that stands for a request, with its file's path."""

    op: str
    api: str
    path: bytes
    file: int
    offset: int
    length: int
    result: int
    flags: int
    text: bytes
    offset_source: str
    thread: int
    pid: int
    start_ns: int
    end_ns: int

    @property
    def name(self) -> str:
        """The last component of the path, without mkstemp's random part."""
        return os.fsdecode(self.path.rpartition(b"/")[2]).partition("-")[0]


@dataclass(frozen=True)
class Captured:
    """A finished job: its process, and the raw logs it left."""

    done: subprocess.CompletedProcess[bytes]
    logs: tuple[RawLog, ...]

    @property
    def log(self) -> RawLog:
        """The only log."""
        (log,) = self.logs
        return log

    def requests(self, *ops: str) -> list[Request]:
        """Return the requests of all logs with these ops (all without), by start time."""
        found = [request for log in self.logs for request in requests_of(log)]
        found.sort(key=lambda request: request.start_ns)
        return [request for request in found if not ops or request.op in ops]

    def of(self, name: str, *ops: str) -> list[Request]:
        """Return the requests on files of this name."""
        return [request for request in self.requests(*ops) if request.name == name]


def requests_of(log: RawLog) -> Iterator[Request]:
    """Yield the requests of one log, thread by thread."""
    ops, apis = log.header.op_names, log.header.api_names
    sources = log.header.offset_source_names
    records = log.records
    paths = {0: b""}
    paths |= {int(records["file"][row]): log.text(row) for row in log.rows("file").tolist()}
    for row, record in enumerate(records):
        if ops[record["op"]] in ("file", "note", "counter", "thread"):
            continue
        numbers: dict[str, Any] = {
            name: int(record[name])
            for name in ("file", "offset", "length", "result", "flags", "start_ns", "end_ns")
        }
        yield Request(
            op=ops[record["op"]],
            api=apis[record["api"]],
            path=paths[int(record["file"])],
            text=log.text(row),
            offset_source=sources[record["offset_source"]],
            thread=int(log.threads[row]),
            pid=log.header.pid,
            **numbers,
        )


def compile_program(folder: Path, source: str | Path, *flags: str) -> Path:
    """Compile a C or C++ program of this folder, or of a given path."""
    path = SOURCES / source
    program = folder / Path(path).stem
    compiler = "g++" if path.suffix == ".cc" else "gcc"
    subprocess.run(
        [compiler, "-Wall", "-Wextra", "-Werror", str(path), *flags, "-o", str(program)],
        check=True,
    )
    return program


def capture_environment(log_dir: Path) -> dict[str, str]:
    return {
        "LD_PRELOAD": str(LIBRARY),
        "IOTRACE_LOG_DIR": str(log_dir),
        "IOTRACE_SYSTEM": SYSTEM,
    }


def capture(
    command: Sequence[str | Path], log_dir: Path, extra: Mapping[str, str] | None = None
) -> Captured:
    """Run a command under the library; it may fail."""
    log_dir.mkdir(exist_ok=True)
    done = subprocess.run(
        command,
        env={**os.environ, **capture_environment(log_dir), **(extra or {})},
        capture_output=True,
    )
    return Captured(done, tuple(read_raw_log(path) for path in sorted(log_dir.glob("*.raw"))))


CALL = re.compile(r"^(?P<name>\w+)\((?P<arguments>.*)\)\s+= (?P<result>-?\d+)")
PATH = re.compile(r"^-?\w+<(?P<path>.*)>$")
POSITIONAL = {"pread64", "pwrite64", "preadv", "pwritev", "preadv2", "pwritev2"}


def moved_by_strace(command: Sequence[str | Path], log: Path) -> dict[tuple[str, str], list[Any]]:
    """Return (offset, bytes) of each read and write the kernel saw, by file name and op.

    Positions are followed per path: good for programs that open each file once at a time, and
    not for append.
    """
    calls = "open,openat,creat,lseek,read,write,readv,writev," + ",".join(sorted(POSITIONAL))
    subprocess.run(
        ["strace", "-y", "-s0", "-o", str(log), "-e", f"trace={calls}", *command],
        check=True,
    )
    positions: dict[str, int] = defaultdict(int)
    moved: dict[tuple[str, str], list[Any]] = defaultdict(list)
    for line in log.read_text().splitlines():
        call = CALL.match(line)
        if not call:
            continue
        name, result = call["name"], int(call["result"])
        if name in ("open", "openat", "creat"):
            positions[line.rpartition("<")[2].rstrip(">")] = 0
            continue
        arguments = call["arguments"].split(", ")
        descriptor = PATH.match(arguments[0])
        if not descriptor:
            continue
        path = descriptor["path"]
        if name == "lseek":
            positions[path] = result
            continue
        offset = int(arguments[-2 if name.endswith("v2") else -1]) if name in POSITIONAL else -1
        at_position = offset == -1
        if at_position:
            offset = positions[path]
            positions[path] += result
        op = "read" if "read" in name else "write"
        moved[Path(path).name.partition("-")[0], op].append((offset, result))
    return moved


def moved_by_capture(captured: Captured) -> dict[tuple[str, str], list[Any]]:
    """Return the same of a captured job."""
    moved: dict[tuple[str, str], list[Any]] = defaultdict(list)
    for request in captured.requests("read", "write"):
        moved[request.name, request.op].append((request.offset, request.result))
    return moved


def joined(extents: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Join extents that follow one another: one stdio call may be several system calls."""
    result: list[tuple[int, int]] = []
    for offset, length in extents:
        if result and sum(result[-1]) == offset:
            result[-1] = (result[-1][0], result[-1][1] + length)
        elif length:
            result.append((offset, length))
    return result
