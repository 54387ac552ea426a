"""Offsets of loaded records from readers and archives other than today's own."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch

from iotrace.capture.hooks.spans import Spans
from iotrace.capture.hooks.targets import target_of
from iotrace.capture.hooks.torch_load import RecordReader, ZipReads


class ListEmitter:
    """Keeps rows, and how often recording was paused."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.pauses = 0
        self.is_paused = False

    def emit(self, start_ns: int, end_ns: int, text: str) -> None:
        self.rows.append(json.loads(text))

    def note(self, values: dict[str, Any]) -> None:
        self.rows.append(values)

    def pause(self) -> None:
        self.pauses += 1
        self.is_paused = True

    def resume(self) -> None:
        self.is_paused = False


class OlderReader:
    """torch's reader without what torch 2.7 added to it."""

    def __init__(self, path: Path, emitter: ListEmitter) -> None:
        self._reader = torch._C.PyTorchFileReader(str(path))
        self._emitter = emitter

    def get_storage_from_record(self, name: str, length: int, dtype: Any) -> Any:
        return self._reader.get_storage_from_record(name, length, dtype)

    def get_record_offset(self, name: str) -> int:
        assert self._emitter.is_paused
        return int(self._reader.get_record_offset(name))


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A checkpoint of two tensors of 12 and 20 bytes."""
    path = tmp_path / "saved.pt"
    torch.save([torch.full((3,), 7.0), torch.full((5,), 9.0)], path)
    return path


def rows_of(reader: Any, path: Path, emitter: ListEmitter) -> list[dict[str, Any]]:
    """Read both records through a followed reader; return the rows."""
    spans: Any = Spans(emitter)  # type: ignore[arg-type]
    span = spans.create("load", "torch.save", target_of(path))
    spans.engage(span)
    emitter.pauses = 0  # one for the counters of the begin
    reads = ZipReads(reader, spans, span)
    followed = RecordReader(reader, reads)
    for name, length in (("data/0", 12), ("data/1", 20)):
        followed.get_storage_from_record(name, length, torch.UntypedStorage)
    reads.finish(None)
    return [row for row in emitter.rows if row["layer"] == "tensor"]


def test_an_older_reader_is_asked_without_being_recorded(saved: Path) -> None:
    """It reads the headers again; those reads are not the job's."""
    emitter = ListEmitter()

    rows = rows_of(OlderReader(saved, emitter), saved, emitter)

    content = saved.read_bytes()
    stored = [content[row["offset"] : row["offset"] + row["length"]] for row in rows]
    assert stored[0] == torch.full((3,), 7.0).numpy().tobytes()
    assert stored[1] == torch.full((5,), 9.0).numpy().tobytes()
    assert (emitter.pauses, emitter.is_paused) == (1, False)


def test_an_archive_of_another_writer_has_unknown_offsets(saved: Path, tmp_path: Path) -> None:
    """A checkpoint that was unpacked and zipped again: no offset beats a wrong one."""
    again = tmp_path / "again.pt"
    with zipfile.ZipFile(saved) as source, zipfile.ZipFile(again, "w") as target:
        for name in source.namelist():
            target.writestr(name, source.read(name))
    emitter = ListEmitter()

    rows = rows_of(torch._C.PyTorchFileReader(str(again)), again, emitter)

    assert [row["offset"] for row in rows] == [None, None]
    assert [row["length"] for row in rows] == [12, 20]
