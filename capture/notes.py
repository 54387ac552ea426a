"""What the hooks noted inside the job: tensors, spans, the interpreter, hooks that did not bind."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from iotrace.capture.clock import Clock
from iotrace.capture.hooks.emit import CUT, TEXT_MAX_CHARS
from iotrace.capture.hooks.names import NAME_MAX_CHARS
from iotrace.capture.paths import normalise
from iotrace.capture.rawlog import RawLog
from iotrace.traces.foreign_json import parse_foreign_json
from iotrace.traces.schema import MAX_DIMENSIONS

_INT64 = range(-(2**63), 2**63)
_INT32 = range(-(2**31), 2**31)
_CUT_CHARS = (NAME_MAX_CHARS, TEXT_MAX_CHARS)


@dataclass(frozen=True, slots=True)
class Note:
    """One JSON object from a hook, with the place and time it was written.

    Attributes:
        fields: its members; `path` is normalised.
    """

    log: int
    row: int
    thread: int
    start_ns: int
    end_ns: int
    fields: Mapping[str, Any]

    @property
    def layer(self) -> str:
        """Return what kind of note this is."""
        return self.text("layer") or ""

    @property
    def path(self) -> str | None:
        """Return the normalised path the note is about."""
        return self.text("path")

    def text(self, key: str) -> str | None:
        """Return a field if it is text."""
        value = self.fields.get(key)
        return value if isinstance(value, str) else None

    def integer(self, key: str, allowed: range = _INT64) -> int | None:
        """Return a field if it is an integer that its column can hold."""
        value = self.fields.get(key)
        is_integer = isinstance(value, int) and not isinstance(value, bool)
        return value if is_integer and value in allowed else None

    def integers(self, key: str) -> Iterator[tuple[str, int]]:
        """Yield the names and values of a field that is an object of integers."""
        values = self.fields.get(key)
        for name, value in values.items() if isinstance(values, dict) else ():
            if isinstance(value, int) and not isinstance(value, bool) and value in _INT64:
                yield name, value

    @property
    def is_asynchronous(self) -> bool:
        """Return whether the engine goes on with it in threads of its own, after its end."""
        return self.fields.get("asynchronous") is True

    @property
    def is_mark(self) -> bool:
        """Return whether the job marked this span itself."""
        return self.fields.get("mark") is True

    @property
    def step(self) -> int | None:
        """Return the ordinal of the save or load."""
        return self.integer("step", _INT32)

    @property
    def has_cut_name(self) -> bool:
        """Return whether a name was longer than a note holds."""
        name = self.text("name")
        return name is not None and name.endswith(CUT) and len(name) in _CUT_CHARS

    @property
    def has_lost_shape(self) -> bool:
        """Return whether a shape has more dimensions than a trace holds."""
        value = self.fields.get("shape")
        return isinstance(value, list) and len(value) > MAX_DIMENSIONS

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Return the tensor's shape; None if it has none, or more dimensions than a trace holds."""
        value = self.fields.get("shape")
        if not isinstance(value, list) or not all(isinstance(size, int) for size in value):
            return None
        if len(value) > MAX_DIMENSIONS:
            return None
        return tuple(value)


@dataclass(frozen=True)
class Notes:
    """The notes of all logs, and how many could not be read."""

    notes: tuple[Note, ...]
    unreadable: int

    def of(self, *layers: str) -> list[Note]:
        """Return the notes of some layers."""
        return [note for note in self.notes if note.layer in layers]

    def of_log(self, place: int) -> Sequence[Note]:
        """Return the notes of one log."""
        return self._by_log.get(place, ())

    @cached_property
    def _by_log(self) -> Mapping[int, Sequence[Note]]:
        found: defaultdict[int, list[Note]] = defaultdict(list)
        for note in self.notes:
            found[note.log].append(note)
        return found


def read_notes(logs: Sequence[RawLog], clock: Clock) -> Notes:
    """Parse the notes of all logs; one that is no JSON object (cut, say) is counted."""
    texts = Texts()
    parsed = [note for place, log in enumerate(logs) for note in notes_of(place, log, clock, texts)]
    notes = tuple(note for note in parsed if note is not None)
    return Notes(notes, len(parsed) - len(notes))


class Texts:
    """Texts of notes, each kept once: a million notes say much the same."""

    def __init__(self) -> None:
        """Start empty."""
        self._texts: dict[str, str] = {}
        self._paths: dict[str, str] = {}

    def shared(self, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a note's fields with the texts that others have as well, its path normalised."""
        once = self._texts.setdefault
        found = {once(k, k): once(v, v) if type(v) is str else v for k, v in fields.items()}
        spelling = found.get("path")
        if isinstance(spelling, str):
            path = self._paths.get(spelling)
            if path is None:
                path = self._paths[spelling] = normalise(spelling)
            found["path"] = path
        return found


def notes_of(place: int, log: RawLog, clock: Clock, texts: Texts) -> Iterator[Note | None]:
    """Yield the notes of one log in order; None for an unreadable one."""
    rows = log.rows("note")
    records = log.slots[log.positions[rows]]
    starts = clock.times(log, records["start_ns"]).tolist()
    ends = clock.times(log, records["end_ns"]).tolist()
    threads = log.threads[rows].tolist()
    for row, thread, start_ns, end_ns in zip(rows.tolist(), threads, starts, ends, strict=True):
        try:
            fields = parse_foreign_json(log.text(row))
        except ValueError:
            fields = None
        if not isinstance(fields, dict):
            yield None
            continue
        yield Note(place, row, thread, start_ns, end_ns, texts.shared(fields))
