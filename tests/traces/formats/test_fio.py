"""fio's logs and jobs: real logs are read, exports run in the real fio, and exact stays exact."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iotrace.replay.sketch import sketch_trace
from iotrace.traces.check import check_trace
from iotrace.traces.errors import OutputExistsError, TraceFormatError
from iotrace.traces.formats import fio, fio_job
from iotrace.traces.formats.actions import Left, actions
from iotrace.traces.formats.source import Source
from iotrace.traces.reader import read_trace
from iotrace.traces.summary import summarize
from iotrace.traces.trace import Strings
from tests.traces.conftest import small_trace

CORPUS = Path(__file__).parents[3] / "traces" / "corpus"


def run_fio(job: Path, folder: Path) -> list[dict]:
    """Run a job in a folder; return fio's figures for each section."""
    command = ["fio", str(job), "--output-format=json"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    assert "got signal" not in done.stderr, done.stderr
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout[done.stdout.index("{") :])["jobs"]


def test_a_log_that_fio_wrote_is_read(tmp_path: Path) -> None:
    """The requests of a run of fio itself, at the times it gave."""
    options = "--rw=write --bs=4k --size=16k --ioengine=psync --fsync=2 --thinktime=1000"
    command = ["fio", "--name=w", *options.split(), "--filename=data", "--write_iolog=log"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)

    trace = fio.read(tmp_path / "log")

    assert fio.looks_like(Source.of(tmp_path / "log"))
    writes = trace.where(trace.row_mask(op="write"))
    assert writes.ints("offset").tolist() == [0, 4096, 8192, 12288]
    assert writes.ints("result").tolist() == [4096] * 4
    assert set(trace.strings("path")) == {"/data"}
    assert "sync" in trace.strings("op") and trace.strings("op")[0] == "open"
    assert (writes.ints("start_ns")[1:] - writes.ints("start_ns")[:-1] >= 900_000).all()
    assert check_trace(trace) == []
    assert "no threads" in " ".join(trace.metadata.completeness.problems())


def test_pauses_of_version_2_add_up(tmp_path: Path) -> None:
    """Written from fio's manual: `wait` is relative to the wait before it."""
    path = tmp_path / "log"
    path.write_text(
        "fio version 2 iolog\n/d/a add\n/d/a open\n/d/a wait 200 0\n/d/a write 0 10\n"
        "/d/a datasync 0 0\n/d/a wait 300 0\n/d/a trim 0 4096\n/d/a close\n"
    )
    trace = fio.read(path)
    assert trace.strings("op") == ["open", "write", "sync", "allocate", "close"]
    assert trace.ints("start_ns").tolist() == [0, 200_000, 200_000, 500_000, 500_000]
    assert trace.ints("flags").tolist() == [-1, -1, 1, 3, -1]


ACTION = st.tuples(
    st.integers(0, 5000),
    st.sampled_from(["/d/a", "/d/b.pt", "/ü"]),
    st.sampled_from(["open", "close", "read", "write", "sync", "datasync", "trim"]),
    st.integers(0, 2**40),
    st.integers(1, 2**30),
)


def as_log(actions: list[tuple[int, str, str, int, int]]) -> str:
    """Write a log as fio does: each file is added first, open while it is used, and in order."""
    lines, added, opened = [fio.HEADER.format(3)], set(), set()
    for us, name, kind, offset, length in sorted(actions, key=lambda action: action[0]):
        if (kind == "open") == (name in opened):
            continue
        if name not in added:
            added.add(name)
            lines.append(f"{us} {name} add")
        lines.append(f"{us} {name} {kind}")
        if kind in ("open", "close"):
            opened ^= {name}
        else:
            offset, length = (offset, length) if kind in ("read", "write", "trim") else (0, 0)
            lines[-1] += f" {offset} {length}"
    return "\n".join(lines) + "\n"


@given(st.lists(ACTION, max_size=30))
def test_a_log_comes_back_as_it_was(actions: list[tuple[int, str, str, int, int]]) -> None:
    """A log that begins at 0, and adds files as they come, is the same byte for byte."""
    text = as_log([(0, "/d/first", "open", 0, 0), *actions])
    with tempfile.TemporaryDirectory() as folder:
        before, after = Path(folder, "before"), Path(folder, "after")
        before.write_text(text)
        trace = fio.read(before)
        assert fio.write(trace, after) == []
        assert after.read_text() == text
        again = fio.read(after)
    assert again.table.equals(trace.table)


