"""From raw logs to a trace: rows, identities, labels and metadata."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from iotrace.capture.collector import collect
from iotrace.traces.check import check_trace
from iotrace.traces.errors import CaptureError
from iotrace.traces.trace import Trace

from .raw_log_writer import RawLogWriter

WRITE_NEW = os.O_WRONLY | os.O_CREAT | os.O_TRUNC


@pytest.fixture
def writer() -> RawLogWriter:
    """Return the writer of one process's log."""
    return RawLogWriter()


def rows(trace: Trace, *names: str, **only: str) -> list[tuple[Any, ...]]:
    """Return some columns of the rows of a layer or op, None for null."""
    trace = trace.where(trace.row_mask(**only))
    columns = []
    for name in names:
        if name in ("path", "target", "op", "engine", "name", "api"):
            columns.append(trace.strings(name))
        else:
            valid = trace.valid(name).tolist()
            values = trace.ints(name).tolist()
            columns.append([v if ok else None for v, ok in zip(values, valid, strict=True)])
    return list(zip(*columns, strict=True))


def collected(folder: Path, *writers: RawLogWriter) -> Trace:
    """Write the logs, collect them, and check the trace as any trace is checked."""
    for one in writers:
        one.write(folder)
    trace = collect(folder, ("python", "train.py"))
    assert check_trace(trace) == []
    return trace


def test_requests_become_rows_in_order(writer: RawLogWriter, tmp_path: Path) -> None:
    """The whole of a plain save: nothing added, nothing lost, numbers unchanged."""
    writer.open(1, "/data/x.pt", flags=WRITE_NEW)
    writer.add("write", file=1, offset=0, length=10, result=10, offset_source="tracked")
    writer.add("write", file=1, offset=10, length=5, result=-28, offset_source="argument")
    writer.add("sync", file=1, flags=0, result=0)
    writer.add("close", file=1, result=0, length=0)
    trace = collected(tmp_path, writer)
    assert rows(trace, "op", "seq", "path", "file", "offset", "length", "result", "flags") == [
        ("open", 0, "/data/x.pt", 0, None, None, 0, WRITE_NEW),
        ("write", 1, "/data/x.pt", 0, 0, 10, 10, None),
        ("write", 2, "/data/x.pt", 0, 10, 5, -28, None),
        ("sync", 3, "/data/x.pt", 0, None, None, 0, 0),
        ("close", 4, "/data/x.pt", 0, None, None, 0, None),
    ]
    assert np.diff(trace.ints("start_ns")).tolist() == [100] * 4


def test_a_failed_open_has_its_path_and_no_file(writer: RawLogWriter, tmp_path: Path) -> None:
    """Operation not permitted is -1, which elsewhere in a raw log means "not applicable"."""
    writer.add("open", "/data/no", flags=os.O_WRONLY, result=-1)
    trace = collected(tmp_path, writer)
    assert rows(trace, "op", "path", "file", "result") == [("open", "/data/no", None, -1)]


def test_an_asynchronous_request_without_completion_is_counted(
    writer: RawLogWriter, tmp_path: Path
) -> None:
    """It was submitted, so it is in the trace; what became of it is not known."""
    writer.open(1, "/data/x", flags=WRITE_NEW)
    writer.add("write", file=1, offset=0, length=8, result=-1, end_ns=0, api="io_uring")
    trace = collected(tmp_path, writer)
    assert rows(trace, "end_ns", "result", "length", op="write") == [(None, None, 8)]
    assert trace.metadata.completeness.unmatched_completions == 1


