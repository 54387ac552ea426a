"""strace logs as traces: real logs in every form, and the same run seen by our own capture."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from iotrace.traces.check import check_trace
from iotrace.traces.errors import TraceFormatError
from iotrace.traces.formats import strace
from iotrace.traces.formats.source import Source
from iotrace.traces.reader import read_trace
from iotrace.traces.schema import DATA_OPS
from iotrace.traces.summary import summarize
from iotrace.traces.sync_kind import SyncKind
from iotrace.traces.trace import Trace
from tests.tools.command import iotrace

HERE = Path(__file__).parent
JOB = HERE / "jobs" / "calls.py"
ODD_JOB = HERE / "jobs" / "odd_calls.py"
SAVE = HERE.parents[1] / "integration" / "jobs" / "save.py"
FAST = ("--seccomp-bpf", "-e", "trace=file,desc,process,mmap,munmap,sync")
ODD = 'sub/a ü"\\<b>.bin'

# What calls.py does, by the kernel's rules: op, file, offset, length, result.
EXPECTED = [
    ("mkdir", "sub", None, None, 0),
    ("open", ODD, None, None, 0),
    ("write", ODD, 0, 1000, 1000),
    ("write", ODD, 5000, 96, 96),
    ("write", ODD, 1000, 30, 30),
    ("read", ODD, 100, 50, 50),
    ("read", ODD, 4096, 4096, 1000),
    ("write", ODD, 150, 7, 7),
    ("sync", ODD, None, None, 0),
    ("sync", ODD, None, None, 0),
    ("truncate", ODD, None, 8192, 0),
    ("allocate", ODD, 0, 16384, 0),
    ("write", ODD, 16384, 6, 6),
    ("map", ODD, 4096, 4096, 0),
    ("unmap", ODD, 4096, 4096, 0),
    ("close", ODD, None, None, 0),
    ("rename", ODD, None, None, 0),
    ("open", "b.bin", None, None, 0),
    ("write", "b.bin", 16390, 5, 5),
    ("write", "b.bin", 16395, 3, 3),
    ("write", "b.bin", 16398, 2, 2),
    ("write", "b.bin", 16400, 4, 4),
    ("close", "b.bin", None, None, 0),
    ("open", "t.bin", None, None, 0),
    ("write", "t.bin", 0, 4, 4),
    ("close", "t.bin", None, None, 0),
    ("open", "b.bin", None, None, 0),
    ("open", "copy.bin", None, None, 0),
    ("read", "b.bin", 0, 4000, 4000),
    ("write", "copy.bin", 0, 4000, 4000),
    ("read", "b.bin", 0, 300, 300),
    ("write", "copy.bin", 4000, 300, 300),
    ("close", "b.bin", None, None, 0),
    ("close", "copy.bin", None, None, 0),
    ("link", "copy.bin", None, None, 0),
    ("unlink", "link.bin", None, None, 0),
    ("truncate", "copy.bin", None, 4000, 0),
    ("mkdir", "gone", None, None, 0),
    ("rmdir", "gone", None, None, 0),
    ("open", "missing.bin", None, None, -2),
    ("open", "at.bin", None, None, 0),
    ("close", "at.bin", None, None, 0),
]


def optional(trace: Trace, column: str) -> list[int | None]:
    """Return a column of integers with None for null."""
    values = zip(trace.ints(column).tolist(), trace.valid(column).tolist(), strict=True)
    return [value if valid else None for value, valid in values]


def rows(trace: Trace, folder: Path) -> list[tuple[object, ...]]:
    """Return op, name in the folder, offset, length and result of the requests there."""
    texts = trace.strings("op"), trace.strings("path")
    columns = [optional(trace, name) for name in ("offset", "length", "result")]
    return [
        (op, path.removeprefix(f"{folder}/"), *values)
        for op, path, *values in zip(*texts, *columns, strict=True)
        if path and path.startswith(f"{folder}/")
    ]


FORMS = {
    "one file": ("-f", "-y", "-ttt", "-T"),
    "without -y": ("-f", "-ttt", "-T"),
    "nothing but the calls": ("-f",),
    "time of day": ("-f", "-tt"),
    "relative times": ("-f", "-r", "-y"),
    "a file per thread": ("-ff", "-y", "-ttt", "-T"),
    "a file per thread without -y": ("-ff", "-ttt"),
    "short times": ("-ff", "-t", "-yy"),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_log_gives_the_same_requests(form: str, tmp_path: Path) -> None:
    """With or without what -y shows, in one file or many: what the kernel did is the same."""
    work, logs = tmp_path / "work", tmp_path / "logs"
    work.mkdir()
    logs.mkdir()
    options = (*FORMS[form], *FAST, "-o", str(logs / "log"))
    subprocess.run(["strace", *options, sys.executable, "-S", JOB, work], check=True)
    source = logs if "-ff" in options else logs / "log"

    trace = strace.read(source)

    assert strace.looks_like(Source.of(source))
    found = rows(trace, work)
    assert trace.metadata.command[1] == "-S"
    if form == "short times":  # all in one second: the order of processes is lost, and that is said
        assert Counter(row[:2] for row in found) == Counter(row[:2] for row in EXPECTED)
        assert any("whole seconds" in note for note in trace.metadata.completeness.notes)
        return
    assert found == EXPECTED
    assert check_trace(trace) == []
    assert [process.parent_pid for process in trace.metadata.processes] == [
        None,
        trace.metadata.processes[0].pid,
    ]
    syncs = trace.where(trace.row_mask(op="sync"))
    kinds = [SyncKind.FSYNC, SyncKind.FDATASYNC, SyncKind.FOLDER, SyncKind.EVERYTHING]
    assert sorted(syncs.ints("flags").tolist()) == sorted(kinds)
    timeless = form == "nothing but the calls"
    assert (summarize(trace).write_bandwidth is None) == timeless  # no number is better than any
    times_are_known = any("-t" in option for option in options)
    assert times_are_known or trace.metadata.epoch_realtime_ns == 0


@pytest.mark.parametrize("form", ["one file", "without -y", "a file per thread"])
def test_a_call_that_failed_for_its_arguments_is_a_request_without_them(
    form: str, tmp_path: Path
) -> None:
    """They may be any 64 bits, and nothing moved; the rest of the log is read as ever."""
    work, logs = tmp_path / "work", tmp_path / "logs"
    work.mkdir()
    logs.mkdir()
    options = (*FORMS[form], *FAST, "-o", str(logs / "log"))
    subprocess.run(["strace", *options, sys.executable, "-S", ODD_JOB, work], check=True)
    trace = strace.read(logs if "-ff" in options else logs / "log")
    found = [  # which error it is, is the kernel's matter
        (op, offset, length, max(result, -1)) for op, _, offset, length, result in rows(trace, work)
    ]
    assert found == [
        ("open", None, None, 0),
        ("write", 0, 10, 10),
        ("allocate", None, 10, -1),
        ("allocate", 1, None, -1),
        ("truncate", None, None, -1),
        ("truncate", None, None, -1),
        ("read", 10, 0, -1),
        ("read", None, 7, -1),
        ("write", 2**63 - 1, 0, -1),
        ("read", 10, 0, -1),
        ("map", 0, None, -1),
        ("advise", 0, None, -1),
        ("advise", None, 4096, 0),
        ("sync", None, None, -1),
        ("read", None, 7, -1),
        ("write", 10, 7, -1),
        ("write", 10, 6, 6),
        ("close", None, None, 0),
    ]
    assert check_trace(trace, gaps=False) == []
    assert trace.metadata.completeness.unknown_descriptors == 0


def test_the_requests_of_a_renamed_file_are_of_one_file(tmp_path: Path) -> None:
    """Identity follows the rename, and the name is the one it was opened under."""
    log = tmp_path / "log"
    work = tmp_path / "work"
    work.mkdir()
    subprocess.run(
        ["strace", "-f", "-y", *FAST, "-o", log, sys.executable, "-S", JOB, work], check=True
    )
    trace = strace.read(log)
    paths, files = trace.strings("path"), trace.ints("file").tolist()
    by_name = {path: file for path, file in zip(paths, files, strict=True) if file >= 0}
    assert by_name[str(work / ODD)] == by_name[str(work / "b.bin")]
    assert by_name[str(work / "copy.bin")] != by_name[str(work / "b.bin")]


def test_strace_and_capture_tell_the_same_of_torch_save(tmp_path: Path) -> None:
    """Every read and write of the checkpoint, in order, of a run each."""
    log, recorded, model = tmp_path / "log", tmp_path / "trace.parquet", tmp_path / "model.pt"
    job = (sys.executable, SAVE, model, "4")
    watch = ("strace", "-f", "-y", "-ttt", "-T", *FAST, "-o", log)
    subprocess.run([*watch, *job], check=True, stdout=subprocess.DEVNULL)
    done = iotrace("capture", "-q", "-o", recorded, "--", *job)
    assert done.returncode == 0, done.stderr
    imported, captured = strace.read(log), read_trace(recorded).layer("request")

    data = [
        [row for row in rows(trace, tmp_path) if row[:2] in ((op, "model.pt") for op in DATA_OPS)]
        for trace in (imported, captured)
    ]
    assert len(data[0]) > 20
    assert data[0] == data[1]


def test_strace_and_capture_count_the_same_files(tmp_path: Path) -> None:
    """Neither what Python reads to start, nor where the job's output was sent to."""
    log, recorded, model = tmp_path / "log", tmp_path / "trace.parquet", tmp_path / "model.pt"
    converted = tmp_path / "converted.parquet"
    job = (sys.executable, SAVE, model, "4")
    watch = ("strace", "-f", "-y", "-ttt", "-T", *FAST, "-o", log)
    capture = (sys.executable, "-m", "iotrace.tools", "capture", "-q", "-o", recorded, "--")
    for words in ((*watch, *job), (*capture, *job)):
        with (tmp_path / "out.txt").open("w") as out:
            subprocess.run([*words], check=True, stdout=out, stderr=out)
        assert (tmp_path / "out.txt").stat().st_size  # or nothing is left out below
    done = iotrace("convert", log, converted)
    assert done.returncode == 0 and "on 1 file\n" in done.stderr, done.stderr

    def files(trace: Trace) -> list[tuple[str, int, int]]:
        return [(f.path, f.bytes_written, f.bytes_read) for f in summarize(trace).files]

    assert [path for path, _, _ in files(read_trace(converted))] == [str(model)]
    assert files(read_trace(converted)) == files(read_trace(recorded))
    everything = tmp_path / "everything.parquet"
    assert iotrace("convert", log, everything, "--all").returncode == 0
    paths = {path for path, _, _ in files(read_trace(everything))}
    assert {str(model), str(tmp_path / "out.txt")} < paths
    for trace in (converted, everything):
        assert "standard_files" not in read_trace(trace).metadata.extra


