"""Where a trace lies: a file, a folder of files, or a URI such as s3://bucket/trace.parquet."""

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyarrow import fs

from iotrace.traces.errors import TraceFormatError

SUFFIX = ".parquet"


@dataclass(frozen=True)
class Location:
    """The files of one trace, in name order, on one file system."""

    file_system: fs.FileSystem
    paths: tuple[str, ...]


def locate(location: str | Path) -> Location:
    """Find the file, or the `*.parquet` files of the folder, that `location` names.

    Raises:
        TraceFormatError: there is nothing to read.
    """
    try:
        file_system, path = _resolve(location)
        info = file_system.get_file_info(path)
        if info.type == fs.FileType.Directory:
            return Location(file_system, _files_in(file_system, path, location))
    except (OSError, ValueError, pa.ArrowException) as error:
        raise TraceFormatError(f"cannot reach {location}: {one_line(error)}") from error
    if info.type == fs.FileType.NotFound:
        raise TraceFormatError(
            f"{location} does not exist; check the name, or make a trace with `iotrace capture`"
        )
    if info.type != fs.FileType.File:
        raise TraceFormatError(f"{location} is no regular file; name a trace file or a folder")
    return Location(file_system, (path,))


def one_line(error: Exception) -> str:
    """Return the first line of the error's message, not too long."""
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


def _resolve(location: str | Path) -> tuple[fs.FileSystem, str]:
    if isinstance(location, str) and "://" in location:
        file_system, path = fs.FileSystem.from_uri(location)
        return file_system, path
    return fs.LocalFileSystem(), str(Path(location).absolute())


def _files_in(file_system: fs.FileSystem, path: str, location: str | Path) -> tuple[str, ...]:
    infos = file_system.get_file_info(fs.FileSelector(path))
    paths = sorted(
        info.path
        for info in infos
        if info.type == fs.FileType.File
        and info.base_name.endswith(SUFFIX)
        and not info.base_name.startswith((".", "_"))
    )
    if not paths:
        raise TraceFormatError(f"the folder {location} has no *{SUFFIX} files; name another")
    return tuple(paths)
