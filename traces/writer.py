"""Write a trace: whole or not at all, and small."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from iotrace.traces.errors import OutputExistsError
from iotrace.traces.metadata import Metadata
from iotrace.traces.schema import FORMAT_VERSION, METADATA_KEY
from iotrace.traces.trace import Trace

ROWS_PER_GROUP = 1 << 20

# Integers that grow along the rows: their differences are small. All others take few values.
_GROWING = ("seq", "start_ns", "end_ns", "offset", "address", "tensor_offset")


def write_trace(trace: Trace, path: str | Path, force: bool = False) -> None:
    """Write `trace` as one Parquet file.

    The file appears under its name only when it is whole and on the device.

    Args:
        trace: what to write.
        path: of the file to make; its folder must exist.
        force: replace the file if there is one.

    Raises:
        OutputExistsError: there is such a file, and not `force`.
        OSError: the file system refused, for instance for lack of space; nothing is left behind.
    """
    target = Path(path)
    if target.is_dir() or (os.path.lexists(target) and not force):
        raise OutputExistsError(f"{target} exists; use --force to replace it, or name another")
    with _replacing(target) as file:
        _write_table(trace.table, trace.metadata, file)


@contextmanager
def _replacing(target: Path) -> Iterator[BinaryIO]:
    """Give a new file that becomes `target` if the block ends well, and vanishes if not."""
    temporary = target.with_name(f".{target.name[:200]}.{secrets.token_hex(4)}")
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


def _write_table(table: pa.Table, metadata: Metadata, file: BinaryIO) -> None:
    stamped = replace(metadata, format_version=FORMAT_VERSION)
    names = table.column_names
    growing = [name for name in names if name in _GROWING]
    with pq.ParquetWriter(
        file,
        table.schema,
        compression="zstd",
        compression_level=3,
        use_dictionary=[_leaf(name) for name in names if name not in growing],
        column_encoding=dict.fromkeys(growing, "DELTA_BINARY_PACKED"),
        store_schema=False,
        sorting_columns=[pq.SortingColumn(names.index("start_ns"))],
    ) as writer:
        writer.add_key_value_metadata({METADATA_KEY: stamped.to_json()})
        writer.write_table(table, row_group_size=ROWS_PER_GROUP)


def _leaf(name: str) -> str:
    return "shape.list.element" if name == "shape" else name
