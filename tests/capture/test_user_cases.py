"""Cases that users met, in miniature: what the trace must tell of each."""

from __future__ import annotations

import errno
import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from iotrace.capture import session
from iotrace.capture.collector import collect
from iotrace.traces.check import check_trace
from iotrace.traces.verdict.verdict import examine
from tests.small_disk import mounted_tmpfs

from .engine_job import EngineJob, Row, run_engine_job
from .hooked_job import run_job
from .preload_job import capture, compile_program

CASES = ("by_path", "by_file", "by_memory", "by_link", "load", "load_mapped", "safe", "direct")
PROBE_BYTES = 4096
LAYERS = 16


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> EngineJob:
    """The finished job of user_cases.py."""
    return run_engine_job(tmp_path_factory.mktemp("cases"), "user_cases.py", *CASES)


def requests(job: EngineJob, case: str, *ops: str) -> list[Row]:
    """Return the requests of one case, those of some ops only if any are named."""
    rows = job.rows("request", below=case)
    return [row for row in rows if not ops or row["op"] in ops]


def test_a_save_to_a_path_is_one_sequential_stream_without_a_sync(cases: EngineJob) -> None:
    """The old checkpoint is gone with the first call, and nothing says when the new one is safe."""
    writes = requests(cases, "by_path", "write")
    assert Counter(row["op"] for row in requests(cases, "by_path") if row["op"] != "mkdir") == {
        "open": 1,
        "write": len(writes),
        "close": 1,
    }
    starts = [0, *(row["offset"] + row["result"] for row in writes)]
    assert [row["offset"] for row in writes] == starts[:-1]
    assert len(writes) <= 2 * LAYERS + 3
    tensors = cases.rows("tensor", below="by_path", op="save")
    assert {row["offset"] % 64 for row in tensors} == {0}
    assert sum(row["offset"] % PROBE_BYTES == 0 for row in tensors) <= 2


def test_the_way_a_save_is_called_changes_its_requests(cases: EngineJob) -> None:
    """The same object: by path, by file object, by memory."""
    counts = {case: len(requests(cases, case, "write")) for case in CASES[:3]}
    for case in counts:
        size = (cases.folder / case / "ckpt.pt").stat().st_size
        assert sum(row["result"] for row in requests(cases, case, "write")) == size
    assert counts["by_memory"] == 1 < counts["by_path"] <= counts["by_file"]


def test_a_save_to_a_file_without_a_name_holds_its_sync_and_its_link(cases: EngineJob) -> None:
    """Its tensors lie in that file, which `why` calls renamed into place, and synced."""
    rows = cases.trace.where(cases.trace.valid("file"))
    folder, files = f"{cases.folder}/by_link/", rows.ints("file")
    linked = [place for place, to in enumerate(rows.strings("target")) if to == f"{folder}ckpt.pt"]
    (link,) = linked
    own = rows.where(files == files[link])
    steps = {
        name: set(own.where(own.row_mask(op=op)).ints("step").tolist())
        for name, op in (("save", ("save", "write")), ("after", ("sync", "link")))
    }
    assert own.row_mask(layer="tensor", op="save").sum() == 2 * LAYERS
    assert steps["after"] == steps["save"] != {-1}
    (save,) = (f for f in examine(own).findings if f.durability)
    assert save.durability is not None
    assert (save.durability.renamed, save.durability.in_place) == (1, 0)
    assert save.durability.synced == 1


def test_a_load_probes_before_it_reads(cases: EngineJob) -> None:
    """Over half of the reads are 4 KiB at odd offsets; the end is read again and again."""
    reads = requests(cases, "load", "read")
    probes = [row for row in reads if row["result"] == PROBE_BYTES]
    assert (len(reads), len(probes)) == (51, 28)
    size = (cases.folder / "load" / "ckpt.pt").stat().st_size
    first_tensor = next(i for i, row in enumerate(reads) if row["length"] > 1 << 20)
    ends = [row for row in reads[:first_tensor] if row["offset"] + row["result"] == size]
    assert len(ends) >= 2


def test_a_mapped_load_reads_hardly_anything(cases: EngineJob) -> None:
    """34 probes and a mapping; the rest comes later, and the trace does not call itself whole."""
    reads, maps = (requests(cases, "load_mapped", op) for op in ("read", "map"))
    size = (cases.folder / "load_mapped" / "ckpt.pt").stat().st_size
    assert len(reads) == 34
    assert sum(row["result"] for row in reads) < size / 100
    assert [row["length"] for row in maps] == [size]
    assert cases.trace.metadata.completeness.notes


