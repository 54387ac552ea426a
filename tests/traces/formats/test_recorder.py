"""Recorder's text as a trace."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from iotrace.traces.check import check_trace
from iotrace.traces.errors import TraceFormatError
from iotrace.traces.formats import recorder
from iotrace.traces.formats.source import Source
from iotrace.traces.formats.table import guess, import_trace

SAMPLES = Path(__file__).parent / "samples"


def test_recorders_text_of_two_ranks() -> None:
    """Recorded: each rank wrote, cut, renamed and read a file of 600,009 bytes in the end."""
    folder = SAMPLES / "recorder-2"
    assert guess(Source.of(folder)).name == guess(Source.of(folder / "1.txt")).name == "recorder"
    trace = recorder.read(folder)
    assert check_trace(trace) == []
    assert [process.rank for process in trace.metadata.processes] == [0, 1]
    one = trace.where(trace.ints("rank") == 1)
    assert set(one.strings("path")) == {"/tmp/ckpt/rank_1.tmp", "/tmp/ckpt/rank_1.pt", "/no/such"}
    moved = [
        (op, offset, length)
        for op, offset, length in zip(
            one.strings("op"), one.ints("offset"), one.ints("length"), strict=True
        )
        if op in ("read", "write", "truncate")
    ]
    assert moved == [
        *(("write", i << 16, 1 << 16) for i in range(8)),
        *(("write", 4096, 100), ("write", 8 << 16, 17), ("write", (8 << 16) + 17, 30)),
        ("truncate", -1, 600_000),
        *(("read", 0, 5000), ("read", 100, 80)),
        ("write", 600_000, 9),  # appended
        *(("read", 0, 1 << 16), ("read", 1 << 19, 1 << 16)),
        *(("read", 1 << 16, 100), ("read", (1 << 16) + 107, 50)),
    ]
    files = one.ints("file")[np.array(one.strings("path")) != "/no/such"]
    assert len(set(files.tolist())) == 1  # a rename changes the name alone


def test_recorders_own_files_say_how_to_read_them(tmp_path: Path) -> None:
    """They are in a binary form that its own reader knows; its text beside them is found."""
    (tmp_path / "recorder.mt").write_bytes(b"\0")
    with pytest.raises(TraceFormatError, match="run `recorder2text"):
        import_trace(tmp_path, guess(Source.of(tmp_path)))
    (tmp_path / "_text").mkdir()
    (tmp_path / "_text" / "0.txt").write_bytes((SAMPLES / "recorder-2" / "0.txt").read_bytes())
    assert len(recorder.read(tmp_path)) > 0


@pytest.mark.parametrize(
    "line", ["0.1 0.2 read 0 0 ( /a %p )", "0.1 0.2 read 0 0 ( /a %p x )", "read /a", "0.1 0.2 x"]
)
def test_what_recorder_never_writes_is_told_by_its_line(line: str, tmp_path: Path) -> None:
    """Not half a trace."""
    path = tmp_path / "0.txt"
    path.write_text(f"0.1 0.2 open 0 0 ( /a 0 )\n{line}\n")
    with pytest.raises(TraceFormatError, match=r"line 2: "):
        recorder.read(path)
