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


def test_a_tensor_of_more_dimensions_than_a_trace_holds_has_no_shape(tmp_path: Path) -> None:
    """torch makes views of more than the 64 that most of it works with; the row is kept."""
    writer = RawLogWriter()
    for dimensions in (64, 65):
        writer.note(layer="tensor", op="save", path="/out/w.pt", shape=[1] * dimensions)
    log = read_raw_log(writer.write(tmp_path))

    kept = [note.shape for note in read_notes([log], Clock.of([log])).notes]

    assert kept == [(1,) * 64, None]
