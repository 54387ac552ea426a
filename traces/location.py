"""Where a trace lies: a file, a folder of files, or a URI such as s3://bucket/trace.parquet."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote

import pyarrow as pa
from pyarrow import fs

from iotrace.traces.errors import TraceFormatError
from iotrace.traces.ranges import RangeFile
from iotrace.traces.stores import (
    SUFFIX,
    Place,
    StoreError,
    find_store,
    is_remote,
    is_web,
    local_path,
    shown,
    told,
)

# Of the raw logs of a capture, and of the folder beside the trace that holds them meanwhile.
RAW_LOGS_SUFFIX = ".raw"
PARQUET_MAGIC = b"PAR1"


@dataclass(frozen=True)
class Location:
    """The files of one trace, in name order; `file_system` is None for this machine's own."""

    file_system: fs.FileSystem | None
    paths: tuple[str, ...]
    name: str = ""

    @property
    def is_remote(self) -> bool:
        """Whether each read is a request to another machine."""
        return self.file_system is not None

    @property
    def parts(self) -> tuple[Location, ...]:
        """Each of the files, as a trace of its own."""
        return tuple(replace(self, paths=(path,)) for path in self.paths)

    def open(self, path: str) -> pa.NativeFile:
        """Open one of the files for reading at any place, a remote one by few requests.

        Raises:
            OSError: as open.
        """
        if self.file_system is None:
            return pa.OSFile(os.fsencode(path))  # a name may hold any bytes; Arrow's is UTF-8
        source = self.file_system.open_input_file(path)
        if is_web(self.name):
            return source  # reads by few requests on its own
        ranges = RangeFile(source.size(), lambda start, length: source.read_at(length, start))
        return pa.PythonFile(ranges, mode="r")


def locate(location: str | Path | Location) -> Location:
    """Find the file, or the `*.parquet` files of the folder, that `location` names.

    Raises:
        TraceFormatError: there is nothing to read.
    """
    if isinstance(location, Location):
        return location
    if is_remote(location):
        return _remote(location.whole if isinstance(location, Place) else str(location))
    try:
        return _local(local_path(location), location)
    except OSError as error:
        raise TraceFormatError(f"cannot reach {location}: {one_line(error)}") from error


def is_local_trace(path: Path) -> bool:
    """Return whether a path is a Parquet file, or a folder with some: what `locate` would read."""
    if path.is_dir():
        return any(path.glob(f"[!._]*{SUFFIX}"))
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(PARQUET_MAGIC)) == PARQUET_MAGIC


def is_remote_trace(uri: str) -> bool:
    """Return whether a URI is of a Parquet file, or a folder with some; its name is enough.

    Raises:
        TraceFormatError: there is nothing to read.
    """
    if uri.endswith(SUFFIX):
        return True
    location = locate(uri)
    path = location.paths[0]
    if path.endswith(SUFFIX):
        return True
    with told(uri), location.open(path) as file:
        return bytes(file.read(len(PARQUET_MAGIC))) == PARQUET_MAGIC


def one_line(error: Exception) -> str:
    """Return the first line of the error's message, not too long."""
    if "set_int_max_str_digits" in str(error):  # a setting of the interpreter, not of a user's
        return "an integer of thousands of digits"
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


def _local(path: Path, location: str | Path) -> Location:
    whole = path.absolute()
    if whole.is_dir():
        names = [entry.name for entry in os.scandir(whole) if entry.is_file()]
        paths = tuple(str(whole / name) for name in _traces(names, path))
        return Location(None, paths, str(location))
    if not whole.exists():
        raise _missing(path)
    if not whole.is_file():
        raise TraceFormatError(f"{path} is no regular file; name a trace file or a folder")
    return Location(None, (str(whole),), str(location))


def _remote(uri: str) -> Location:
    file_system, path = find_store(uri)
    with told(uri):
        info = file_system.get_file_info(path)
        if info.type == fs.FileType.Directory:
            infos = file_system.get_file_info(fs.FileSelector(path))
            found = {i.base_name: i.path for i in infos if i.type == fs.FileType.File}
            paths = tuple(found[name] for name in _traces(found, shown(uri)))
            return Location(file_system, paths, shown(uri))
    if info.type == fs.FileType.NotFound:
        raise _missing(uri)
    return Location(file_system, (path,), shown(uri))


def _traces(names: Iterable[str], folder: str | Path) -> list[str]:
    """Return the names of traces among those in a folder, sorted."""
    chosen = [n for n in names if n.endswith(SUFFIX) and not n.startswith((".", "_"))]
    if not chosen:
        convert = "" if "://" in str(folder) else ", or `iotrace convert` a checkpoint or a log"
        raise TraceFormatError(f"the folder {folder} has no *{SUFFIX} files; name another{convert}")
    return sorted(chosen)


def recover_command(raw_logs: Path, wanted: Path) -> str:
    """Return the command that makes a trace of raw logs.

    At `wanted`, or under another name or in another folder if that is taken or its disk full.
    """
    needed_bytes = sum(path.stat().st_size for path in raw_logs.glob(f"*{RAW_LOGS_SUFFIX}"))
    names = (wanted.name, f"{wanted.stem}-2{wanted.suffix}")
    # Not tempfile's: that fails where every disk is full, which is when this is asked.
    folders = (wanted.parent, Path(), Path(os.environ.get("TMPDIR") or "/tmp"))
    places = (folder / name for folder in folders for name in names)
    place = next((p for p in places if _is_free(p, needed_bytes)), wanted)
    return f"iotrace recover {quote(str(raw_logs))} -o {quote(str(place))}"


def _is_free(path: Path, needed_bytes: int) -> bool:
    try:
        disk = os.statvfs(path.parent)
    except OSError:
        return False
    return disk.f_bavail * disk.f_frsize >= needed_bytes and not os.path.lexists(path)


def _missing(location: str | Path) -> TraceFormatError:
    raw_logs = Path(f"{location}{RAW_LOGS_SUFFIX}")
    if isinstance(location, Path) and next(raw_logs.glob(f"*{RAW_LOGS_SUFFIX}"), None):
        return StoreError(
            f"{shown(location)} is not there, the raw logs of its capture are; if that has ended, "
            f"make it of them with `{recover_command(raw_logs, location)}`"
        )
    return StoreError(
        f"{shown(location)} does not exist; check the name, or make a trace with `iotrace capture`"
    )