def test_output_that_the_job_itself_sent_to_a_file_is_the_job_s(tmp_path: Path) -> None:
    """A shell of the job opened it: that its dup2 was not watched makes it no given stream."""
    log = tmp_path / "log"
    log.write_text(
        '17 1.000000 openat(AT_FDCWD, "/d/ckpt.bin", O_WRONLY|O_CREAT, 0666) = 3</d/ckpt.bin>\n'
        '17 1.000100 write(1</d/ckpt.bin>, "x"..., 9) = 9\n'
        '17 1.000200 write(2</d/given.txt>, "x"..., 5) = 5\n'
        "17 1.000300 fsync(1</d/ckpt.bin>) = 0\n"
    )
    converted = tmp_path / "converted.parquet"
    done = iotrace("convert", log, converted)
    assert done.returncode == 0, done.stderr
    found = summarize(read_trace(converted)).files
    assert [(one.path, one.bytes_written) for one in found] == [("/d/ckpt.bin", 9)]


def test_a_call_in_two_parts_begins_when_it_began(tmp_path: Path) -> None:
    """Another thread's line may stand between; the result comes with the second part."""
    log = tmp_path / "log"
    log.write_text(
        '7 1795997927.000001 openat(AT_FDCWD, "/d/a", O_WRONLY|O_CREAT, 0666) = 3 <0.000001>\n'
        '7 1795997927.000002 write(3, ""..., 10 <unfinished ...>\n'
        '8 1795997927.000003 openat(AT_FDCWD, "/d/b", O_RDONLY) = 4 <0.000001>\n'
        "7 1795997927.000009 <... write resumed>) = 10 <0.000006>\n"
        "7 1795997927.000010 +++ exited with 0 +++\n"
    )
    trace = strace.read(log)
    write = trace.where(trace.row_mask(op="write"))
    assert (write.ints("start_ns")[0], write.ints("end_ns")[0]) == (1_000, 7_000)
    assert write.ints("length")[0] == write.ints("result")[0] == 10
    assert trace.metadata.epoch_realtime_ns == 1_795_997_927_000_001_000


