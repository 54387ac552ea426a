"""Which save or load a request belongs to: by its thread, else by its file."""

from __future__ import annotations

import posixpath
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from iotrace.capture.files import FileTable
from iotrace.capture.notes import Note, Notes

Times = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]
FileKey = tuple[int, bool]  # file, whether it was opened for writing

NEVER_NS = np.iinfo(np.int64).max


class Label(NamedTuple):
    """What a request is labelled with."""

    engine: str | None
    step: int | None


class Interval(NamedTuple):
    """A time that belongs to a label; the label is an index into `Labelling.labels`."""

    start_ns: int
    end_ns: int
    label: int


@dataclass(frozen=True)
class LogLabels:
    """The labels of one log: by thread, each in order and disjoint; and by file, in order.

    Those by mark are by thread, for what is of no engine: the job marked them itself.
    """

    by_thread: Mapping[int, Sequence[Interval]]
    by_file: Mapping[FileKey, Sequence[Interval]]
    by_mark: Mapping[int, Sequence[Interval]]


@dataclass(frozen=True)
class Labelling:
    """Every label of the job, and where each log uses them."""

    labels: tuple[Label, ...]
    logs: tuple[LogLabels, ...]


@dataclass(frozen=True)
class Requests:
    """What labelling needs of the requests of one log; one entry per request.

    Attributes:
        for_writing: whether the file was opened for writing, or the request changes names.
        follows: whether the request only follows from an earlier one, as a close does.
    """

    threads: npt.NDArray[np.uint32]
    starts_ns: Times
    files: Codes
    for_writing: npt.NDArray[np.bool_]
    follows: npt.NDArray[np.bool_]


def labelling(notes: Notes, files: FileTable) -> Labelling:
    """Derive from the notes who owns which thread and which file at which time."""
    labels: dict[Label, int] = {}
    by_log: list[list[Note]] = [[] for _ in files.logs]
    for note in notes.of("span", "tensor"):
        by_log[note.log].append(note)
    inside = files_inside({note.path for note in notes.of("span")}, files)
    logs = tuple(log_labels(own, files, inside, labels) for own in by_log)
    return Labelling(tuple(labels), logs)


def log_labels(
    notes: Sequence[Note],
    files: FileTable,
    inside: Mapping[str | None, Sequence[int]],
    labels: dict[Label, int],
) -> LogLabels:
    """Return the labels of one log, adding new ones to `labels`."""
    by_thread: defaultdict[int, list[Interval]] = defaultdict(list)
    by_file: defaultdict[FileKey, set[Interval]] = defaultdict(set)
    by_mark: defaultdict[int, list[Interval]] = defaultdict(list)
    spans = [note for note in notes if note.layer == "span"]
    for span in sorted(spans, key=lambda note: (note.start_ns, -note.end_ns)):
        if span.is_mark:
            if not by_mark[span.thread] or span.end_ns > by_mark[span.thread][-1].end_ns:
                by_mark[span.thread].append(interval_of(span, labels))
            continue
        own = by_thread[span.thread]
        if own and span.end_ns <= own[-1].end_ns:
            continue  # within another: the outermost call is the one the user made
        own.append(interval_of(span, labels))
        for file in {files.named(span.path or "", span.end_ns), *inside.get(span.path, ())}:
            by_file[file, is_save(span)].add(own[-1])
    for tensor in (note for note in notes if note.layer == "tensor" and note.path):
        file = files.named(tensor.path or "", tensor.end_ns)
        around = interval_at(by_thread.get(tensor.thread, ()), tensor.start_ns)
        by_file[file, is_save(tensor)].add(lasting(around or interval_of(tensor, labels), tensor))
    return LogLabels(
        by_thread=dict(by_thread),
        by_file={key: sorted(intervals) for key, intervals in by_file.items() if key[0] >= 0},
        by_mark=dict(by_mark),
    )


