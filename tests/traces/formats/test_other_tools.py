"""Logs of Darshan, DFTracer, elbencho, blkparse and the KV-cache benchmark as traces.

Samples are recorded where the tool could be run, otherwise written from its documented format.
"""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pytest

from iotrace.replay.build import plan_from_trace
from iotrace.traces.check import check_trace
from iotrace.traces.errors import TraceFormatError
from iotrace.traces.formats import blktrace, darshan, dftracer, elbencho, kv_cache
from iotrace.traces.formats.source import Source
from iotrace.traces.formats.table import guess, import_trace
from iotrace.traces.trace import Trace

SAMPLES = Path(__file__).parent / "samples"

# From the source of darshan-dxt-parser's printing.
DXT = """\
# darshan log version: 3.41
# exe: /home/me/a.out --big
# start_time: 1619109091
# nprocs: 2
# DXT trace

# DXT, file_id: 9457796068806373448, file_name: /scratch/test.out
# DXT, rank: 0, hostname: n1
# DXT, write_count: 2, read_count: 1
# DXT, mnt_pt: /scratch, fs_type: lustre
# Lustre stripe_size: 1048576, Lustre stripe_count: 2
# Module    Rank  Wt/Rd  Segment          Offset       Length    Start(s)      End(s) [OST]
 X_POSIX       0  write        0               0         4000      0.1042      0.1043  [  3]
 X_POSIX       0  write        1            4000      1048576      0.2000      0.2500  [  3]  [  5]
 X_POSIX       0   read        0               0         4000      0.3000      0.3000  [  3]

# DXT, file_id: 9457796068806373448, file_name: /scratch/test.out
# DXT, rank: 1, hostname: n2
# Module    Rank  Wt/Rd  Segment          Offset       Length    Start(s)      End(s)
 X_POSIX       1  write        0         1052576           10      0.0500      0.0600

# DXT, file_id: 9457796068806373448, file_name: /scratch/test.out
# DXT, rank: 1, hostname: n2
 X_MPIIO       1  write        0         1052576           10      0.0400      0.0700
"""

# From elbencho's documentation and source of --opslog.
OPSLOG = "".join(
    f'{{ "date": "2026-11-30T07:30:{at}+0100", "worker_rank": 3, "op_name": "{op}", '
    f'"entry_name": "{entry}", "offset": {offset}, "length": {length}, '
    f'"is_finished": {end}, "is_error": {error} }}\n'
    for at, op, entry, offset, length, end, error in [
        ("27.001", "openat", "d/r3-f0", 0, 0, "false", "false"),
        ("27.002", "openat", "d/r3-f0", 0, 0, "true", "false"),
        ("27.002", "pwrite", "12", 0, 4096, "false", "false"),
        ("27.009", "pwrite", "12", 0, 4096, "true", "false"),
        ("27.009", "pwrite", "12", 4096, 4096, "false", "false"),
        ("27.010", "pwrite", "12", 4096, 4096, "true", "true"),
        ("27.010", "aioread", "12", 0, 4096, "false", "false"),
        ("27.011", "close", "12", 0, 0, "false", "false"),
        ("27.011", "close", "12", 0, 0, "true", "false"),
        ("27.012", "HeadBucket", "b", 0, 0, "false", "false"),
        ("27.012", "pread", "7", 0, 512, "false", "false"),
        ("27.013", "pread", "7", 0, 512, "true", "false"),
    ]
)

AIO = OPSLOG.splitlines()[6] + "\n"
AIO_LATE = AIO.rstrip().replace("2026", "2126")

# From blkparse's manual.
BLKPARSE = """\
  8,0    3        1     0.000000000   697  Q  WS 2048 + 8 [kjournald]
  8,0    3        2     0.000004269   697  G  WS 2048 + 8 [kjournald]
  8,0    3        3     0.000005000   697  D  WS 2048 + 8 [kjournald]
  8,0    3        4     0.000006000   698  D   R 4096 + 16 [dd]
  8,0    3        5     0.000009000     0  C   R 4096 + 16 [0]
  8,0    3        6     0.000010000     0  C  WS 2048 + 8 [0]
  8,0    1        7     0.000011000   698  m   N cfq498 slice expired
  8,0    1        8     0.000012000   698  D   D 0 + 2048 [fstrim]
  8,0    1        9     0.000013000     0  C   D 0 + 2048 [0]
  8,0    1       10     0.000014000   698  D  FN [sync]
  8,0    1       11     0.000015000     0  C  FN 0 [0]
  8,0    1       12     0.000016000   698  D   W 9000 + 8 [dd]
CPU0 (8,0):
 Reads Queued:           1,        8KiB	 Writes Queued:           1,        4KiB
"""