def test_a_file_keeps_its_identity_through_a_rename(writer: RawLogWriter, tmp_path: Path) -> None:
    """Every engine writes to a temporary name and renames; both names are one file."""
    writer.open(1, "/data/x.tmp", flags=WRITE_NEW, inode=7)
    writer.add("rename", b"/data/x.tmp\0/data/x", offset=64, length=7, result=0)
    writer.open(2, "/data/x", inode=7)
    writer.open(3, "/data/x", inode=7)
    trace = collected(tmp_path, writer)
    assert rows(trace, "op", "path", "target", "file", "offset") == [
        ("open", "/data/x.tmp", None, 0, None),
        ("rename", "/data/x.tmp", "/data/x", 0, None),
        ("open", "/data/x", None, 0, None),
        ("open", "/data/x", None, 0, None),
    ]
    assert [f.path for f in trace.metadata.completeness.files] == ["/data/x"]


def test_a_failed_rename_names_nothing(writer: RawLogWriter, tmp_path: Path) -> None:
    """The file is still called what it was."""
    writer.open(1, "/data/x.tmp", flags=WRITE_NEW, inode=7)
    writer.add("rename", b"/data/x.tmp\0/other/x", offset=64, length=7, result=-18)
    trace = collected(tmp_path, writer)
    assert [f.path for f in trace.metadata.completeness.files] == ["/data/x.tmp"]


def test_a_renamed_folder_takes_its_files_along(writer: RawLogWriter, tmp_path: Path) -> None:
    """A checkpoint folder is often committed by one rename of the folder."""
    for number in (1, 2):
        writer.open(number, f"/data/tmp/{number}.pt", flags=WRITE_NEW)
    writer.open(3, "/data/tmpx", flags=WRITE_NEW)
    writer.add("rename", b"/data/tmp\0/data/step1", offset=64, length=99, result=0)
    trace = collected(tmp_path, writer)
    paths = [f.path for f in trace.metadata.completeness.files]
    assert paths == ["/data/step1/1.pt", "/data/step1/2.pt", "/data/tmpx"]


