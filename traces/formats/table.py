"""The formats that a trace is made of, or becomes: one line each."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from iotrace.traces.check import RowName, check_trace, contradiction
from iotrace.traces.errors import TraceFormatError
from iotrace.traces.formats import (
    blktrace,
    checkpoint,
    csv_file,
    darshan,
    dftracer,
    dlio,
    elbencho,
    fio,
    fio_job,
    kv_cache,
    perfetto,
    recorder,
    strace,
)
from iotrace.traces.formats.source import Source
from iotrace.traces.metadata import HistoryEntry
from iotrace.traces.stores import file_name
from iotrace.traces.trace import Trace
from iotrace.traces.version import tool_version

_MOST_LETTERS = 200  # of a path in a message


@dataclass(frozen=True)
class Format:
    """One foreign format.

    Attributes:
        name: as typed after --from and --to.
        what: in words.
        suffixes: of its files, the usual one first; for a target they choose the format.
        looks_like: whether an input is of this format, by content; None: never guessed.
        read: returns the trace; None: no import.
        write: writes a trace to a path and returns what it could not say; None: no export.
        makes_more: whether it writes other files beside, and names them in the first.
        place: says where in a file that was read a row of its trace is; None: as a request is told.
    """

    name: str
    what: str
    suffixes: tuple[str, ...] = ()
    looks_like: Callable[[Source], bool] | None = None
    read: Callable[[Path], Trace] | None = None
    write: Callable[[Trace, Path], Sequence[str]] | None = None
    makes_more: bool = False
    place: Callable[[Path], RowName] | None = None


# In the order of guessing: the strictest first.
FORMATS: tuple[Format, ...] = (
    Format(
        strace.NAME,
        "strace log, of one file or of -ff",
        (".strace",),
        strace.looks_like,
        strace.read,
    ),
    Format(
        fio.NAME, "fio iolog, one for all threads", (".iolog",), fio.looks_like, fio.read, fio.write
    ),
    Format(
        fio_job.NAME,
        "fio job with an iolog per thread",
        (".fio",),
        write=fio_job.write,
        makes_more=True,
    ),
    Format(
        csv_file.NAME,
        "CSV with the columns of a trace",
        (".csv",),
        csv_file.looks_like,
        csv_file.read,
        csv_file.write,
        place=csv_file.place,
    ),
    Format(
        perfetto.NAME,
        "Chrome JSON for Perfetto",
        (".json", ".perfetto", ".trace"),
        write=perfetto.write,
    ),
    Format(dlio.NAME, "configuration of DLIO", (".yaml", ".yml"), write=dlio.write),
    Format(
        darshan.NAME,
        "binary log of Darshan with DXT",
        (),
        darshan.looks_binary,
        darshan.read_binary,
    ),
    Format(
        darshan.TEXT_NAME, "text of darshan-dxt-parser", (), darshan.looks_like, darshan.read_text
    ),
    Format(
        dftracer.NAME, "DFTracer log, or a folder of them", (), dftracer.looks_like, dftracer.read
    ),
    Format(
        recorder.NAME,
        "text of Recorder's recorder2text, or a folder of it",
        (),
        recorder.looks_like,
        recorder.read,
    ),
    Format(elbencho.NAME, "operations log of elbencho", (), elbencho.looks_like, elbencho.read),
    Format(
        kv_cache.NAME,
        "I/O trace of MLPerf Storage's KV-cache benchmark",
        (),
        kv_cache.looks_like,
        kv_cache.read,
    ),
    Format(blktrace.NAME, "text of blkparse", (), blktrace.looks_like, blktrace.read),
    Format(checkpoint.NAME, "checkpoint", (), checkpoint.looks_like, checkpoint.read),
)


def importers() -> tuple[Format, ...]:
    """Return the formats that can be read."""
    return tuple(format for format in FORMATS if format.read)


def exporters() -> tuple[Format, ...]:
    """Return the formats that can be written."""
    return tuple(format for format in FORMATS if format.write)


def guess(source: Source) -> Format:
    """Return the format of an input, by its content.

    Raises:
        TraceFormatError: it is none that is known.
    """
    for format in importers():
        if format.looks_like and format.looks_like(source):
            return format
    if logs := fio_job.logs_read(source):
        more = f", one of {len(logs)}" if len(logs) > 1 else ""
        raise TraceFormatError(
            f"{source.path} is a fio job; give the .iolog beside it, which has the requests: "
            f"{logs[0]}{more}"
        )
    names = ", ".join(format.name for format in importers())
    raise TraceFormatError(
        f"{source.path} is of no format that is known by its content; name one with --from: {names}"
    )


def named(name: str, among: Sequence[Format]) -> Format:
    """Return a format by its name.

    Raises:
        TraceFormatError: there is none.
    """
    for format in among:
        if format.name == name:
            return format
    names = ", ".join(format.name for format in among)
    raise TraceFormatError(f"no format {name!r}; choose one of {names}")


def by_suffix(path: Path) -> Format | None:
    """Return the format that the end of a target's name chooses, if any."""
    for format in exporters():
        if file_name(path).lower().endswith(format.suffixes):
            return format
    return None


def import_trace(path: Path, format: Format) -> Trace:
    """Read a foreign file and note in the trace's history where it came from.

    Raises:
        TraceFormatError: it is not of this format, or says what no file and no job does.
    """
    assert format.read is not None
    trace = format.read(path)
    if problems := check_trace(trace, False, format.place(path) if format.place else _request):
        raise TraceFormatError(f"{path} is no trace: {problems[0]}; correct it")
    entry = HistoryEntry(
        "import",
        detail=f"{format.what}: {path.name}",
        realtime_ns=time.time_ns(),
        tool_version=tool_version(),
    )
    return trace.with_metadata(trace.metadata.with_history(entry))


def _request(trace: Trace, row: int) -> str:
    """Tell a row by what it does: a log may have none or several lines for it."""
    path = trace.text_at("path", row)
    ns = trace.metadata.epoch_realtime_ns + int(trace.ints("start_ns")[row])
    of = f" of {path[:_MOST_LETTERS]}" if path else ""
    return f"the {trace.text_at('op', row)}{of} at {ns // 10**9}.{ns % 10**9:09} s"


def export_trace(trace: Trace, format: Format, target: Path) -> Sequence[str]:
    """Write a trace as a foreign file; return what that cannot say.

    Raises:
        TraceFormatError: the trace contradicts itself, or the format cannot hold it.
        OSError: the file cannot be written.
    """
    assert format.write is not None
    if problems := check_trace(trace, gaps=False):
        raise TraceFormatError(contradiction(problems))
    return format.write(trace, target)