def interval_of(note: Note, labels: dict[Label, int]) -> Interval:
    """Return the time of a note with the number of its label."""
    label = labels.setdefault(Label(note.text("engine"), note.step), len(labels))
    return Interval(note.start_ns, note.end_ns, label)


def lasting(interval: Interval, note: Note) -> Interval:
    """Return the time of a tensor's save or load; only the next one ends an asynchronous one."""
    return interval._replace(end_ns=NEVER_NS) if note.is_asynchronous else interval


def is_save(note: Note) -> bool:
    """Return whether the note is about data on its way out."""
    return note.text("op") != "load"


def interval_at(intervals: Sequence[Interval], time_ns: int) -> Interval | None:
    """Return the one of disjoint intervals in order that contains a time."""
    place = bisect_right(intervals, time_ns, key=lambda interval: interval.start_ns) - 1
    return intervals[place] if place >= 0 and time_ns <= intervals[place].end_ns else None


def files_inside(folders: Set[str | None], files: FileTable) -> dict[str | None, list[int]]:
    """Return the files that ever had a name in one of `folders`, at any depth."""
    inside: dict[str | None, list[int]] = {}
    for code, history in files.names.items():
        folder = posixpath.dirname(files.paths[code])
        while folders and folder not in ("", "/"):
            if folder in folders:
                inside.setdefault(folder, []).extend(history.values)
            folder = posixpath.dirname(folder)
    return inside


def assign(requests: Requests, labels: LogLabels) -> Codes:
    """Return the label of each request of a log, -1 for none.

    First the span that is open in the thread of the request. An engine's other threads write too,
    some of them after the span (an asynchronous save): a request that its thread does not explain
    has the label of the last save of its file, if it was opened for writing, and of the load that
    goes on if it was opened for reading. What follows from a load (the close of its file, the end
    of a mapping, a fault on it) belongs to the last one, whether it goes on or not.
    """
    chosen = np.full(len(requests.starts_ns), -1, np.int32)
    for thread, intervals in labels.by_thread.items():
        rows = np.flatnonzero(requests.threads == thread)
        chosen[rows] = labels_at(requests.starts_ns[rows], intervals, until_end=True)
    wanted = np.unique(np.array([file for file, _ in labels.by_file], np.int32))
    rows = np.flatnonzero((chosen < 0) & np.isin(requests.files, wanted))
    for key, own in grouped(rows, requests):
        intervals = labels.by_file.get(key, ())
        lasts = key[1] | requests.follows[own]
        begun = labels_at(requests.starts_ns[own], intervals, until_end=False)
        going_on = labels_at(requests.starts_ns[own], intervals, until_end=True)
        chosen[own] = np.where(lasts, begun, going_on)
    for thread, intervals in labels.by_mark.items():
        rows = np.flatnonzero((requests.threads == thread) & (chosen < 0))
        chosen[rows] = labels_at(requests.starts_ns[rows], intervals, until_end=True)
    return chosen


def labels_at(times_ns: Times, intervals: Sequence[Interval], until_end: bool) -> Codes:
    """Return for each time the label of the last interval that began, if it has not ended."""
    none = Interval(0, NEVER_NS, -1)
    starts, ends, labels = np.array([*intervals, none], np.int64).T
    places = np.searchsorted(starts[:-1], times_ns, "right") - 1  # -1 is `none`
    begun: Codes = labels[places].astype(np.int32)
    return np.where(times_ns <= ends[places], begun, -1) if until_end else begun


def grouped(
    rows: npt.NDArray[np.int64], requests: Requests
) -> Iterator[tuple[FileKey, npt.NDArray[np.int64]]]:
    """Yield the requests of each file and direction."""
    keys = requests.files[rows].astype(np.int64) * 2 + requests.for_writing[rows]
    order = np.argsort(keys, kind="stable")
    values, firsts = np.unique(keys[order], return_index=True)
    parts = np.split(rows[order], firsts[1:]) if len(values) else []
    for key, own in zip(values.tolist(), parts, strict=True):
        yield (key >> 1, bool(key & 1)), own