@pytest.mark.parametrize("births_ns", [(5, 6), (0, 0)], ids=["birth times", "none kept"])
def test_a_file_made_again_under_its_name_is_another_file(
    writer: RawLogWriter, tmp_path: Path, births_ns: tuple[int, int]
) -> None:
    """File systems give the inode of a removed file to the next one at once."""
    for number, birth_ns in enumerate(births_ns, start=1):
        writer.open(number, "/data/x", flags=WRITE_NEW, inode=7, birth_ns=birth_ns)
        writer.add("close", file=number, result=0)
        writer.add("unlink", "/data/x", offset=64, length=7, result=0)
    trace = collected(tmp_path, writer)
    assert [file for (file,) in rows(trace, "file")] == [0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize("birth_ns", [0, 1_700_000_000_000_000_000], ids=["no birth", "one tick"])
def test_a_file_replaced_by_a_rename_gives_its_inode_back(
    writer: RawLogWriter, tmp_path: Path, birth_ns: int
) -> None:
    """Checkpoints that are written beside the last one and renamed swap two inodes."""
    for number, inode in enumerate((7, 8, 7), start=1):
        writer.open(number, "/data/x.tmp", flags=WRITE_NEW, inode=inode, birth_ns=birth_ns)
        writer.add("close", file=number, result=0)
        writer.add("rename", b"/data/x.tmp\0/data/x", offset=64, length=inode, result=0)
    trace = collected(tmp_path, writer)
    assert [file for (file,) in rows(trace, "file")] == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert {f.path for f in trace.metadata.completeness.files} == {"/data/x"}


@pytest.mark.parametrize("birth_ns", [0, 1_700_000_000_000_000_500], ids=["no birth", "birth"])
def test_an_inode_is_no_file_of_the_job_before_that_was_made(
    writer: RawLogWriter, tmp_path: Path, birth_ns: int
) -> None:
    """What was removed first is an older checkpoint, which the job never opened."""
    writer.add("rename", b"/data/old\0/data/older", offset=64, length=7, result=0)
    writer.add("unlink", "/data/older", offset=64, length=7, result=0)
    writer.open(1, "/data/new", flags=WRITE_NEW, inode=7, birth_ns=birth_ns)
    writer.add("unlink", "/data/new", offset=64, length=7, result=0)
    writer.add("rename", b"/data/other\0/data/last", offset=64, length=7, result=0)
    trace = collected(tmp_path, writer)
    assert rows(trace, "op", "file") == [
        ("rename", None),
        ("unlink", None),
        ("open", 0),
        ("unlink", 0),
        ("rename", None),
    ]
    assert [f.path for f in trace.metadata.completeness.files] == ["/data/new"]


def test_a_file_with_two_names_outlives_one(writer: RawLogWriter, tmp_path: Path) -> None:
    """Lightning keeps the last checkpoint as a second link."""
    writer.open(1, "/data/x", flags=WRITE_NEW, inode=7)
    writer.add("link", b"/data/x\0/data/last", offset=64, length=7, result=0)
    writer.add("unlink", "/data/x", offset=64, length=7, result=0)
    writer.open(2, "/data/last", inode=7)
    trace = collected(tmp_path, writer)
    assert [file for (file,) in rows(trace, "file")] == [0, 0, 0, 0]


def test_two_processes_on_one_file_share_its_identity(tmp_path: Path) -> None:
    """A shared checkpoint file, written by two ranks, must not replay as two files."""
    ranks = [RawLogWriter(pid=5000 + r, rank_variables={"RANK": str(r)}) for r in (1, 0)]
    for rank, one in zip((1, 0), ranks, strict=True):
        one.open(1, "/data/other", inode=100 + rank)
        one.open(2, "/data/shared", flags=os.O_RDWR, inode=7)
        one.add("write", file=2, offset=rank * 10, length=10, result=10)
    trace = collected(tmp_path, *ranks)
    writes = rows(trace, "rank", "process", "file", op="write")
    assert {file for _, _, file in writes} == {writes[0][2]}
    assert sorted(rank for rank, _, _ in writes) == [0, 1]
    shared = [f for f in trace.metadata.completeness.files if f.path == "/data/shared"]
    assert [(f.process, f.recorded_bytes_written) for f in shared] == [(0, 20), (1, 20)]


def test_a_forked_child_goes_on_with_the_files_of_its_parent(tmp_path: Path) -> None:
    """It has a description of the open file and no open of its own."""
    parent, child = RawLogWriter(pid=10), RawLogWriter(pid=11, parent_pid=10, monotonic_ns=2_000)
    parent.open(1, "/data/x", flags=WRITE_NEW, inode=7)
    child.add("file", "/data/x", file=1, offset=64, length=7, start_ns=5_000)
    child.files = 1
    child.add("write", file=1, offset=0, length=3, result=3, start_ns=5_001)
    trace = collected(tmp_path, parent, child)
    assert rows(trace, "op", "process", "path", "file") == [
        ("open", 0, "/data/x", 0),
        ("write", 1, "/data/x", 0),
    ]
    assert [p.parent_pid for p in trace.metadata.processes] == [1, 10]


def test_paths_are_spelled_one_way(writer: RawLogWriter, tmp_path: Path) -> None:
    """`..` behind a link is not the folder before the link."""
    (tmp_path / "far" / "away").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "far" / "away")
    writer.open(1, f"/{tmp_path}//a/./x", inode=1)
    writer.open(2, f"{tmp_path}/link/../x", inode=2)
    trace = collected(tmp_path, writer)
    assert trace.strings("path") == [f"{tmp_path}/a/x", f"{tmp_path}/far/x"]


def test_names_that_are_no_utf8_come_through(writer: RawLogWriter, tmp_path: Path) -> None:
    """A path is bytes on Linux."""
    writer.open(1, os.fsdecode(b"/data/caf\xe9\\x"))
    trace = collected(tmp_path, writer)
    assert os.fsencode(trace.strings("path")[0] or "") == b"/data/caf\xe9\\x"