def test_safetensors_commits_by_a_rename_that_no_library_sees(cases: EngineJob) -> None:
    """Sized first, a few large writes, no sync, then the final name."""
    rows = requests(cases, "safe")
    ops = [row["op"] for row in rows if row["op"] != "mkdir"]
    writes = [row for row in rows if row["op"] == "write"]
    assert "sync" not in ops
    assert len(writes) == 8
    assert ops.index("truncate") < ops.index("write") < ops.index("rename")
    names = {Path(row["path"]).name for row in writes}
    assert len(names) == 1 and "x.safetensors" not in names


def test_a_refused_direct_write_tells_why(cases: EngineJob) -> None:
    """EINVAL, at the address and offset that were asked for."""
    (write,) = requests(cases, "direct", "write")
    assert (write["result"], write["offset"], write["length"]) == (-errno.EINVAL, 0, 4096)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 40 MiB at the folder `traced`."""
    with mounted_tmpfs(tmp_path / "traced", "40m") as folder:
        yield folder


def test_a_full_disk_is_told_by_its_own_name(small_disk: Path, tmp_path: Path) -> None:
    """The user sees "unexpected pos ... vs ..."; the trace has the short write and ENOSPC."""
    script = Path(__file__).parent / "jobs" / "user_cases.py"
    job = run_job(tmp_path / "raw", script, small_disk, "full")
    assert "unexpected pos" in job.done.stdout
    found = EngineJob(small_disk, job, collect(tmp_path / "raw", ["full"]))
    writes = requests(found, "full", "write")
    failed = [row for row in writes if row["result"] < 0]
    short = [row for row in writes if 0 <= row["result"] < row["length"]]
    assert {row["result"] for row in failed} == {-errno.ENOSPC}
    assert len(short) == 1
    assert short[0]["offset"] + short[0]["result"] == failed[0]["offset"]
    tensors = found.rows("tensor", op="save")  # what was not saved has no place
    assert [row["name"] for row in tensors] == [f"l{i}" for i in range(len(tensors))]
    assert 0 < max(row["offset"] + row["length"] for row in tensors) <= failed[0]["offset"]
    assert check_trace(found.trace) == []


FULL = """
import contextlib, ctypes, os, sys
libc = ctypes.CDLL(None)
libc.fopen.restype = ctypes.c_void_p
path = sys.argv[1].encode()
fd = os.open(path, os.O_WRONLY | os.O_CREAT)
os.write(fd, bytes(4096))
with contextlib.suppress(OSError):
    while True:
        os.write(fd, bytes(1 << 20))
with contextlib.suppress(OSError):
    os.writev(fd, [bytes(1000), bytes(99_000)])
with contextlib.suppress(OSError):
    os.pwritev(fd, [bytes(1000), bytes(9_000)], 41 << 20)
libc.writev(fd, ctypes.c_void_p(8), 2)
stream = ctypes.c_void_p(libc.fopen(path, b"a"))
libc.fwrite(bytes(3000), 1, 3000, stream)
libc.fflush(stream)
libc.fprintf(stream, b"%0100000d", 1)
libc.fclose(stream)
"""


def test_what_a_full_disk_refused_was_asked_for(small_disk: Path, tmp_path: Path) -> None:
    """A failed write without its place or length makes a trace that contradicts itself."""
    command = [sys.executable, "-c", FULL, str(small_disk / "x")]
    trace = session.capture(command, session.CaptureOptions(tmp_path / "raw")).trace
    assert check_trace(trace) == []
    writes = trace.where(trace.row_mask(layer="request", op="write"))
    failed = writes.where(writes.ints("result") < 0)
    end = 40 << 20
    asked = list(
        zip(*(failed.ints(name).tolist() for name in ("offset", "length", "result")), strict=True)
    )
    full = -errno.ENOSPC
    assert asked[:4] == [
        (end, 1 << 20, full),
        (end, 100_000, full),
        (41 << 20, 10_000, full),
        (end, 0, -errno.EFAULT),
    ]
    streamed = asked[4:]
    assert streamed and {(offset, result) for offset, _, result in streamed} == {(end, full)}
    assert streamed[0][1] == 3000


def test_a_ring_inside_a_library_is_reported(tmp_path: Path) -> None:
    """Wheels link liburing statically: it calls the kernel itself, and nothing is seen."""
    program = compile_program(tmp_path, "uring_static.c", "-l:liburing.a")
    path = tmp_path / "model.bin"
    path.write_bytes(os.urandom(1 << 20))
    capture([program, path], tmp_path / "logs")
    trace = collect(tmp_path / "logs", ["uring_static"])
    assert "read" not in trace.strings("op")
    assert any(
        "model.bin was opened for direct reads and none was seen" in problem
        for problem in trace.metadata.completeness.problems()
    )
