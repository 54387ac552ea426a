"""Write a file into an object store: whole or not at all."""

from __future__ import annotations

import ctypes
import os
from typing import IO

import pyarrow as pa
from pyarrow import fs

from iotrace.traces.errors import OutputExistsError
from iotrace.traces.stores import StoreError, find_store, is_writable, shown, told

_PIECE_BYTES = 8 << 20


def check_remote_output(uri: str, force: bool) -> None:
    """Refuse a URI that could not be written in the end, as far as a look at it tells.

    Raises:
        OutputExistsError: there is such a file, and not `force`.
        StoreError: it cannot be reached, has no such bucket, or is only to be read.
    """
    if not is_writable(uri):
        raise StoreError(f"{shown(uri)} can only be read; write a file, or to s3:// or gs://")
    store, path = find_store(uri)
    if "/" not in path:
        raise StoreError(f"{shown(uri)} is a bucket; give the name of a file in it")
    with told(uri):
        kind = store.get_file_info(path).type
        bucket = store.get_file_info(path.partition("/")[0]).type
    if kind == fs.FileType.Directory:
        raise StoreError(f"{shown(uri)} is a folder; give the name of a file in it")
    if bucket == fs.FileType.NotFound:
        raise StoreError(f"{shown(uri)}: there is no such bucket; check its name and region")
    if kind != fs.FileType.NotFound and not force:
        raise OutputExistsError(
            f"{shown(uri)} exists; add --force to replace it, or name another file"
        )


def upload(content: IO[bytes], uri: str, force: bool) -> None:
    """Copy `content` to `uri`, which shows it when all of it is there, and what it had until then.

    Raises:
        OutputExistsError, StoreError: as `check_remote_output`; the store refused.
    """
    check_remote_output(uri, force)
    store, path = find_store(uri)
    size = content.seek(0, os.SEEK_END)
    content.seek(0)
    with told(uri):
        stream = store.open_output_stream(path)
        try:
            while piece := content.read(_PIECE_BYTES):
                stream.write(piece)
            stream.close()
        except BaseException:
            _abandon(stream)
            raise
        # Nothing is removed whatever is there: it may be another writer's.
        stored = store.get_file_info(path).size
        if stored != size:
            raise OSError(f"{stored} bytes are there, {size} were sent")


def _abandon(stream: pa.NativeFile) -> None:
    """Let a stream never be closed: that would publish what was sent so far over what is there.

    Arrow closes what it destroys, at the end of the program too, and has no way to abort, so the
    stream is kept for ever. Its parts stay in the store until that clears unfinished uploads.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(stream))
