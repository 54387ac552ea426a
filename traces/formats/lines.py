"""Lines of a text file, plain or gzipped, read with bounded memory and told by number."""

from __future__ import annotations

import codecs
import csv
import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from iotrace.traces.errors import TraceFormatError
from iotrace.traces.location import one_line

LINE_MAX_BYTES = 1 << 16
# A log shrinks to a tenth or so; what grows more than this was made to keep its reader busy.
GROWTH_MAX = 200
GROWTH_FREE_BYTES = 64 << 20
GZIP_MAGIC = b"\x1f\x8b"
BYTE_ORDER_MARK = codecs.BOM_UTF8  # which Excel and editors of Windows put before a text
# What a parser raises on text that it does not expect.
_PARSE_ERRORS = (
    *(ValueError, LookupError, TypeError, ArithmeticError, RecursionError, AttributeError),
    csv.Error,
)


class Lines:
    """The lines of one file, without their ends; bytes that are no UTF-8 stay surrogates.

    A byte order mark before the first is none of it.

    Attributes:
        number: of the line last given, from 1.
    """

    def __init__(self, path: Path, max_bytes: int = LINE_MAX_BYTES) -> None:
        self.path = path
        self.number = 0
        self._max_bytes = max_bytes

    def __iter__(self) -> Iterator[str]:
        most_bytes = self.path.stat().st_size * GROWTH_MAX + GROWTH_FREE_BYTES
        with opened(self.path) as file:
            while line := self._next(file):
                self.number += 1
                most_bytes -= len(line)
                if most_bytes < 0:
                    raise self.error(f"the compressed file grows {GROWTH_MAX}-fold; unpack it")
                if len(line) > self._max_bytes:
                    raise self.error(f"longer than {self._max_bytes} bytes")
                if self.number == 1:
                    line = line.removeprefix(BYTE_ORDER_MARK)
                yield line.rstrip(b"\r\n").decode("utf-8", "surrogateescape")

    def _next(self, file: BinaryIO) -> bytes:
        try:
            return file.readline(self._max_bytes + 1)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise self.error(f"the compressed file is damaged here: {one_line(error)}") from error

    def error(self, what: str, number: int | None = None) -> TraceFormatError:
        """Return the error to raise about a line, by default the one last given."""
        return TraceFormatError(f"{self.path}, line {number or self.number}: {what}")


@contextmanager
def parsing(lines: Lines, kind: str, number: int | None = None) -> Iterator[None]:
    """Turn whatever goes wrong while a line is understood into one error that names it.

    Args:
        lines: where the line comes from.
        kind: what the line should be, such as "fio iolog".
        number: of the line, by default the one last given.
    """
    try:
        yield
    except _PARSE_ERRORS as error:
        reason = f" ({one_line(error)})" if isinstance(error, ValueError) else ""
        what = f"this is no line of a {kind}{reason}; correct or remove it"
        raise lines.error(what, number) from error


def opened(path: Path) -> BinaryIO:
    """Open a file for reading, through gzip if it is compressed.

    Raises:
        TraceFormatError: it cannot be opened.
    """
    try:
        with path.open("rb") as file:
            compressed = file.read(len(GZIP_MAGIC)) == GZIP_MAGIC
        return cast(BinaryIO, gzip.open(path)) if compressed else path.open("rb")
    except OSError as error:
        raise TraceFormatError(f"{path} cannot be read: {error.strerror}; check it") from error
