"""Logs of one file that is really there, and what the trace says it lacks of it."""

import os
from pathlib import Path

from iotrace.capture.collector import collect
from iotrace.traces.metadata import Completeness, FileCompleteness

from .raw_log_writer import RawLogWriter

NEW = os.O_RDWR | os.O_CREAT | os.O_TRUNC
BLOCK_BYTES = 4096


def open_as(
    writer: RawLogWriter, path: Path, name: Path | None = None, flags: int = NEW, size: int = 0
) -> None:
    """Record an open of a file that is really there."""
    status = path.stat()
    writer.open(
        1, str(name or path), flags=flags, inode=status.st_ino, device=status.st_dev, size=size
    )


def write(writer: RawLogWriter, *extents: tuple[int, int]) -> None:
    """Record writes, each with offset and length."""
    for offset, length in extents:
        writer.add("write", file=1, offset=offset, length=length, result=length)


def completeness(writer: RawLogWriter, folder: Path, ended: bool = False) -> Completeness:
    """Return what the trace says it lacks; let the process end before, unless it has."""
    raw = folder / "raw"
    raw.mkdir(exist_ok=True)
    if not ended:
        writer.end()
    writer.write(raw)
    return collect(raw, ()).metadata.completeness


def of_file(writer: RawLogWriter, folder: Path) -> FileCompleteness:
    """Return what the trace says about its only file."""
    (one,) = completeness(writer, folder).files
    return one
