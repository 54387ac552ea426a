"""Whose requests they are: what an engine's own threads do, and what comes after a load."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from iotrace.capture.collector import collect
from iotrace.traces.trace import Trace

from .raw_log_writer import RawLogWriter

MAIN, ENGINE_THREAD = 5000, 5001
LOAD = {"op": "load", "engine": "datastates-llm", "path": "/data/x"}
SAVE = {"op": "save", "engine": "datastates-llm", "path": "/data/x"}


@pytest.fixture
def writer() -> RawLogWriter:
    """Return the writer of one process's log."""
    return RawLogWriter(pid=MAIN)


def labels(writer: RawLogWriter, folder: Path, *ops: str) -> list[tuple[str | None, int]]:
    """Return engine and step (-1: none) of the requests with these ops, in order."""
    writer.write(folder)
    trace: Trace = collect(folder, ("python", "train.py"))
    chosen = trace.where(trace.row_mask(layer="request", op=ops))
    return list(zip(chosen.strings("engine"), chosen.ints("step").tolist(), strict=True))


def read(writer: RawLogWriter, start_ns: int, thread: int = ENGINE_THREAD) -> None:
    """Append a read of the first file."""
    writer.add("read", thread=thread, file=1, offset=0, length=8, result=8, start_ns=start_ns)


def test_the_end_of_a_mapping_belongs_to_the_load_that_made_it(
    writer: RawLogWriter, tmp_path: Path
) -> None:
    """Tensors live on after a mapped load; their memory goes back whenever they do."""
    writer.open(1, "/data/x", start_ns=2_000)
    writer.add("map", file=1, offset=0, length=64, result=0, start_ns=2_500, api="mmap")
    writer.note(layer="span", step=3, **LOAD, start_ns=1_000, end_ns=3_000)
    writer.add("unmap", file=1, offset=0, length=64, result=0, start_ns=9_000, api="mmap")
    writer.add("close", thread=ENGINE_THREAD, file=1, result=0, start_ns=9_500)

    found = labels(writer, tmp_path, "map", "unmap", "close")

    assert found == [("datastates-llm", 3)] * 3


def test_a_read_after_a_load_is_none_of_its(writer: RawLogWriter, tmp_path: Path) -> None:
    """A job that checks its checkpoint's sum does not load it."""
    writer.open(1, "/data/x", start_ns=2_000)
    writer.note(layer="span", step=0, **LOAD, start_ns=1_000, end_ns=3_000)
    read(writer, 9_000)

    assert labels(writer, tmp_path, "read") == [(None, -1)]


def test_an_asynchronous_load_lasts_until_the_next(writer: RawLogWriter, tmp_path: Path) -> None:
    """The engine's thread reads after the call that asked for the tensors has returned."""
    writer.open(1, "/data/x", start_ns=500)
    for step, start_ns in enumerate((1_000, 5_000)):
        times = {"start_ns": start_ns, "end_ns": start_ns + 100}
        extent = {"name": "w", "offset": 0, "length": 8, "step": step, "asynchronous": True}
        writer.note(layer="tensor", **LOAD, **extent, **times)
        writer.note(layer="span", **LOAD, step=step, asynchronous=True, **times)
        read(writer, start_ns + 2_000)

    assert labels(writer, tmp_path, "read") == [("datastates-llm", 0), ("datastates-llm", 1)]


def test_an_asynchronous_save_owns_what_its_thread_writes_later(
    writer: RawLogWriter, tmp_path: Path
) -> None:
    """The file is made by the engine's thread, after the rows were written that name it."""
    writer.note(layer="span", step=7, asynchronous=True, **SAVE, start_ns=1_000, end_ns=1_100)
    extent = {"name": "w", "offset": 8, "length": 8, "step": 7, "asynchronous": True}
    writer.note(layer="tensor", **SAVE, **extent, start_ns=1_200, end_ns=1_300)
    flags = os.O_WRONLY | os.O_CREAT
    writer.open(1, "/data/x", flags, thread=ENGINE_THREAD, start_ns=5_000)
    place = {"file": 1, "offset": 8, "length": 8, "result": 8}
    writer.add("write", thread=ENGINE_THREAD, **place, start_ns=6_000)
    writer.add("close", thread=ENGINE_THREAD, file=1, result=0, start_ns=7_000)

    assert labels(writer, tmp_path, "open", "write", "close") == [("datastates-llm", 7)] * 3
