"""Write a trace: whole or not at all, and small."""

import os
import secrets
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from iotrace.traces.bounds import check_rows
from iotrace.traces.errors import OutputExistsError, TraceFormatError
from iotrace.traces.metadata import Metadata
from iotrace.traces.schema import FORMAT_VERSION, INT_COLUMNS, METADATA_KEY
from iotrace.traces.stores import as_uri, is_remote, local_path
from iotrace.traces.trace import Trace
from iotrace.traces.upload import upload

ROWS_PER_GROUP = 1 << 20
_SAMPLE_ROWS = 1 << 17
_TEMPORARY_BYTES = 100  # of the name of a file, in that of its draft

_DELTA = "DELTA_BINARY_PACKED"
# Every row of these differs from the others, so no dictionary can pay.
_ALWAYS_DELTA = ("seq", "start_ns", "end_ns")
_COMPRESSION: dict[str, Any] = {"compression": "zstd", "compression_level": 9}


def write_trace(trace: Trace, path: str | Path, force: bool = False) -> None:
    """Write `trace` as one Parquet file.

    The file appears under its name only when it is whole and on the device.

    Args:
        trace: what to write.
        path: of the file to make, or its URI; its folder or bucket must exist.
        force: replace the file if there is one.

    Raises:
        OutputExistsError: there is such a file, and not `force`.
        TraceFormatError: no reader would take it: a text or a shape is too long.
        OSError: the file system refused, for instance for lack of space; nothing is left behind.
        StoreError: the URI cannot be written.
    """
    try:
        check_rows(trace.table)
    except ValueError as error:
        raise TraceFormatError(f"no trace can hold {error}; leave it out") from error
    if is_remote(path):
        with tempfile.TemporaryFile() as whole:
            _write_table(trace.table, trace.metadata, whole)
            upload(whole, as_uri(path), force)
        return
    target = local_path(path)
    if target.is_dir() or (os.path.lexists(target) and not force):
        raise OutputExistsError(f"{target} exists; use --force to replace it, or name another")
    with replacing(target) as file:
        _write_table(trace.table, trace.metadata, file)


@contextmanager
def replacing(target: Path) -> Iterator[BinaryIO]:
    """Give a new file that becomes `target` if the block ends well, and vanishes if not."""
    known = shortened(target.name, _TEMPORARY_BYTES)
    temporary = target.with_name(f".{known}.{secrets.token_hex(4)}")
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except BaseException:
        with suppress(FileNotFoundError):
            temporary.unlink()
        raise


def shortened(name: str, most_bytes: int) -> str:
    """Return a file's name cut to so many bytes, which is what file systems count."""
    stored = os.fsencode(name)
    return name if len(stored) <= most_bytes else stored[:most_bytes].decode(errors="ignore")


def _write_table(table: pa.Table, metadata: Metadata, file: BinaryIO) -> None:
    stamped = replace(metadata, format_version=FORMAT_VERSION)
    names = table.column_names
    delta = [name for name in names if _is_smaller_as_delta(table, name)]
    with pq.ParquetWriter(
        file,
        table.schema,
        **_encodings([name for name in names if name not in delta], delta),
        store_schema=False,
        sorting_columns=[pq.SortingColumn(names.index("start_ns"))],
    ) as writer:
        writer.add_key_value_metadata({METADATA_KEY: stamped.to_json()})
        writer.write_table(table, row_group_size=ROWS_PER_GROUP)


def _is_smaller_as_delta(table: pa.Table, name: str) -> bool:
    """Return whether differences take less room than a dictionary, by trying on a sample."""
    if name in _ALWAYS_DELTA:
        return True
    if name not in INT_COLUMNS:
        return False
    sample = table.select([name]).slice(0, _SAMPLE_ROWS)
    return _stored_bytes(sample, _encodings([], [name])) < _stored_bytes(
        sample, _encodings([name], [])
    )


def _stored_bytes(table: pa.Table, encodings: dict[str, Any]) -> int:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, store_schema=False, **encodings)
    return int(sink.getvalue().size)


def _encodings(dictionary: Sequence[str], delta: Sequence[str]) -> dict[str, Any]:
    leaves = ["shape.list.element" if name == "shape" else name for name in dictionary]
    return {
        **_COMPRESSION,
        "use_dictionary": leaves or False,
        "column_encoding": dict.fromkeys(delta, _DELTA) or None,
    }