KV_CACHE = """\
Timestamp,Operation,Object_Size_Bytes,Tier,Key,Phase
1740553426.194021,Write,131072,Tier-0,layer0/user0,Prefill
1740553426.194521,Write,131072,Tier-2,layer0/user0,Evict
1740553426.194590,Read,131072,Tier-2,layer0/user0,Decode
"""

Row = tuple[str | None, str | None, int, int, int, int]


def rows(trace: Trace) -> list[Row]:
    """Return op, path, offset, length, result and duration in ns; -1 for null."""
    ends = zip(trace.ints("end_ns"), trace.ints("start_ns"), strict=True)
    durations = [int(end - start) if end >= 0 else -1 for end, start in ends]
    texts = trace.strings("op"), trace.strings("path")
    numbers = (trace.ints(name).tolist() for name in ("offset", "length", "result"))
    return list(zip(*texts, *numbers, durations, strict=True))


def imported(text: str, tmp_path: Path, name: str = "log") -> Trace:
    """Write a log, and import it as what it looks like."""
    path = tmp_path / name
    path.write_text(text)
    trace = import_trace(path, guess(Source.of(path)))
    assert check_trace(trace) == []
    assert trace.metadata.completeness.problems()
    return trace


def test_dxt_text_has_the_segments_of_each_rank(tmp_path: Path) -> None:
    """POSIX's, which reach the system; MPI-IO's are the same bytes once more."""
    trace = imported(DXT, tmp_path)
    assert rows(trace) == [
        ("write", "/scratch/test.out", 1052576, 10, 10, 10_000_000),
        ("write", "/scratch/test.out", 0, 4000, 4000, 100_000),
        ("write", "/scratch/test.out", 4000, 1048576, 1048576, 50_000_000),
        ("read", "/scratch/test.out", 0, 4000, 4000, 0),
    ]
    assert trace.ints("rank").tolist() == [1, 0, 0, 0]
    assert [host.name for host in trace.metadata.hosts] == ["n1", "n2"]
    assert trace.metadata.epoch_realtime_ns == 1619109091_050000000
    assert trace.metadata.command == ("/home/me/a.out", "--big")


def test_dxt_of_mpi_io_alone_is_read_too(tmp_path: Path) -> None:
    """Without POSIX segments there is nothing better."""
    trace = imported(DXT.replace("X_POSIX", "X_MPIIO"), tmp_path)
    assert len(trace) == 5


def test_a_binary_log_of_darshan_is_read_by_pydarshan(tmp_path: Path) -> None:
    """The sample that PyDarshan brings along, where it is installed."""
    package = pytest.importorskip("darshan")
    sample = Path(package.__file__).parent / "tests" / "input" / "sample-dxt-simple.darshan"
    trace = darshan.read_binary(sample)
    assert [row[2:5] for row in rows(trace)] == [(0, 40, 40), (0, 4000, 4000)]
    assert trace.metadata.hosts[0].name == "sn176.localdomain"
    assert check_trace(trace) == []


def test_dftracer_is_read_as_it_was_recorded() -> None:
    """Positions are followed through writes, a seek and a read."""
    path = SAMPLES / "dftracer-2.2.0.pfw"
    trace = dftracer.read(path)
    assert guess(Source.of(path)).name == "dftracer"
    assert [row[:5] for row in rows(trace)] == [
        ("open", "/scratch/ckpt/a.bin", -1, -1, 0),
        ("write", "/scratch/ckpt/a.bin", 0, 1000, 1000),
        ("write", "/scratch/ckpt/a.bin", 1000, 500, 500),
        ("read", "/scratch/ckpt/a.bin", 0, 700, 700),
        ("write", "/scratch/ckpt/a.bin", 3000, 10, 10),
        ("sync", "/scratch/ckpt/a.bin", -1, -1, 0),
        ("close", "/scratch/ckpt/a.bin", -1, -1, 0),
        ("open", "/scratch/ckpt/b.txt", -1, -1, 0),
        ("write", "/scratch/ckpt/b.txt", 0, 5, 5),
        ("close", "/scratch/ckpt/b.txt", -1, -1, 0),
        ("rename", "/scratch/ckpt/b.txt", -1, -1, 0),
    ]
    assert trace.strings("target")[-1] == "/scratch/ckpt/c.txt"
    assert rows(trace)[5][5] == 14_068_000  # the sync took 14 ms
    assert trace.metadata.command == ("python", "dt/job.py", "/scratch/ckpt")
    assert check_trace(trace) == []


