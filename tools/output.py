"""Where a command's output goes, checked before any work is done for it."""

from __future__ import annotations

import io
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from iotrace.traces.errors import IotraceError, OutputExistsError
from iotrace.traces.remedies import with_remedy
from iotrace.traces.stores import as_uri, find_store, is_remote, is_writable, local_path, shown
from iotrace.traces.trace import Trace
from iotrace.traces.upload import check_remote_output, upload
from iotrace.traces.writer import replacing, write_trace

STDOUT = "-"
Written = TypeVar("Written")


class OutputError(IotraceError):
    """The work is done, and its output cannot be written."""

    exit_code = 1


def check_output(path: Path, *, force: bool) -> None:
    """Refuse a path, or a URI, that could not be written in the end.

    Raises:
        OutputExistsError: the file is there and `force` is not given.
        IotraceError: it is `-`, a folder or a device, or its folder is missing or takes no new
            file.
    """
    if str(path) == STDOUT:
        raise IotraceError("an output file is needed; `-` is not one, name it, such as out.parquet")
    if not is_writable(path) or is_remote(path):
        check_remote_output(as_uri(path), force)
        return
    path = local_path(path)
    if path.is_dir():
        raise IotraceError(f"{path} is a folder; give the name of a file in it")
    if path.exists() and not path.is_file():
        # The file is renamed into place, which would put it where a device was.
        raise IotraceError(f"{path} is not a regular file; name another one")
    if os.path.lexists(path) and not force:
        raise OutputExistsError(f"{path} exists; add --force to replace it, or name another file")
    folder = path.parent
    if not folder.is_dir():
        raise IotraceError(f"cannot write {path}: no folder {folder}; create it first")
    try:
        # Permission bits say nothing of a read-only mount or of root: only a try does.
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        cause = with_remedy(error, "choose another folder")
        raise IotraceError(f"cannot write {path}: {cause}") from error


def save_trace(trace: Trace, path: Path, *, force: bool) -> None:
    """Write a trace or a result, whole or not at all.

    Raises:
        OutputError: the system refused; nothing is left behind.
    """
    try:
        write_trace(trace, path, force=force)
    except OSError as error:
        raise OutputError(f"cannot write {shown(path)}: {with_remedy(error)}") from error


def check_json(destination: str | None, *, force: bool) -> None:
    """Refuse a `--json` destination that could not be written in the end."""
    if destination is not None and not is_stream(destination):
        check_output(Path(destination), force=force)


def write_json(value: dict[str, Any], destination: str) -> None:
    """Write one JSON object to the file `destination`, whole or not at all; `-` is stdout.

    Raises:
        OutputError: the system refused; nothing is left behind.
    """
    text = json.dumps(value, indent=2, allow_nan=False).replace("\x7f", "\\u007f") + "\n"
    if destination == STDOUT:
        sys.stdout.write(text)
        return
    if not is_stream(destination):
        save_all({Path(destination): text.encode()})
        return
    try:
        Path(destination).write_text(text)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(f"cannot write {destination}: {with_remedy(error)}") from error


def save_with(write: Callable[[Path], Written], path: Path, *, force: bool) -> Written:
    """Let `write` make the file `path`, which may be a URI; return what it returns.

    Raises:
        OutputError: the system refused.
        StoreError: the store did.
    """
    try:
        if not is_remote(path):
            return write(local_path(path))
        with tempfile.TemporaryDirectory() as folder:
            draft = Path(folder) / path.name
            written = write(draft)
            with draft.open("rb") as file:
                upload(file, as_uri(path), force)
            return written
    except OSError as error:
        raise OutputError(f"cannot write {shown(path)}: {with_remedy(error)}") from error


def save_all(files: Mapping[Path, bytes]) -> None:
    """Write files, each whole; all or none on this machine, one by one into a store.

    Raises:
        OutputError: the system refused; nothing is left behind here.
        StoreError: the store did.
    """
    with ExitStack() as drafts:
        for path, content in files.items():
            drafts.enter_context(drafted(path, content))


def save_with_text(trace: Trace, path: Path, text: str, text_path: Path, *, force: bool) -> None:
    """Write a trace and the text that belongs to it: both or neither.

    Raises:
        OutputError: the system refused; nothing is left behind.
        StoreError: the store did.
    """
    is_saved = False
    try:
        with drafted(text_path, text.encode()):
            save_trace(trace, path, force=force)
            is_saved = True
    except BaseException:
        if is_saved and not force:  # nothing was there before
            _remove(path)
        raise


@contextmanager
def drafted(path: Path, content: bytes) -> Iterator[None]:
    """Give a file its content, and its name if the block ends well; else leave nothing.

    Raises:
        OutputError: the system refused.
        StoreError: the store did, after the block.
    """
    if is_remote(path):
        yield
        upload(io.BytesIO(content), as_uri(path), force=True)
        return
    try:
        with replacing(local_path(path)) as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())  # what has no room says so before the block
            yield
    except OSError as error:
        raise OutputError(f"cannot write {shown(path)}: {with_remedy(error)}") from error


def is_stream(destination: str) -> bool:
    """Is it written as it is, like `-`, /dev/stderr or a named pipe?"""
    path = Path(destination)
    return destination == STDOUT or (path.exists() and not path.is_file() and not path.is_dir())


def _remove(path: Path) -> None:
    with suppress(OSError, IotraceError):
        if not is_remote(path):
            local_path(path).unlink()
            return
        store, key = find_store(path)
        store.delete_file(key)