@pytest.mark.parametrize("shown", [True, False], ids=["-y", "without -y"])
def test_a_number_is_free_while_its_close_goes_on(shown: bool, tmp_path: Path) -> None:
    """Another thread gets it for its own file, whose writes are at its beginning."""
    a, b = ("</d/a>", "</d/b>") if shown else ("", "")
    log = tmp_path / "log"
    log.write_text(
        "7 1795997927.000001 clone3({flags=CLONE_VM|CLONE_FILES|CLONE_THREAD}, 88) = 8 <0.000001>\n"
        f'7 1795997927.000002 openat(AT_FDCWD, "/d/a", O_WRONLY|O_CREAT, 0666) = 3{a} <0.000001>\n'
        f"7 1795997927.000003 close(3{a} <unfinished ...>\n"
        f'8 1795997927.000004 openat(AT_FDCWD, "/d/b", O_WRONLY|O_CREAT, 0666) = 3{b} <0.000001>\n'
        "7 1795997927.000005 <... close resumed>) = 0 <0.000002>\n"
        f'8 1795997927.000006 write(3{b}, ""..., 10) = 10 <0.000001>\n'
        f"8 1795997927.000007 close(3{b}) = 0 <0.000001>\n"
    )
    trace = strace.read(log)
    assert trace.metadata.completeness.unknown_descriptors == 0
    assert rows(trace, Path("/d")) == [
        ("open", "a", None, None, 0),
        ("close", "a", None, None, 0),
        ("open", "b", None, None, 0),
        ("write", "b", 0, 10, 10),
        ("close", "b", None, None, 0),
    ]


