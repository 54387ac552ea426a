"""From raw logs to a trace: saves, loads and tensors, and what belongs to them."""

from pathlib import Path

import numpy as np

from .collected import WRITE_NEW, collected, rows
from .raw_log_writer import RawLogWriter


def test_a_request_belongs_to_the_span_its_thread_is_in(
    writer: RawLogWriter, tmp_path: Path
) -> None:
    """Also on a file the engine did not name, and not before or after."""
    writer.open(1, "/data/x", flags=WRITE_NEW, start_ns=10)
    for start_ns in (20, 40, 60):
        writer.add("write", file=1, offset=0, length=1, result=1, start_ns=start_ns)
    writer.note(layer="span", op="save", engine="dcp", step=4, start_ns=30, end_ns=50)
    writer.note(layer="span", op="save", engine="torch.save", step=4, start_ns=35, end_ns=45)
    trace = collected(tmp_path, writer)
    assert rows(trace, "engine", "step", op="write") == [(None, None), ("dcp", 4), (None, None)]


def test_other_threads_work_for_the_save_of_their_file(
    writer: RawLogWriter, tmp_path: Path
) -> None:
    """Pool threads write during a save, and an asynchronous engine goes on after it."""
    span = {"layer": "span", "op": "save", "engine": "torchsnapshot", "path": "/data/step"}
    for step in (0, 1):
        at = 1_000 * step
        writer.note(**span, step=step, start_ns=at + 100, end_ns=at + 200)
        writer.open(step + 1, f"/data/step/{step}", flags=WRITE_NEW, start_ns=at + 90, thread=9)
        for start_ns in (at + 150, at + 300):
            writer.add(
                *("write",),
                file=step + 1,
                offset=0,
                length=1,
                result=1,
                start_ns=start_ns,
                thread=9,
            )
    writer.open(3, "/data/log", flags=WRITE_NEW, start_ns=150, thread=9)
    trace = collected(tmp_path, writer)
    assert rows(trace, "engine", "step", op="write") == [
        ("torchsnapshot", 0),
        ("torchsnapshot", 0),
        ("torchsnapshot", 1),
        ("torchsnapshot", 1),
    ]
    log = trace.where(np.array([path == "/data/log" for path in trace.strings("path")]))
    assert rows(log, "engine") == [(None,)]


def test_a_read_after_the_load_is_not_part_of_it(writer: RawLogWriter, tmp_path: Path) -> None:
    """Copying or hashing a checkpoint afterwards is not the engine's."""
    writer.note(
        layer="tensor", op="load", engine="torch.save", step=0, path="/data/x", name="w",
        offset=0, length=1, start_ns=120, end_ns=130,
    )  # fmt: skip
    writer.note(
        layer="span", op="load", engine="torch.save", step=0, path="/data/x", start_ns=100,
        end_ns=200,
    )  # fmt: skip
    writer.open(1, "/data/x", start_ns=90, thread=9)
    for start_ns in (150, 300):
        writer.add("read", file=1, offset=0, length=1, result=1, start_ns=start_ns, thread=9)
    trace = collected(tmp_path, writer)
    assert rows(trace, "engine", "step", op="read") == [("torch.save", 0), (None, None)]


def test_tensors_lie_in_the_file_that_had_the_name(writer: RawLogWriter, tmp_path: Path) -> None:
    """Each step's checkpoint is another file under the same name."""
    for step in (0, 1):
        at = 1_000 * step
        writer.open(step + 1, "/data/tmp", flags=WRITE_NEW, inode=70 + step, start_ns=at + 10)
        writer.note(
            layer="tensor", op="save", engine="torch.save", step=step, path="/data/tmp", name="w",
            dtype="float32", shape=[2, 3], device="cpu", offset=64, length=24, tensor_offset=0,
            start_ns=at + 20, end_ns=at + 30,
        )  # fmt: skip
        renamed = b"/data/tmp\0/data/x"
        writer.add("rename", renamed, offset=64, length=70 + step, result=0, start_ns=at + 40)
    trace = collected(tmp_path, writer)
    assert rows(trace, "file", "offset", "length", "tensor_offset", "step", layer="tensor") == [
        (0, 64, 24, 0, 0),
        (1, 64, 24, 0, 1),
    ]
    assert trace.where(trace.row_mask(layer="tensor")).shapes() == [(2, 3), (2, 3)]


def test_what_of_a_tensor_is_too_long_is_said(writer: RawLogWriter, tmp_path: Path) -> None:
    """Its name is there in part, and its shape is not."""
    for name, shape in (("a" * 2047 + "…", (1,) * 65), ("a" * 2048, (1,) * 64)):
        writer.note(layer="tensor", op="save", engine="torch.save", step=0, name=name, shape=shape)
    trace = collected(tmp_path, writer)
    problems = trace.metadata.completeness.problems()
    assert "1 name of a file or a tensor cut short" in problems
    assert "1 shape of more than 64 dimensions left out" in problems
    assert [len(shape or ()) for shape in trace.shapes()] == [0, 64]


def test_a_folder_is_synced_for_what_was_named_in_it_last(
    writer: RawLogWriter, tmp_path: Path
) -> None:
    """A job renames what the engine has saved, and syncs the folder, outside of any save."""
    writer.open(1, "/data/a.tmp", flags=WRITE_NEW, start_ns=10)
    writer.note(
        layer="span", op="save", engine="torch.save", step=4, path="/data/a.tmp", start_ns=5,
        end_ns=50,
    )  # fmt: skip
    writer.add("rename", b"/data/a.tmp\0/data/a", offset=64, length=1001, result=0, start_ns=60)
    for start_ns, folder in ((70, "/data"), (80, "/elsewhere")):
        writer.add("sync", folder, flags=6, result=0, start_ns=start_ns)
    writer.open(2, "/data/log", flags=WRITE_NEW, start_ns=90)
    writer.add("sync", "/data", flags=7, result=0, start_ns=100)
    trace = collected(tmp_path, writer)
    assert rows(trace, "path", "file", "flags", "engine", "step", op="sync") == [
        ("/data", None, 6, "torch.save", 4),
        ("/elsewhere", None, 6, None, None),
        ("/data", None, 7, None, None),
    ]
    assert [one.path for one in trace.metadata.completeness.files] == ["/data/a", "/data/log"]