def test_threads_are_numbered_from_the_main_thread(writer: RawLogWriter, tmp_path: Path) -> None:
    """A thread id may be lower than the process id once these wrap."""
    writer.open(1, "/data/x")
    for thread in (17, 5000, 4000):
        writer.add("read", file=1, offset=0, length=1, result=1, thread=thread)
    trace = collected(tmp_path, writer)
    assert rows(trace, "thread", op="read") == [(1,), (2,), (0,)]


@pytest.mark.parametrize(
    ("variables", "rank"),
    [
        ({}, -1),
        ({"RANK": "3", "SLURM_PROCID": "0"}, 3),
        ({"SLURM_PROCID": "5"}, 5),
        ({"OMPI_COMM_WORLD_RANK": "2"}, 2),
        ({"PMI_RANK": "1"}, 1),
        ({"PALS_RANKID": "4", "SLURM_PROCID": "0"}, 4),
        ({"FLUX_TASK_RANK": "6"}, 6),
        ({"RANK": "first"}, -1),
    ],
)
def test_the_rank_is_what_the_innermost_launcher_says(
    tmp_path: Path, variables: dict[str, str], rank: int
) -> None:
    """Under srun and torchrun both set variables; torchrun's are those of the worker."""
    writer = RawLogWriter(rank_variables=variables)
    writer.open(1, "/data/x")
    trace = collected(tmp_path, writer)
    assert trace.metadata.processes[0].rank == rank
    assert set(trace.ints("rank").tolist()) == {rank}


def test_processes_say_what_they_were(writer: RawLogWriter, tmp_path: Path) -> None:
    """Versions of the libraries explain differences between two traces."""
    writer.open(1, "/data/x")
    writer.note(layer="process", python="3.9.2", prefix="/v", libraries={"torch": "2.3"})
    (process,) = collected(tmp_path, writer).metadata.processes
    assert (process.python, process.prefix, process.libraries) == ("3.9.2", "/v", {"torch": "2.3"})
    assert (process.pid, process.argv) == (4000, ("python", "train.py"))


def test_processes_that_did_nothing_in_scope_are_left_out_and_counted(tmp_path: Path) -> None:
    """A Python job starts dozens of shells; an empty process each would bury the ranks."""
    shell = RawLogWriter(pid=3, argv=("sh",), counters={"dropped_records": 2})
    shell.note(layer="process", python="3.11")
    shell.end()
    rank = RawLogWriter(pid=4)
    rank.open(1, "/data/x")
    trace = collected(tmp_path, shell, rank)
    assert [p.pid for p in trace.metadata.processes] == [4]
    assert trace.metadata.completeness.extra == {"processes_left_out": 1}
    assert trace.metadata.completeness.dropped_records == 2


def test_hosts_are_aligned_by_their_wall_clocks(tmp_path: Path) -> None:
    """Ranks on two machines write into one folder; CLOCK_MONOTONIC begins at each boot."""
    one = RawLogWriter(pid=1, boot_id="a" * 8, monotonic_ns=1_000, realtime_ns=50_000)
    two = RawLogWriter(pid=2, boot_id="b" * 8, monotonic_ns=9_000_000, realtime_ns=50_300)
    one.open(1, "/data/x", inode=7, start_ns=1_100)
    two.open(1, "/data/x", inode=7, start_ns=9_000_000)
    trace = collected(tmp_path, one, two)
    assert rows(trace, "process", "start_ns") == [(0, 0), (1, 200)]
    assert trace.metadata.epoch_realtime_ns == 50_100
    assert [trace.metadata.hosts[p.host].boot_id for p in trace.metadata.processes] == [
        "a" * 8,
        "b" * 8,
    ]


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