@pytest.mark.parametrize("spent", [" <0.000005>", ""], ids=["-T", "without -T"])
def test_a_number_is_given_when_its_open_ends(spent: str, tmp_path: Path) -> None:
    """A file for each thread: one began to open, and another freed the number meanwhile."""
    (tmp_path / "log.7").write_text(
        f"1795997927.000000 clone3({{flags=CLONE_VM|CLONE_FILES|CLONE_THREAD}}, 88) = 8{spent}\n"
        f'1795997927.000010 openat(AT_FDCWD, "/d/a", O_WRONLY|O_CREAT, 0666) = 3{spent}\n'
        f"1795997927.000022 close(3) = 0{spent}\n"
    )
    (tmp_path / "log.8").write_text(
        f'1795997927.000020 openat(AT_FDCWD, "/d/b", O_WRONLY|O_CREAT, 0666) = 3{spent}\n'
        f'1795997927.000030 write(3, ""..., 10) = 10{spent}\n'
        f"1795997927.000040 close(3) = 0{spent}\n"
        f'1795997927.000050 openat(AT_FDCWD, "/d/c", O_RDONLY) = 3{spent}\n'
    )
    trace = strace.read(tmp_path)
    assert trace.metadata.completeness.unknown_descriptors == 0
    assert rows(trace, Path("/d")) == [
        ("open", "a", None, None, 0),
        ("open", "b", None, None, 0),
        ("close", "a", None, None, 0),
        ("write", "b", 0, 10, 10),
        ("close", "b", None, None, 0),
        ("open", "c", None, None, 0),
    ]
    good = (tmp_path / "log.8").read_text()
    for torn in (good.replace("AT_FDCWD", "x", 1), f"1795997927.000019 pipe() = 0{spent}\n"):
        (tmp_path / "log.8").write_text(torn)
        with pytest.raises(TraceFormatError, match=r"log\.8, line 1: "):
            strace.read(tmp_path)


