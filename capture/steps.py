"""Steps of the job: the hooks of each process counted its own saves and loads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from iotrace.capture.notes import Note, Notes
from iotrace.capture.processes import rank_of
from iotrace.capture.rawlog import RawLog
from iotrace.traces.steps import Act, Place, number_steps

# What an asynchronous save copies first, and the wait for it, are of the same step as the save.
_KINDS = {"save": "save", "stage": "save", "commit": "save", "wait": "save", "load": "load"}
# The row that knows best where a step saves to; a tensor's may be one file of many.
_KNOWS = {"span": 0, "counter": 1, "tensor": 2}

StepKey = tuple[int, str, int, bool]  # log, kind, number, whether the hooks counted it


@dataclass
class _Seen:
    """What the notes of one step of one process say."""

    start_ns: int
    end_ns: int
    places: dict[int, set[Place]] = field(default_factory=dict)


def in_steps(notes: Notes, logs: Sequence[RawLog]) -> Notes:
    """Return the notes with the steps of the job in place of those that each process counted."""
    ranks = [rank_of(log, notes.of_log(place)) for place, log in enumerate(logs)]
    seen: dict[StepKey, _Seen] = {}
    keys = [_key(note) for note in notes.notes]
    for note, key in zip(notes.notes, keys, strict=True):
        if key is None or note.text("op") == "wait":  # may come long after its save
            continue
        one = seen.setdefault(key, _Seen(note.start_ns, note.end_ns))
        one.start_ns = min(one.start_ns, note.start_ns)
        one.end_ns = max(one.end_ns, note.end_ns)
        if note.path is not None:
            places = one.places.setdefault(_KNOWS[note.layer], set())
            places.add(Place(note.text("engine"), note.path, ranks[note.log]))
    steps = dict(
        zip(seen, number_steps([_act(key, one) for key, one in seen.items()]), strict=True)
    )
    return replace(
        notes,
        notes=tuple(
            note if key not in steps or key[2] == steps[key] else _moved(note, steps[key])
            for note, key in zip(notes.notes, keys, strict=True)
        ),
    )


def _key(note: Note) -> StepKey | None:
    kind = _KINDS.get(note.text("op") or "")
    if note.layer not in _KNOWS or kind is None or note.step is None:
        return None
    return note.log, kind, note.step, note.fields.get("counted") is True


def _act(key: StepKey, seen: _Seen) -> Act:
    log, kind, number, is_counted = key
    places = seen.places[min(seen.places)] if seen.places else frozenset[Place]()
    return Act(log, kind, places, seen.start_ns, seen.end_ns, None if is_counted else number)


def _moved(note: Note, step: int) -> Note:
    return replace(note, fields={**note.fields, "step": step})
