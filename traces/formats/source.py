"""What is known of an input before it is read: its first bytes, or the names in its folder."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from iotrace.traces.errors import TraceFormatError
from iotrace.traces.formats.lines import BYTE_ORDER_MARK, opened

HEAD_BYTES = 1 << 16


@dataclass(frozen=True)
class Source:
    """A file or a folder.

    Attributes:
        head: the first bytes of a file, decompressed.
        names: of the files right in a folder, sorted.
    """

    path: Path
    is_folder: bool
    head: bytes = b""
    names: tuple[str, ...] = ()

    @classmethod
    def of(cls, path: Path) -> Source:
        """Look at a path.

        Raises:
            TraceFormatError: there is nothing to read.
        """
        if path.is_dir():
            names = (child.name for child in islice(path.iterdir(), 1 << 20) if child.is_file())
            return cls(path, True, names=tuple(sorted(names)))
        if not path.is_file():
            what = "is no regular file" if path.exists() else "does not exist"
            raise TraceFormatError(f"{path} {what}; name a file or a folder")
        with opened(path) as file:
            try:
                return cls(path, False, file.read(HEAD_BYTES))
            except (OSError, EOFError, zlib.error):
                return cls(path, False)

    def first_lines(self, count: int) -> Iterator[str]:
        """Yield the first lines, without one that the head cuts."""
        lines = self.head.removeprefix(BYTE_ORDER_MARK).split(b"\n")
        whole = lines if len(self.head) < HEAD_BYTES else lines[:-1]
        for line in whole[:count]:
            yield line.decode("utf-8", "surrogateescape").rstrip("\r")
