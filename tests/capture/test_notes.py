"""What the hooks noted, read from the raw logs."""

from __future__ import annotations

from pathlib import Path

from iotrace.capture.clock import Clock
from iotrace.capture.notes import read_notes
from iotrace.capture.rawlog import read_raw_log

from .raw_log_writer import RawLogWriter


def test_notes_of_many_tensors_share_their_texts(tmp_path: Path) -> None:
    """A job of a million tensors says the same few things a million times."""
    paths = []
    for pid in (1, 2):
        writer = RawLogWriter(pid=pid)
        for step in (0, 1):
            writer.note(layer="tensor", op="save", name="model.w", path="/out/./w.pt", step=step)
        writer.add("note", "no JSON")
        paths.append(writer.write(tmp_path))
    logs = [read_raw_log(path) for path in paths]

    notes = read_notes(logs, Clock.of(logs))

    assert notes.unreadable == 2
    assert [[note.step for note in notes.of_log(place)] for place in (0, 1, 2)] == [
        [0, 1],
        [0, 1],
        [],
    ]
    assert {note.path for note in notes.notes} == {"/out/w.pt"}
    for key in ("name", "path", "op"):
        assert len({id(note.fields[key]) for note in notes.notes}) == 1, key
