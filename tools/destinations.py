"""All that a command writes against each other and against all that it reads, before any work."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path

from iotrace.tools.output import check_json, check_output, is_stream
from iotrace.traces.errors import IotraceError
from iotrace.traces.location import is_local_trace, locate
from iotrace.traces.stores import (
    as_uri,
    is_remote,
    is_web,
    is_writable,
    local_path,
    shown,
    store_place,
)

FileOrUri = str | Path


def check_outputs(
    files: Mapping[str, Path | None],
    json_to: str | None = None,
    *,
    inputs: Sequence[FileOrUri | None] = (),
    force: bool,
) -> None:
    """Refuse what could not be written in the end, or would destroy what the command has or makes.

    Args:
        files: each file to write, by what the user calls it, such as `-o`; None is not asked for.
        json_to: of `--json`; it may be a stream.
        inputs: what is read: files, folders, URIs.
        force: replace files that are there.

    Raises:
        IotraceError: as `check_apart` and `check_output`.
    """
    check_apart({**files, "--json": json_to}, inputs=inputs)
    for path in files.values():
        if path is not None:
            check_output(path, force=force)
    check_json(json_to, force=force)


def check_apart(
    outputs: Mapping[str, FileOrUri | None],
    *,
    folders: Mapping[str, Path | None] | None = None,
    inputs: Sequence[FileOrUri | None] = (),
) -> None:
    """Refuse outputs that are one file, by whatever names, or that are an input.

    Args:
        outputs: each file to write, by what the user calls it; a stream is none.
        folders: those to make, which may hold outputs but be none.
        inputs: what is read. Of a folder it is the traces in it; all that is in it if there is
            none, since any may belong to a checkpoint or a log.

    Raises:
        IotraceError: there are such.
    """
    files = {
        name: place
        for name, place in outputs.items()
        if place is not None and is_writable(place) and not is_stream(str(place))
    }
    for (first, one), (second, other) in combinations(files.items(), 2):
        if _names(one) & _names(other):
            both = shown(as_uri(one))
            raise IotraceError(f"{first} and {second} would both be {both}; name another file")
    for name, place in files.items():
        for made, folder in (folders or {}).items():
            if folder is not None and _lies_in(folder, place):
                file = shown(as_uri(place))
                raise IotraceError(f"{made} needs a folder where {name} puts the file {file}")
        if any(_is_read(place, source) for source in inputs if source is not None):
            replaced = shown(as_uri(place))
            raise IotraceError(f"{name} would replace {replaced}, which is read; name another file")


def _names(place: FileOrUri) -> set[object]:
    """Return what two names of one file have in common: the real path, or what is there."""
    if is_remote(place):
        return {store_place(place)}
    path = local_path(place)
    names: set[object] = {os.path.realpath(path)}
    try:
        found = path.stat()
    except OSError:  # not there, or not to be named so: `check_output` says which
        return names
    return names | {(found.st_dev, found.st_ino)}


def _lies_in(folder: Path, place: FileOrUri) -> bool:
    """Return whether a folder to make is the file `place`, or below it."""
    if is_remote(folder) or is_remote(place):
        return False
    return Path(os.path.realpath(local_path(folder))).is_relative_to(
        os.path.realpath(local_path(place))
    )


def _is_read(place: FileOrUri, source: FileOrUri) -> bool:
    """Return whether a file that is there is `source`, or of that folder what is read."""
    if is_remote(place) != is_remote(source) or is_web(source):
        return False
    if is_remote(place):
        return _is_read_in_store(place, source)
    if not local_path(place).exists():
        return False
    names = _names(place)
    return any(names & _names(path) for path in _files_of(local_path(source)))


def _is_read_in_store(place: FileOrUri, source: FileOrUri) -> bool:
    kind, endpoint, path = store_place(place)
    folder = store_place(source)
    if folder == (kind, endpoint, path):
        return True
    # Asked only where the answer can be yes: it is a request.
    return folder == (kind, endpoint, path.rpartition("/")[0]) and path in locate(source).paths


def _files_of(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        yield path
    elif is_local_trace(path):
        yield from map(Path, locate(path).paths)
    else:
        for folder, _, names in os.walk(path):
            yield from (Path(folder, name) for name in names)
