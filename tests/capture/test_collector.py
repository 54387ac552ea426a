"""From raw logs to a trace: rows, processes, hosts and metadata."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from iotrace.capture.collector import collect
from iotrace.capture.rawdir import read_command, write_command
from iotrace.capture.roster import BEGIN, END, ENTRY, HEADER, roster_path, start_roster
from iotrace.traces.environment import boot_id
from iotrace.traces.errors import CaptureError

from .collected import WRITE_NEW, collected, rows
from .raw_log_writer import RawLogWriter


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


@pytest.mark.parametrize(
    ("variables", "group", "rank"),
    [
        ({}, (3, 4), 3),
        ({"SLURM_PROCID": "1", "SLURM_NTASKS": "2"}, (5, 8), 5),  # a task of 4 processes each
        ({"SLURM_PROCID": "1", "SLURM_NTASKS": "2"}, (0, 1), 1),  # each task is a job of its own
        ({"RANK": "3", "WORLD_SIZE": "4"}, (3, 4), 3),
        ({"PALS_RANKID": "2"}, (0, 4), 2),
        ({"SLURM_PROCID": "1", "SLURM_NTASKS": "2"}, (-1, 8), 1),
    ],
)
def test_the_rank_of_a_job_that_starts_its_ranks_itself_is_the_groups(
    tmp_path: Path, variables: dict[str, str], group: tuple[int, int], rank: int
) -> None:
    """All that a task of srun starts have its variables, and would be one rank."""
    writer = RawLogWriter(rank_variables=variables)
    writer.open(1, "/data/x")
    writer.note(layer="process", rank=group[0], world_size=group[1])
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


def test_a_pid_of_another_host_is_another_process(tmp_path: Path) -> None:
    """What the kernel of this host counted is nothing of a process on that one."""
    start_roster(tmp_path)
    entries = np.zeros(2, ENTRY)
    entries["kind"], entries["pid"] = (BEGIN, END), 4000
    entries["monotonic_ns"], entries["bytes_written"] = (500, 90_000), (0, 7777)
    with roster_path(tmp_path).open("r+b") as roster:
        roster.seek(HEADER.itemsize)
        roster.write(entries.tobytes())
    here = RawLogWriter(pid=4000, pid_start_ticks=1, boot_id=boot_id())
    there = RawLogWriter(pid=4000, pid_start_ticks=2, boot_id="b" * 8)
    for one in (here, there):
        one.open(1, "/data/x", WRITE_NEW)

    completeness = collected(tmp_path, here, there).metadata.completeness

    assert [process.kernel_bytes_written for process in completeness.processes] == [7777, None]
    killed = [note for note in completeness.notes if "was killed" in note]
    assert len(killed) == 1 and killed[0].startswith("process 1 ")


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
    for brackets in (100, 15_000):  # no hook writes such, whoever made the log did
        writer.add("note", '{"layer":"tensor","name":' + "[" * brackets + "]" * brackets + "}")
    notes = collected(tmp_path, writer).metadata.completeness.notes
    assert "no tensors from dcp: no _write_item" in notes
    assert "3 notes of hooks could not be read" in notes
    assert not any("torch.save" in note for note in notes)


@pytest.mark.parametrize("text", ["", "[" * 100_000, '{"command":' + "[" * 500 + "]" * 500 + "}"])
def test_a_command_that_cannot_be_read_is_not_known(tmp_path: Path, text: str) -> None:
    """A recovery takes whatever folder it is given."""
    write_command(tmp_path, ("a", "b"))
    assert read_command(tmp_path) == ("a", "b")
    next(tmp_path.iterdir()).write_text(text)
    assert read_command(tmp_path) == ()


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
