"""Where a trace lies: a file, a folder of files, or a URI such as s3://bucket/trace.parquet."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyarrow import fs

from iotrace.traces.errors import TraceFormatError

SUFFIX = ".parquet"


@dataclass(frozen=True)
class Location:
    """The files of one trace, in name order; `file_system` is None for this machine's own."""

    file_system: fs.FileSystem | None
    paths: tuple[str, ...]

    def open(self, path: str) -> pa.NativeFile:
        """Open one of the files for reading.

        Raises:
            OSError: as open.
        """
        if self.file_system is None:
            return pa.OSFile(os.fsencode(path))  # a name may hold any bytes; Arrow's is UTF-8
        return self.file_system.open_input_file(path)


def locate(location: str | Path) -> Location:
    """Find the file, or the `*.parquet` files of the folder, that `location` names.

    Raises:
        TraceFormatError: there is nothing to read.
    """
    try:
        if isinstance(location, str) and "://" in location:
            return _remote(location)
        return _local(Path(location))
    except (OSError, ValueError, pa.ArrowException) as error:
        raise TraceFormatError(f"cannot reach {location}: {one_line(error)}") from error


def one_line(error: Exception) -> str:
    """Return the first line of the error's message, not too long."""
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


def _local(path: Path) -> Location:
    whole = path.absolute()
    if whole.is_dir():
        names = [entry.name for entry in os.scandir(whole) if entry.is_file()]
        return Location(None, tuple(str(whole / name) for name in _traces(names, path)))
    if not whole.exists():
        raise _missing(path)
    if not whole.is_file():
        raise TraceFormatError(f"{path} is no regular file; name a trace file or a folder")
    return Location(None, (str(whole),))


def _remote(uri: str) -> Location:
    file_system, path = fs.FileSystem.from_uri(uri)
    if isinstance(file_system, fs.LocalFileSystem):
        return _local(Path(path))
    info = file_system.get_file_info(path)
    if info.type == fs.FileType.Directory:
        infos = file_system.get_file_info(fs.FileSelector(path))
        found = {info.base_name: info.path for info in infos if info.type == fs.FileType.File}
        return Location(file_system, tuple(found[name] for name in _traces(found, uri)))
    if info.type == fs.FileType.NotFound:
        raise _missing(uri)
    return Location(file_system, (path,))


def _traces(names: Iterable[str], folder: str | Path) -> list[str]:
    """Return the names of traces among those in a folder, sorted."""
    chosen = [n for n in names if n.endswith(SUFFIX) and not n.startswith((".", "_"))]
    if not chosen:
        raise TraceFormatError(f"the folder {folder} has no *{SUFFIX} files; name another")
    return sorted(chosen)


def _missing(location: str | Path) -> TraceFormatError:
    return TraceFormatError(
        f"{location} does not exist; check the name, or make a trace with `iotrace capture`"
    )
