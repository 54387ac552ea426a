"""A fio job that moves the bytes of a trace: a job file, and a log for each thread beside it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from iotrace.traces.errors import OutputExistsError, TraceFormatError
from iotrace.traces.formats.actions import Actions, Left, actions
from iotrace.traces.formats.fio import log
from iotrace.traces.formats.source import Source
from iotrace.traces.trace import Trace
from iotrace.traces.writer import replacing

NAME = "fio"
_MOST_JOBS = 1024
_LAYOUT_BLOCK_BYTES = 1 << 20
_READ, _WRITE = 2, 3
_READ_LOG = re.compile(rb"^[ \t]*read_iolog[ \t]*=[ \t]*(\S[^\r\n]*)", re.MULTILINE)


def write(trace: Trace, target: Path) -> list[str]:
    """Write the job file `target`, and `target`.N.iolog beside it; return what they leave out.

    fio makes no folders, so files get flat names: what is before the last slash becomes a number.
    Files that a thread reads and has not written are laid out by jobs that run before.

    Raises:
        TraceFormatError: there is nothing that fio could do, or too many threads.
        OSError: a file cannot be written.
    """
    left = Left()
    found = actions(trace, left)
    if not len(found):
        raise TraceFormatError("the trace holds no request that fio could issue")
    # A log without a read or a write is one that fio refuses.
    moving = found.where((found.kind == _READ) | (found.kind == _WRITE))
    streams = sorted(set(zip(moving.process.tolist(), moving.thread.tolist(), strict=True)))
    if len(streams) > _MOST_JOBS:
        raise TraceFormatError(
            f"the trace has {len(streams)} threads, more than {_MOST_JOBS} fio jobs; "
            "use --to iolog for one log"
        )
    names = _flat_names(found.paths)
    parts = [
        found.where((found.process == process) & (found.thread == thread))
        for process, thread in streams
    ]
    logs = [_log_path(target, number) for number in range(len(parts))]
    is_new = not target.exists()  # else it is to be replaced, and they with it
    for path in logs if is_new else ():
        if path.exists():
            raise OutputExistsError(f"{path} exists; name another job file, or remove it")
    with ExitStack() as made:
        for path, part in zip(logs, parts, strict=True):
            with replacing(path) as file:
                text = (f"{line}\n" for line in log(part, left, names.__getitem__))
                file.writelines(line.encode("utf-8", "surrogateescape") for line in text)
            if is_new:
                made.callback(path.unlink, missing_ok=True)
        with replacing(target) as file:
            text = (f"{line}\n" for line in _job(trace, target, streams, parts, names))
            file.writelines(line.encode("utf-8", "surrogateescape") for line in text)
        made.pop_all()
    left.say("the order between threads: fio runs each log on its own")
    left.say("folders and renames: files have flat names, below the folder that fio runs in")
    return left.sentences()


def logs_read(source: Source) -> list[str]:
    """Return the logs that a job file reads its requests from; none if it is no such job."""
    return [log.decode(errors="replace") for log in _READ_LOG.findall(source.head)]


def _log_path(target: Path, number: int) -> Path:
    return target.with_name(f"{target.name}.{number}.iolog")


def _flat_names(paths: tuple[str, ...]) -> list[str]:
    """Return a short name for each path, without slashes and blanks."""
    names = []
    for number, path in enumerate(paths):
        last = path.rpartition("/")[2]
        plain = "".join(
            char if char.isascii() and (char.isalnum() or char in "._-") else "_" for char in last
        )
        names.append(f"{number}-{plain[-100:]}")
    return names


def _job(
    trace: Trace,
    target: Path,
    streams: list[tuple[int, int]],
    parts: list[Actions],
    names: list[str],
) -> Iterator[str]:
    yield "; Made by iotrace convert. Run it in the folder to test:"
    yield f";   cd FOLDER && fio {target.resolve()}"
    yield "; As fast as possible, one request at a time for each thread; to change that:"
    yield ";   replay_no_stall=0 keeps the recorded times (not with io_uring in fio 3.41)"
    yield "[global]"
    yield "ioengine=psync"
    yield "replay_no_stall=1"
    yield ""
    to_read = _to_lay_out(parts)
    for file, size in sorted(to_read.items()):
        blocks = -(-size // _LAYOUT_BLOCK_BYTES)
        yield f"[lay-out-{names[file]}]"
        yield f"filename={names[file]}"
        yield "rw=write"
        yield f"bs={_LAYOUT_BLOCK_BYTES}"
        yield f"size={blocks * _LAYOUT_BLOCK_BYTES}"
        yield "replay_no_stall=0"
        yield ""
    ranks = dict(zip(trace.ints("process").tolist(), trace.ints("rank").tolist(), strict=True))
    for number, (process, thread) in enumerate(streams):
        rank = ranks[process]
        yield f"[{f'rank-{rank}' if rank >= 0 else f'process-{process}'}-thread-{thread}]"
        if number == 0 and to_read:
            yield "stonewall"
        yield f"read_iolog={_log_path(target.resolve(), number)}"
        yield ""


def _to_lay_out(parts: list[Actions]) -> dict[int, int]:
    """Return the files that some thread reads and has not written, and how far, in bytes."""
    needed: dict[int, int] = {}
    for part in parts:
        written: dict[int, int] = {}
        changes = np.flatnonzero((part.kind == _READ) | (part.kind == _WRITE))
        columns = (part.file, part.kind, part.offset, part.length)
        for file, kind, offset, length in zip(*(c[changes].tolist() for c in columns), strict=True):
            end = offset + length
            if kind == _WRITE:
                written[file] = max(written.get(file, 0), end)
            elif end > written.get(file, 0):
                needed[file] = max(needed.get(file, 0), end)
    return needed