def test_a_log_of_fio_comes_back_with_times_from_zero(tmp_path: Path) -> None:
    """Every action in its place; fio gives a sync an extent, which no sync has."""
    options = "--filename=f1:f2 --size=2m --bsrange=4k-32k --rw=randrw --number_ios=60 --fsync=9"
    command = ["fio", "--name=w", *options.split(), "--write_iolog=log"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    fio.write(fio.read(tmp_path / "log"), tmp_path / "again")

    before, after = (actions_of(tmp_path / name) for name in ("log", "again"))

    assert len({action for _, _, action, _ in before} & {"read", "write", "sync"}) == 3
    first_us = before[0][0]
    assert after == [(us - first_us, f"/{name}", *rest) for us, name, *rest in before]


def actions_of(path: Path) -> list[tuple[int, str, str, list[str]]]:
    """Return microsecond, name, action and extent of the lines that act on a file."""
    lines = [line.split() for line in path.read_text().splitlines()[1:]]
    return [
        (int(us), name, action, extent if action in ("read", "write") else [])
        for us, name, action, *extent in lines
        if action != "add"
    ]


@pytest.mark.parametrize("name", sorted(path.stem for path in CORPUS.glob("*.parquet")))
def test_fio_moves_the_bytes_of_a_real_trace(name: str, tmp_path: Path) -> None:
    """The job of each engine's trace runs in fio and moves what was recorded."""
    trace = read_trace(CORPUS / f"{name}.parquet")
    job = tmp_path / "out" / "job.fio"
    job.parent.mkdir()
    (tmp_path / "run").mkdir()

    unsaid = fio_job.write(trace, job)

    sections = [job for job in run_fio(job, tmp_path / "run") if "lay-out" not in job["jobname"]]
    summary = summarize(trace)
    assert sum(section["write"]["io_bytes"] for section in sections) == summary.bytes_written
    assert sum(section["read"]["io_bytes"] for section in sections) == summary.bytes_read
    assert any("order between threads" in sentence for sentence in unsaid)
    with pytest.raises(OutputExistsError):
        job.unlink()
        fio_job.write(trace, job)


def test_what_fio_cannot_do_is_counted(tmp_path: Path) -> None:
    """A rename, a failure, a name with a space: told, and not half done."""
    trace = small_trace(
        5,
        op=Strings.of(["write", "rename", "write", "write", "write"]),
        path=Strings.of(["/d/a", "/d/a", "/d/b c", "/d/c", "/d/c"]),
        target=Strings.of([None, "/d/z", None, None, None]),
        file=np.array([0, 0, 1, 2, 2]),
        offset=np.array([0, 0, 0, 0, 5]),
        length=np.array([10, 0, 10, 10, 3 << 30]),
        result=np.array([10, 0, 10, -28, 3 << 30]),
    )
    told = "; ".join(fio.write(trace, tmp_path / "log"))
    assert "1 rename request;" in told and "1 request that failed" in told
    assert "1 request on files whose name" in told
    lines = (tmp_path / "log").read_text().splitlines()
    assert [re.sub(r"^\d+ ", "", line) for line in lines[1:]] == [
        *("/d/z add", "/d/z open", "/d/z write 0 10", "/d/c add", "/d/c open"),
        *(f"/d/c write {5 + (i << 30)} {1 << 30}" for i in range(3)),
    ]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("fio version 1 iolog\n", 1),
        ("fio version 3 iolog\n0 a open\nx a open\n", 3),
        ("fio version 3 iolog\n0 a jump\n", 2),
        ("fio version 3 iolog\n0 a write 0\n", 2),
        ("fio version 3 iolog\n0 a write -4096 10\n", 2),
        ("fio version 3 iolog\n0 a write 9223372036854775807 10\n", 2),
        ("fio version 2 iolog\n" + "a" * 70_000 + " open\n", 2),
    ],
)
def test_a_broken_line_is_named(text: str, line: int, tmp_path: Path) -> None:
    """Not half a trace, and no traceback."""
    path = tmp_path / "log"
    path.write_text(text)
    with pytest.raises(TraceFormatError, match=rf"log, line {line}: "):
        fio.read(path)
    assert os.listdir(tmp_path) == ["log"]


def test_a_sync_of_a_folder_is_left_out_and_said(tmp_path: Path) -> None:
    """fio makes no folders."""
    left = Left()
    found = actions(sketch_trace("open d/a w+create\nwrite d/a 0 9\nsync d/a\nsync d/"), left)
    assert [one.kind for one in found] == ["open", "write", "sync"]
    assert left.sentences() == ["1 sync of a folder"]