def test_an_open_that_took_long_gets_the_number_that_a_shorter_one_had_before(
    tmp_path: Path,
) -> None:
    """Without -T both begin with the number free; only the later lines tell who had it first."""
    (tmp_path / "log.7").write_text(
        "1795997927.000000 clone3({flags=CLONE_VM|CLONE_FILES|CLONE_THREAD}, 88) = 8\n"
        '1795997927.000010 openat(AT_FDCWD, "/d/a", O_WRONLY|O_CREAT, 0666) = 3\n'
        '1795997927.000050 write(3, ""..., 10) = 10\n'
    )
    (tmp_path / "log.8").write_text(
        '1795997927.000011 openat(AT_FDCWD, "/d/b", O_WRONLY|O_CREAT, 0666) = 3\n'
        '1795997927.000013 write(3, ""..., 20) = 20\n'
        "1795997927.000020 close(3) = 0\n"
    )
    trace = strace.read(tmp_path)
    assert trace.metadata.completeness.unknown_descriptors == 0
    assert rows(trace, Path("/d")) == [
        ("open", "a", None, None, 0),
        ("open", "b", None, None, 0),
        ("write", "b", 0, 20, 20),
        ("close", "b", None, None, 0),
        ("write", "a", 0, 10, 10),
    ]


@pytest.mark.parametrize("is_freed", [False, True], ids=["free", "taken"])
def test_other_threads_use_what_a_thread_opened_and_left_to_them(
    is_freed: bool, tmp_path: Path
) -> None:
    """Without -T no line tells when an open ended; the next of its thread may be long after."""
    (tmp_path / "log.7").write_text(
        "1795997927.000000 clone3({flags=CLONE_VM|CLONE_FILES|CLONE_THREAD}, 88) = 8\n"
        + '1795997927.000002 openat(AT_FDCWD, "/d/a", O_WRONLY|O_CREAT, 0666) = 3\n' * is_freed
        + "1795997927.000012 close(3) = 0\n" * is_freed
        + '1795997927.000030 write(3, ""..., 10) = 10\n'
        + "1795997927.000040 fsync(3) = 0\n"
    )
    (tmp_path / "log.8").write_text(
        '1795997927.000010 openat(AT_FDCWD, "/d/b", O_WRONLY|O_CREAT, 0666) = 3\n'
        "1795997927.000090 close(3) = 0\n"
    )
    trace = strace.read(tmp_path)
    assert trace.metadata.completeness.unknown_descriptors == 0
    of_b = [row for row in rows(trace, Path("/d")) if row[1] == "b"]
    assert of_b == [
        ("open", "b", None, None, 0),
        ("write", "b", 0, 10, 10),
        ("sync", "b", None, None, 0),
        ("close", "b", None, None, 0),
    ]
    assert len(trace) == len(of_b) + 2 * is_freed


def test_what_a_log_does_not_tell_is_said(tmp_path: Path) -> None:
    """A read at an unknown position has no offset; io_uring's requests are not there."""
    log = tmp_path / "log"
    log.write_text(
        'read(9</d/a>, ""..., 10) = 10\nwrite(8, "", 1) = 1\nio_uring_enter(4, 1, 0, 0) = 1\n'
    )
    trace = strace.read(log)
    assert not trace.valid("offset").any()
    assert trace.metadata.completeness.unknown_descriptors == 1
    problems = " ".join(trace.metadata.completeness.problems())
    assert "1 call of io_uring_enter: " in problems
    assert "1 request whose position" in problems
    for word in ("-ttt", "-T"):
        assert word in problems
