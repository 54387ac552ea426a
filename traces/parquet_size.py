"""How much memory a Parquet file asks for, from its footer and page headers, before it is decoded.

Run lengths and zstd can hide a petabyte in a small file. pyarrow tells these sizes too, but ends
the process on some damaged footers (the accessor of a column chunk's metadata lets a C++ exception
escape), and it believes the footer where the pages count.
"""

import pyarrow as pa

from iotrace.traces.parquet_pages import Chunk, chunks, pages

_VALUE_BYTES = 8


def needed_bytes(source: pa.NativeFile, columns: frozenset[str]) -> list[int]:
    """Return upper bounds of the memory that decoding `columns` takes, in bytes, per row group.

    Raises:
        ValueError: the file is damaged, or made to mislead.
    """
    sizes: list[int] = []
    for chunk in chunks(source):
        sizes += [0] * (chunk.group + 1 - len(sizes))
        if chunk.column in columns:
            sizes[chunk.group] += _chunk_bytes(source, chunk)
    return sizes


def stored_values(source: pa.NativeFile, column: str) -> int:
    """Return how many values the pages of a column hold; of lists, of all of them together.

    Raises:
        ValueError: the file is damaged, or made to mislead.
    """
    own = (c for c in chunks(source) if c.column == column)
    return sum(max(c.values, sum(page.values for page in pages(source, c))) for c in own)


def _chunk_bytes(source: pa.NativeFile, chunk: Chunk) -> int:
    values = unpacked_bytes = 0
    for page in pages(source, chunk):
        values += page.values
        unpacked_bytes += page.unpacked_bytes
    return max(values, chunk.values) * _VALUE_BYTES + unpacked_bytes
