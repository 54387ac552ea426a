"""Recorder's traces as text, as its own recorder2text writes it: one file for each rank.

A line has the start and the end of a call in seconds, its name, how deep and of what library it
is, and its arguments, with the file's name in place of the descriptor. There is no result: a call
that failed looks like one that did not, and a read at the end of a file like a full one. Positions
are followed for each rank and file.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from iotrace.traces.errors import TraceFormatError
from iotrace.traces.formats.lines import Lines, parsing
from iotrace.traces.formats.rows import Rows, absolute, noted
from iotrace.traces.formats.source import Source
from iotrace.traces.formats.strace_lines import to_ns
from iotrace.traces.formats.strace_state import Names
from iotrace.traces.metadata import Metadata, Process
from iotrace.traces.open_flags import flags_of_mode
from iotrace.traces.trace import Trace
from iotrace.traces.words import plural

NAME = "recorder"
_LINE = re.compile(r"(\d{1,12}\.\d{1,9}) (\d{1,12}\.\d{1,9}) (\S{1,80}) (\d+) (\d+) \((.*) \)")
_RANK = re.compile(r"(\d{1,9})\.txt")
_BINARY, _TEXT = "recorder.mt", "_text"
_POSIX = "0"  # the library of a call; the others end in these
Arguments = list[str]


def looks_like(source: Source) -> bool:
    """Return whether a file is such a text, or a folder holds such files or the binary ones."""
    if source.is_folder:
        if _BINARY in source.names:
            return True
        names = [name for name in source.names if _RANK.fullmatch(name)]
        return bool(names) and looks_like(Source.of(source.path / names[0]))
    return any(_LINE.fullmatch(line) for line in source.first_lines(1))


def read(path: Path) -> Trace:
    """Return the requests of the text of one rank, or of all ranks in a folder.

    Raises:
        TraceFormatError: a line is none of recorder2text's; it is named. Or the folder holds the
            binary files alone.
    """
    files = [path]
    if path.is_dir():
        folder = path / _TEXT if (path / _TEXT).is_dir() else path
        found = {int(m[1]): f for f in folder.iterdir() if (m := _RANK.fullmatch(f.name))}
        files = [file for _, file in sorted(found.items())]
        if not files:
            raise TraceFormatError(
                f"{path} holds Recorder's own files; run `recorder2text {path}`, which writes "
                f"{path / _TEXT}, and convert that"
            )
    rows, lost, processes = Rows(), Counter[tuple[str, str]](), []
    for number, file in enumerate(files):
        match = _RANK.fullmatch(file.name)
        processes.append(Process(0, rank=int(match[1]) if match else -1))
        rank = _Rank(rows, lost, {"process": number, "rank": processes[-1].rank})
        lines = Lines(file)
        for text in lines:
            with parsing(lines, "text of recorder2text"):
                rank.take(text)
    if not len(rows):
        raise TraceFormatError(f"{path} has no calls on files")
    notes = [
        "Recorder tells no results: each call is taken as done in full",
        "Recorder tells no threads and no descriptors: positions were followed for each rank "
        "and file",
        "Recorder writes the blanks in names as _",
        "Recorder shows nothing of what moved through mapped memory, io_uring or libaio",
        *(f"{plural(count, noun)} {what}" for (noun, what), count in sorted(lost.items())),
    ]
    return rows.finish(Metadata(processes=tuple(processes), completeness=noted(*notes)))


class _Rank:
    """What is known of the files of one rank."""

    def __init__(self, rows: Rows, lost: Counter[tuple[str, str]], process: dict[str, Any]) -> None:
        self._rows = rows
        self._lost = lost
        self._process = process
        self._names = Names()
        self._positions: dict[int, int | None] = {}
        self._appending: set[int] = set()
        self._opens: Counter[int] = Counter()

    def take(self, text: str) -> None:
        """Add the row of a line, if its call is one on a file."""
        match = _LINE.fullmatch(text)
        if match is None:
            raise ValueError("times, a call and its arguments are expected")
        start, end, call, _, library, arguments = match.groups()
        if library != _POSIX or call not in _CALLS:
            return
        op, place, handler = _CALLS[call]
        words = [word for word in arguments.split() if word not in _POINTERS]
        if not words[place].startswith("/"):
            self._lost["call", "on files without a name"] += 1
            return
        path = absolute(words.pop(place))
        file = self._names.file(path)
        values = handler(self, file, call, words)
        if op is None:
            return
        start_ns = to_ns(start)
        self._rows.add(
            op,
            start_ns,
            end_ns=max(to_ns(end), start_ns),
            api="stdio" if call in _STDIO else "posix",
            path=path,
            file=file,
            **self._process,
            **{"result": 0, **values},
        )
        if op in ("rename", "link"):
            getattr(self._names, op)(path, values["target"])
        elif op == "unlink":
            self._names.unlink(path)

    def open(self, file: int, call: str, words: Arguments) -> dict[str, Any]:
        """open, creat, fopen and their like; a second one of a file moves its one position."""
        if call in _STDIO:
            flags = flags_of_mode(words[0])
        else:
            creates = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
            flags = creates if call.startswith("creat") else int(words[0])
        self._opens[file] += 1
        if self._opens[file] > 1:
            self._lost["open", "of a file that was open: offsets may be wrong"] += 1
        if flags & os.O_TRUNC:
            self._names.sizes[file] = 0
        self._positions[file] = 0
        if flags & os.O_APPEND:
            self._appending.add(file)
        return {"flags": flags}

    def close(self, file: int, call: str, words: Arguments) -> dict[str, Any]:
        """close and fclose."""
        self._opens[file] = max(self._opens[file] - 1, 0)
        self._appending.discard(file)
        return {}

    def move(self, file: int, call: str, words: Arguments) -> dict[str, Any]:
        """Reads and writes at the position; the length is the product of the numbers given."""
        length = int(words[0]) * (int(words[1]) if call in _ITEMS else 1)
        length -= call == _PRINTS and length > 0
        writes = call not in _READS
        if writes and file in self._appending:
            self._positions[file] = self._names.sizes.get(file)
        offset = self._positions.get(file)
        if offset is None:
            self._lost["request", "at positions that Recorder does not tell"] += 1
        else:
            self._positions[file] = offset + length
        return self._extent(file, offset, length, "tracked", writes)

    def move_at(self, file: int, call: str, words: Arguments) -> dict[str, Any]:
        """pread and pwrite."""
        return self._extent(file, int(words[1]), int(words[0]), "argument", call not in _READS)

    def _extent(
        self, file: int, offset: int | None, length: int, source: str, writes: bool
    ) -> dict[str, Any]:
        if writes and offset is not None:
            self._names.grow(file, offset + length)
        known = None if offset is None else source
        return {"offset": offset, "length": length, "result": length, "offset_source": known}

    def seek(self, file: int, call: str, words: Arguments) -> dict[str, Any]:
        """lseek, fseek and their like: no row."""
        by, whence = int(words[0]), int(words[1])
        froms = {os.SEEK_SET: 0, os.SEEK_CUR: self._positions.get(file)}
        base = froms.get(whence, self._names.sizes.get(file) if whence == os.SEEK_END else None)
        self._positions[file] = None if base is None else max(base + by, 0)
        return {}

    def truncate(self, file: int, call: str, words: Arguments) -> dict[str, Any]:
        """truncate and ftruncate."""
        self._names.sizes[file] = int(words[0])
        return {"length": int(words[0])}

    def sync(self, file: int, call: str, words: Arguments) -> dict[str, Any]:
        """fsync and fdatasync."""
        return {"flags": int(call == "fdatasync")}

    def two_names(self, file: int, call: str, words: Arguments) -> dict[str, Any]:
        """rename and link."""
        return {"target": absolute(words[0])}

    def one_name(self, file: int, call: str, words: Arguments) -> dict[str, Any]:
        """unlink, mkdir, rmdir."""
        return {}


_Handler = Callable[[_Rank, int, str, Arguments], dict[str, Any]]
_POINTERS = ("%p", "(nil)")
_STDIO = ("fopen", "fopen64", "fdopen", "fread", "fwrite", "vfprintf", "fclose")
_PRINTS = "vfprintf"  # its size counts the byte that ends the text
_READS = ("read", "pread", "pread64", "readv", "fread")
_ITEMS = ("fread", "fwrite")  # of a size, and so many
# Of each call: its op, which argument the file's name is once pointers are gone, what it does.
_CALLS: dict[str, tuple[str | None, int, _Handler]] = {
    **dict.fromkeys(
        ("open", "open64", "creat", "creat64", "fopen", "fopen64", "fdopen"),
        ("open", 0, _Rank.open),
    ),
    **dict.fromkeys(("close", "fclose"), ("close", 0, _Rank.close)),
    **dict.fromkeys(("read", "readv"), ("read", 0, _Rank.move)),
    **dict.fromkeys(("write", "writev", "vfprintf"), ("write", 0, _Rank.move)),
    "fread": ("read", 2, _Rank.move),
    "fwrite": ("write", 2, _Rank.move),
    **dict.fromkeys(("pread", "pread64"), ("read", 0, _Rank.move_at)),
    **dict.fromkeys(("pwrite", "pwrite64"), ("write", 0, _Rank.move_at)),
    **dict.fromkeys(("lseek", "lseek64", "fseek", "fseeko"), (None, 0, _Rank.seek)),
    **dict.fromkeys(("fsync", "fdatasync"), ("sync", 0, _Rank.sync)),
    **dict.fromkeys(("truncate", "ftruncate"), ("truncate", 0, _Rank.truncate)),
    "rename": ("rename", 0, _Rank.two_names),
    "link": ("link", 0, _Rank.two_names),
    **dict.fromkeys(("unlink", "remove"), ("unlink", 0, _Rank.one_name)),
    "mkdir": ("mkdir", 0, _Rank.one_name),
    "rmdir": ("rmdir", 0, _Rank.one_name),
}
