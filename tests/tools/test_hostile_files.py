"""Files made to hang a command or to end it with a traceback: each is one line."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from iotrace.replay.fold import MOST_RANKS
from iotrace.traces.binned import TimeBins
from iotrace.traces.formats.damage import examine_files
from iotrace.traces.metadata import HistoryEntry, Process
from iotrace.traces.reader import read_trace
from iotrace.traces.regular import open_regular
from iotrace.traces.writer import write_trace

from .command import assert_one_line_error, iotrace
from .conftest import Make, Row, build, checkpoint_rows, metadata

SECONDS = 20  # a pipe that is waited for takes for ever


def test_a_pipe_is_not_waited_for(tmp_path: Path, make_trace: Make) -> None:
    """In the place of a raw log, of what lies beside it, of a key, of an index of shards."""
    trace = make_trace()
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="no regular file"):
        open_regular(pipe)
    done = iotrace("share", trace, "--key-file", pipe, "-o", tmp_path / "o.parquet", seconds=30)
    assert_one_line_error(done, 2, str(pipe), "it is no regular file")
    for name in ("1-1.raw", "faults-a-0.perf", "processes-a.roster", "capture.json"):
        raw = tmp_path / name.replace(".", "-")
        raw.mkdir()
        os.mkfifo(raw / name)
        done = iotrace("recover", raw, "-o", tmp_path / "r.parquet", seconds=30)
        assert done.returncode == 2, done.stderr
        assert len(done.stderr.splitlines()) == 1
    shards = tmp_path / "shards"
    shards.mkdir()
    os.mkfifo(shards / "model.safetensors.index.json")
    assert [damage.index for damage in examine_files(shards)] == ["broken"]


def test_times_at_the_end_of_64_bits_are_drawn(tmp_path: Path) -> None:
    """A float has no single nanoseconds there; the bins count from the first request."""
    rows = checkpoint_rows()
    end = 2**63 - 1
    trace = build(rows, metadata()).with_columns(
        {
            "start_ns": np.full(len(rows), end - 10),
            "end_ns": np.full(len(rows), end),
        }
    )
    write_trace(trace, tmp_path / "late.parquet")
    done = iotrace("report", tmp_path / "late.parquet", "-o", tmp_path / "x.html")
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    bins = TimeBins(np.linspace(0, 10, 6), end - 10)
    spread = bins.spread(np.array([end - 10]), np.array([end]), np.array([100]))
    assert spread.tolist() == [20, 20, 20, 20, 20]


def test_tensors_of_ops_that_are_not_known_are_no_figure(tmp_path: Path) -> None:
    """Not the largest of nothing."""
    rows = [replace(row, op="x") if row.layer == "tensor" else row for row in checkpoint_rows()]
    write_trace(build(rows, metadata()), tmp_path / "odd.parquet")
    done = iotrace("report", tmp_path / "odd.parquet", "-o", tmp_path / "x.html")
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr


def test_a_shared_trace_is_shared_again(tmp_path: Path) -> None:
    """Its card is made anew; a text that stood in a stranger's `card` is dropped."""
    first, second = tmp_path / "1.parquet", tmp_path / "2.parquet"
    assert iotrace("share", "corpus:torch-save", "-o", first).returncode == 0
    done = iotrace("share", first, "-o", second, "--licence", "CC-BY-4.0")
    assert done.returncode == 0, done.stderr
    cards = [read_trace(path).metadata.extra["card"] for path in (first, second)]
    again = {**cards[0], "licence": "CC-BY-4.0", "made_by": cards[1]["made_by"]}  # type: ignore[dict-item]
    assert again == cards[1]
    described = replace(metadata(), extra={"card": {"owner": "zebulon"}})
    described = described.with_history(HistoryEntry("capture"))
    write_trace(build(checkpoint_rows(), described), tmp_path / "own.parquet")
    done = iotrace("share", tmp_path / "own.parquet", "-o", tmp_path / "3.parquet")
    assert done.returncode == 0, done.stderr
    assert b"zebulon" not in (tmp_path / "3.parquet").read_bytes()


@pytest.mark.parametrize(("size", "is_sound"), [(1 << 60, True), ((1 << 60) + 1, False)])
def test_check_and_replay_agree_on_what_no_tensor_is_at(
    make_trace: Make, tmp_path: Path, size: int, is_sound: bool
) -> None:
    """What the one calls well-formed the other does not call damaged."""
    rows = [
        replace(row, offset=0, length=size) if row.layer == "tensor" else row
        for row in checkpoint_rows()
    ]
    trace = make_trace(rows)
    assert (iotrace("check", trace).returncode == 0) == is_sound
    done = iotrace("replay", trace, "--layer", "tensor", "--dry-run", cwd=tmp_path)
    assert ("is damaged" in done.stderr) == (not is_sound), done.stderr


def test_more_ranks_than_a_machine_starts_are_refused_before_the_start(tmp_path: Path) -> None:
    """Unless the user says how many processes may run them."""
    count = MOST_RANKS + 1
    rows = [Row("write", offset=0, length=1, result=1)] * count
    described = replace(metadata(), processes=tuple(Process(i, rank=i) for i in range(count)))
    number = np.arange(count)
    trace = build(rows, described).with_columns({"rank": number, "process": number, "file": number})
    write_trace(trace, tmp_path / "ranks.parquet")
    root = tmp_path / "root"
    root.mkdir()
    done = iotrace("replay", tmp_path / "ranks.parquet", "--root", root)
    assert_one_line_error(done, 2, "16,385 ranks", "--workers 256")
    assert list(root.iterdir()) == []
    done = iotrace("replay", tmp_path / "ranks.parquet", "--root", root, "--workers", 2)
    assert done.returncode == 0, done.stderr