def test_a_rename_found_at_the_close_is_a_rename_without_api(
    writer: RawLogWriter, tmp_path: Path
) -> None:
    """safetensors renames with a bare system call, before it closes the file."""
    for step in (0, 1):
        writer.open(step + 1, f"/data/.tmp{step}", flags=WRITE_NEW, inode=70 + step)
        renamed = f"/data/.tmp{step}\0/data/x"
        writer.add("rename", renamed, offset=64, length=70 + step, result=0, api="")
        writer.note(
            layer="tensor", op="save", engine="safetensors", step=step, path="/data/x", name="w",
            offset=8, length=4,
        )  # fmt: skip
    trace = collected(tmp_path, writer)
    assert rows(trace, "file", layer="tensor") == [(0,), (1,)]
    assert rows(trace, "api", "target", op="rename") == [(None, "/data/x")] * 2
    assert [f.path for f in trace.metadata.completeness.files] == ["/data/x", "/data/x"]


def test_what_hooks_could_not_do_is_said(writer: RawLogWriter, tmp_path: Path) -> None:
    """A trace without tensors must say why."""
    writer.open(1, "/data/x")
    writer.note(layer="hook", engine="dcp", bound=False, detail="no _write_item")
    writer.note(layer="hook", engine="torch.save", bound=True, detail="")
    writer.add("note", '{"layer":"tensor","name":"cut')
    notes = collected(tmp_path, writer).metadata.completeness.notes
    assert "no tensors from dcp: no _write_item" in notes
    assert "1 notes of hooks could not be read" in notes
    assert not any("torch.save" in note for note in notes)


def test_logs_that_cannot_be_read_are_named_and_the_others_used(
    writer: RawLogWriter, tmp_path: Path
) -> None:
    """One damaged log of a thousand ranks must not cost the trace."""
    (tmp_path / "1-1-aa.raw").write_bytes(b"damaged")
    writer.open(1, "/data/x")
    path = writer.write(tmp_path)
    content = path.read_bytes()
    path.write_bytes(content[: -len(content) // 4])
    trace = collect(tmp_path, ())
    assert len(trace) == 1
    notes = " ".join(trace.metadata.completeness.notes)
    assert "1-1-aa.raw is cut inside its header" in notes
    assert f"{path.name} is cut" in notes


def test_a_job_without_files_gives_a_trace_without_rows(tmp_path: Path) -> None:
    """`iotrace capture -- true` is no error."""
    trace = collect(tmp_path, ("true",))
    assert len(trace) == 0
    assert trace.metadata.command == ("true",)
    assert trace.metadata.completeness.complete


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    """A typing mistake must not look like a job without files."""
    with pytest.raises(CaptureError, match="cannot read"):
        collect(tmp_path / "nowhere", ())


BIG = """
    import resource, sys
    from pathlib import Path
    from iotrace.capture.collector import collect

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    trace = collect(Path(sys.argv[1]), ())
    print(len(trace), (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)
"""


def test_millions_of_requests_take_bounded_memory(tmp_path: Path) -> None:
    """A long run has millions of records per rank; a Python object each would not fit."""
    count = 5_000_000
    writer = RawLogWriter()
    writer.open(1, "/data/x", flags=WRITE_NEW)
    note = {"op": "save", "engine": "torch.save", "step": 0, "path": "/data/x"}
    writer.note(layer="span", **note, start_ns=0, end_ns=2**40)
    for thread in (4000, 4001):
        writer.add_slots(bulk_writes(count // 2, thread), thread)
    writer.write(tmp_path)
    del writer
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(BIG), str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
    )
    rows_found, grown_bytes = map(float, done.stdout.split())
    assert rows_found == count + 2
    assert grown_bytes < 400 * count


def bulk_writes(count: int, thread: int) -> np.ndarray[Any, Any]:
    """Return the records of many small writes of one thread."""
    template = RawLogWriter()
    template.add("write", file=1, length=10, result=10, offset_source="argument")
    records = np.repeat(template.slots[template.pid][0], count)
    records["start_ns"] = 10_000 + 100 * np.arange(count) + thread % 2
    records["end_ns"] = records["start_ns"] + 50
    records["offset"] = 10 * np.arange(count)
    return records