def test_a_folder_of_compressed_dftracer_files_is_one_trace(tmp_path: Path) -> None:
    """One file for each process; a cut one is told."""
    text = (SAMPLES / "dftracer-2.2.0.pfw").read_bytes()
    (tmp_path / "a.pfw.gz").write_bytes(gzip.compress(text))
    (tmp_path / "b.pfw").write_bytes(b"".join(text.splitlines(keepends=True)[:-1]))
    trace = dftracer.read(tmp_path)
    assert guess(Source.of(tmp_path)).name == "dftracer"
    assert len(trace) == 22
    assert len(trace.metadata.processes) == 2
    assert "cut short" in " ".join(trace.metadata.completeness.problems())


@pytest.mark.parametrize(
    ("mode", "offset", "flags"),
    [
        ("w", 0, os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
        ("a+", -1, os.O_RDWR | os.O_CREAT | os.O_APPEND),
    ],
)
def test_what_dftracers_stdio_appends_is_at_no_known_place(
    mode: str, offset: int, flags: int, tmp_path: Path
) -> None:
    """A mode tells as much as flags: what is written lies behind what was there."""
    call = '{"name":"%s","cat":"STDIO","pid":1,"tid":1,"ts":%d,"dur":1,"ph":1,"args":%s}\n'
    path = tmp_path / "a.pfw"
    path.write_text(
        call % ("fopen64", 1, f'{{"fname":"/d/a.txt","mode":"{mode}"}}')
        + call % ("fwrite", 2, '{"fname":"/d/a.txt","size":1,"count":5,"ret":5}')
    )
    trace = dftracer.read(path)
    assert trace.ints("offset").tolist() == [-1, offset]
    assert trace.ints("flags")[0] == flags
    told = "1 request at positions that DFTracer does not tell" in " ".join(
        trace.metadata.completeness.problems()
    )
    assert told is (offset < 0)


def dftracer_log(path: Path, *calls: tuple[str, dict[str, int]]) -> Path:
    """Write a log of calls on one file, with the arguments that they have."""
    event = {"cat": "POSIX", "ph": "X", "pid": 7, "tid": 7, "dur": 1}
    lines = [
        {**event, "name": name, "ts": at, "args": {"fname": "/d/a", **arguments}}
        for at, (name, arguments) in enumerate(calls)
    ]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return path


def test_dftracers_calls_that_failed_for_their_arguments_are_kept(tmp_path: Path) -> None:
    """They may be any 64 bits, and nothing moved."""
    log = dftracer_log(
        tmp_path / "a.pfw",
        ("pread", {"ret": -1, "count": 7, "offset": -5}),
        ("read", {"ret": -1, "count": 2**64 - 1}),
        ("ftruncate64", {"ret": -1, "length": 2**64 - 1}),
        ("pwrite", {"ret": 7, "count": 7, "offset": 3}),
    )
    trace = dftracer.read(log)
    assert trace.strings("op") == ["read", "read", "truncate", "write"]
    assert trace.ints("result").tolist() == [-5, -5, -5, 7]
    assert trace.ints("offset").tolist() == [-1, -1, -1, 3]
    assert trace.ints("length").tolist() == [7, 0, -1, 7]


def test_dftracers_calls_move_what_they_asked_for_at_most(tmp_path: Path) -> None:
    """A line that says more is none; where it does not say what was asked, it is what was moved."""
    log = dftracer_log(tmp_path / "a.pfw", ("readv", {"ret": 9, "iovcnt": 2}))
    assert dftracer.read(log).ints("length").tolist() == [9]
    dftracer_log(log, ("close", {"ret": 0}), ("read", {"ret": 1_000_000, "count": 5}))
    with pytest.raises(TraceFormatError, match=r"line 2: .*1000000 bytes moved of 5 that were"):
        dftracer.read(log)


def test_elbencho_operations_are_paired(tmp_path: Path) -> None:
    """Beginning and end are two lines; the file is the one the worker opened."""
    trace = imported(OPSLOG, tmp_path)
    assert rows(trace) == [
        ("open", "/d/r3-f0", -1, -1, 0, 1_000_000),
        ("write", "/d/r3-f0", 0, 4096, 4096, 7_000_000),
        ("write", "/d/r3-f0", 4096, 4096, -5, 1_000_000),
        ("read", "/d/r3-f0", 0, 4096, -1, -1),
        ("close", "/d/r3-f0", -1, -1, 0, 0),
        ("read", "/elbencho/fd-7", 0, 512, 512, 1_000_000),
    ]
    assert trace.strings("api")[3] == "libaio"
    assert trace.metadata.epoch_realtime_ns == 1796020227_001000000
    problems = " ".join(trace.metadata.completeness.problems())
    assert "1 operation of other kinds left out ('HeadBucket')" in problems
    assert "1 operation without an end" in problems


def test_elbenchos_other_operations_are_one_note(tmp_path: Path) -> None:
    """However many kinds there are, of names of any length."""
    odd = "".join(AIO.replace("aioread", f"{i}{'x' * 5000}") for i in range(500))
    (note,) = [
        problem
        for problem in imported(OPSLOG + odd, tmp_path).metadata.completeness.problems()
        if "other kinds" in problem
    ]
    assert note.startswith("501 operations of other kinds left out ('HeadBucket', '0xxx")
    assert note.endswith(" and 496 more)")
    assert len(note) < 400


def test_blkparse_requests_begin_at_the_driver_and_end_there(tmp_path: Path) -> None:
    """Sectors become bytes; a discard is a hole, a flush a sync; nothing is the end of some."""
    trace = imported(BLKPARSE, tmp_path)
    assert rows(trace) == [
        ("write", "/dev/block/8:0", 2048 * 512, 4096, 4096, 5_000),
        ("read", "/dev/block/8:0", 4096 * 512, 8192, 8192, 3_000),
        ("allocate", "/dev/block/8:0", 0, 1 << 20, 0, 1_000),
        ("sync", "/dev/block/8:0", -1, -1, 0, 1_000),
        ("write", "/dev/block/8:0", 9000 * 512, 4096, -1, -1),
    ]
    assert [process.pid for process in trace.metadata.processes] == [698, 697]


def test_kv_cache_objects_in_memory_are_left_out(tmp_path: Path) -> None:
    """Only the storage tier is storage."""
    trace = imported(KV_CACHE, tmp_path)
    assert [row[:5] for row in rows(trace)] == [
        ("write", "/kv-cache/layer0/user0", 0, 131072, 131072),
        ("read", "/kv-cache/layer0/user0", 0, 131072, 131072),
    ]
    assert trace.ints("start_ns").tolist() == [0, 69_000]
    assert "1 operation on objects in memory" in " ".join(trace.metadata.completeness.problems())


@pytest.mark.parametrize("key", ["", "/", ".", "a/.."])
def test_kv_cache_objects_without_a_key_have_a_file_of_their_own(tmp_path: Path, key: str) -> None:
    """None is the folder that the others lie in: such a trace could not be replayed."""
    trace = imported(
        KV_CACHE.replace("user0,Evict", f"user0,Evict\n1,Write,9,Tier-2,{key},Evict"), tmp_path
    )
    assert sorted({row[1] for row in rows(trace)}) == [
        "/kv-cache/layer0/user0",
        "/kv-cache/objects-without-key",
    ]
    assert "1 operation on objects without a key" in " ".join(
        trace.metadata.completeness.problems()
    )
    plan_from_trace(trace).validate()


@pytest.mark.parametrize(
    ("module", "text", "line"),
    [
        (darshan, DXT.replace("4000      0.1042", "many      0.1042"), 13),
        (darshan, DXT.replace(" X_POSIX       0   read", " X_POSIX       0   seek"), 15),
        (elbencho, OPSLOG.replace('"offset": 4096', '"offset": -1'), 5),
        (elbencho, OPSLOG + "{\n", 13),
        # A request that has no end in the log.
        (elbencho, OPSLOG + AIO_LATE, 13),
        (blktrace, BLKPARSE.replace("0.000016000", "9999999999.000000000"), 12),
        (blktrace, BLKPARSE.replace("2048 + 8 [kj", "99999999999999999999 + 8 [kj"), 3),
        (blktrace, "hello\n", 1),
        (kv_cache, KV_CACHE.replace("Read", "Peek"), 4),
        (kv_cache, KV_CACHE + '"', 5),
        (kv_cache, KV_CACHE.replace("131072,Tier-2", "-5,Tier-2"), 3),
        (dftracer, '{"cat":"POSIX","ph":1,"name":"read","pid":1,"tid":"x"}\n{\n', 2),
    ],
)
def test_a_broken_line_is_named(module: object, text: str, line: int, tmp_path: Path) -> None:
    """Which line, whatever the format."""
    path = tmp_path / "log"
    path.write_text(text)
    read = getattr(module, "read_text", None) or module.read
    with pytest.raises(TraceFormatError, match=f"log, line {line}: "):
        read(path)
