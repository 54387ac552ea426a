"""Reads from mapped files: the bytes, the ends, what fails, and that nothing is read."""

import errno
import os
import resource
from pathlib import Path

import pytest

from iotrace.replay.executors.executor import Executor, LoopOptions
from iotrace.replay.executors.posix import PosixExecutor
from iotrace.replay.job import Fence, Mapping, Op
from iotrace.replay.loop import Tape, resident_bytes
from iotrace.replay.options import ReplayOptions
from iotrace.replay.result import RecordedSummary
from iotrace.replay.session import replay
from iotrace.replay.sketch import listing, sketch
from iotrace.replay.target import probe_target
from iotrace.replay.transforms.aggregate import Aggregate
from iotrace.replay.transforms.coalesce import Coalesce
from iotrace.replay.transforms.direct import Direct
from iotrace.replay.transforms.mapped import ADVICE, Mapped
from iotrace.replay.transforms.prefetch import Prefetch
from iotrace.traces.errors import PlanError
from tests.tools.command import assert_one_line_error, iotrace

from .job_builder import JobBuilder, run
from .slow_mount import slow_mount

NOTHING = RecordedSummary(0, 0, 0, 0, 0, 0.0, 0.0)
MIB = 1 << 20
SAVE_AND_LOAD = f"""
step 0
open a w+create
write a 0 {MIB}
write a {MIB} 5000
close a
process 1
open a r
read a 0 4100
read a 4100 {MIB}
read a {MIB + 4100} 4096 -> 900
read a {MIB + 5000} 4096 -> 0
close a
"""


def rchar() -> int:
    """Return the bytes that this process has read by system calls."""
    return int(Path("/proc/self/io").read_text().split()[1])


@pytest.mark.parametrize("advice", [m for m in Mapping if m])
def test_pages_come_by_faults_and_not_by_reads(tape: Tape, tmp_path: Path, advice: int) -> None:
    """Seen by the kernel's counts: hardly a byte read, and page faults that waited for storage."""
    if not probe_target(tmp_path).evicts:
        pytest.skip("this file system keeps its pages")
    length = 4 * MIB
    (tmp_path / "a").write_bytes(tape.read(0, 0, length))
    job = JobBuilder()
    job.add(Op.EVICT, path=job.path("a"), fence=Fence.ALL)
    handle = job.open("a", os.O_RDONLY)
    for at in range(0, length, 65536):
        job.read(handle, at, 65536, mapping=advice)
    job.close(handle)
    built = job.build()
    before, faults = rchar(), resource.getrusage(resource.RUSAGE_SELF).ru_majflt
    done = run(PosixExecutor(), built, tape, tmp_path, LoopOptions())
    assert done.report.first_error is None
    assert rchar() - before < MIB
    if advice != Mapping.WILLNEED:  # its pages are on their way when they are touched
        assert resource.getrusage(resource.RUSAGE_SELF).ru_majflt > faults


def test_a_file_that_stays_open_and_mapped_is_cold_again_when_evicted(
    executor: Executor, tape: Tape, tmp_path: Path
) -> None:
    """The page cache does not let go of pages in a page table, and a second load would be warm."""
    if not probe_target(tmp_path).evicts:
        pytest.skip("this file system keeps its pages")
    (tmp_path / "a").write_bytes(tape.read(0, 0, MIB))
    job = JobBuilder()
    handle = job.open("a", os.O_RDONLY)
    job.read(handle, 0, MIB, mapping=Mapping.PLAIN)
    job.add(Op.EVICT, path=job.path("a"), fence=Fence.ALL)
    done = run(executor, job.build(), tape, tmp_path)
    assert done.report.first_error is None
    with (tmp_path / "a").open("rb") as file:
        assert resident_bytes(file.fileno()) == 0


@pytest.mark.parametrize("check", [True, False])
def test_a_flipped_byte_is_found(executor: Executor, tape: Tape, root: Path, check: bool) -> None:
    """A copy from the wrong place of a mapping must not pass."""
    (root / "a").write_bytes(tape.read(0, 0, 32768))
    job = JobBuilder()
    handle = job.open("a", os.O_RDONLY)
    job.read(handle, 8192, 20481, mapping=Mapping.PLAIN)
    job.read(handle, 4096, 6000, pieces=[(0, 4096, 3000), (0, 7096, 3000)], mapping=Mapping.PLAIN)
    job.close(handle)
    built, options = job.build(), LoopOptions(queue_depth=2, check_reads=check)
    whole = run(executor, built, tape, root, options)
    assert whole.timings["result"].tolist() == [0, 20481, 6000, 0]
    assert whole.report.mismatched_bytes == 0
    with (root / "a").open("r+b") as file:
        file.seek(19000)
        flipped = bytes([file.read(1)[0] ^ 0x10])
        file.seek(19000)
        file.write(flipped)
    broken = run(executor, built, tape, root, options)
    assert broken.report.mismatched_bytes == int(check)


def test_a_mapped_file_may_grow_shrink_and_end(executor: Executor, tape: Tape, root: Path) -> None:
    """The mapping was made of a shorter file, or a longer; a read ends where the file does."""
    job = JobBuilder()
    writer = job.open("a")
    reader = job.open("a", os.O_RDONLY)
    lines = {"mapping": Mapping.PLAIN, "may_be_short": 1, "fence": Fence.FILE}
    job.write(writer, 0, 10000, fence=Fence.FILE)
    job.read(reader, 0, 4 * MIB, **lines)
    job.write(writer, 10000, MIB, fence=Fence.FILE)
    job.read(reader, 5000, 2 * MIB, **lines)
    job.through(Op.TRUNCATE, writer, length=6000, fence=Fence.FILE)
    job.read(reader, 4096, MIB, **lines)
    job.read(reader, 8192, 4096, **lines)
    job.close(reader)
    job.close(writer)
    done = run(executor, job.build(), tape, root, LoopOptions(check_reads=True))
    assert done.timings["result"].tolist() == [
        *(0, 0, 10000, 10000, MIB, MIB + 5000, 0),
        *(1904, 0, 0, 0),
    ]
    assert done.report.mismatched_bytes == 0


def test_a_file_that_cannot_be_mapped_or_was_not_opened(
    executor: Executor, tape: Tape, root: Path
) -> None:
    """Both are the read's own error."""
    job = JobBuilder()
    lacking = job.open("lacking", os.O_RDONLY)
    job.read(lacking, 0, 10, mapping=Mapping.PLAIN)
    (root / "written").write_bytes(b"x" * 10)
    written = job.open("written", os.O_WRONLY)
    job.read(written, 0, 10, mapping=Mapping.PLAIN)
    job.close(written)
    done = run(executor, job.build(), tape, root)
    assert done.timings["result"].tolist() == [
        *(-errno.ENOENT, -errno.EBADF),
        *(0, -errno.EACCES, 0),
    ]


def test_a_page_that_cannot_be_had_fails_the_read_and_nothing_else(
    tape: Tape, tmp_path: Path
) -> None:
    """The kernel's answer is a signal that ends processes; here it is an error of one request."""
    with slow_mount(tmp_path, 0, cached=True) as mount:
        (tmp_path / "a").write_bytes(tape.read(0, 0, MIB))
        job = JobBuilder()
        job.add(Op.EVICT, path=job.path("a"), fence=Fence.ALL)
        handle = job.open("a", os.O_RDONLY)
        job.read(handle, 0, MIB, mapping=Mapping.PLAIN)
        job.close(handle)
        mount.failing = "read"
        done = run(PosixExecutor(), job.build(), tape, tmp_path)
        assert done.timings["result"].tolist() == [0, 0, -errno.EIO, 0]
        mount.failing = ""
        done = run(PosixExecutor(), job.build(), tape, tmp_path)
        assert done.timings["result"].tolist() == [0, 0, MIB, 0]


@pytest.mark.parametrize("advice", ADVICE)
@pytest.mark.parametrize(
    "chain",
    [
        [],
        [Coalesce(65536)],
        [Aggregate("shared", 4096), Coalesce()],
        [Prefetch(65536)],
        [Direct(4096, ops=("write",))],
    ],
    ids=lambda chain: "+".join(type(one).__name__ for one in chain) or "recorded",
)
def test_a_save_and_its_load_are_proven(tmp_path: Path, advice: str, chain: list) -> None:
    """Whatever came before or after, each load gets the bytes that were saved."""
    plan = sketch(SAVE_AND_LOAD)
    mapped_last = [one for one in chain if not isinstance(one, Prefetch | Direct)]
    for transform in (*mapped_last, Mapped(advice), *chain[len(mapped_last) :]):
        plan = transform(plan)
    assert "mapped" in listing(plan)
    options = ReplayOptions(root=tmp_path, executor="posix", queue_depth=4, verify=True)
    done = replay(plan, NOTHING, options)
    assert done.errors == () and done.verified is True


def test_a_file_that_is_written_directly_too_is_read() -> None:
    """An open has one kind of access to the cache; the note says what was not changed."""
    plan = Mapped()(sketch("open a rw+create+direct\nwrite a 0 4096\nread a 0 4096\nclose a"))
    assert "mapped" not in listing(plan)
    assert [note.count for note in plan.notes] == [1]


def test_what_does_not_go_together_is_refused(tmp_path: Path) -> None:
    """In one line that says what to do."""
    plan = Mapped()(sketch(SAVE_AND_LOAD))
    with pytest.raises(PlanError, match="writes direct"):
        Direct()(plan)
    with pytest.raises(PlanError, match="--executor posix"):
        replay(plan, NOTHING, ReplayOptions(root=tmp_path))
    with pytest.raises(PlanError, match="--mmap-advice"):
        Mapped("magic")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--as mmap --direct", "--direct-op write"),
        ("--as mmap --rtt 1ms", "leave out --as mmap"),
        ("--as mmap --max-request 1MiB", "leave out --max-request"),
        ("--as mmap --executor io_uring", "--executor posix"),
        ("--as ring --executor posix", "--executor io_uring"),
        ("--as pread --mmap-advice random", "--as mmap"),
    ],
)
def test_options_that_contradict_each_other_are_refused(
    tmp_path: Path, options: str, words: str
) -> None:
    """Nothing asked for is left undone in silence."""
    done = iotrace("replay", "corpus:torch-save", *options.split(), cwd=tmp_path)
    assert_one_line_error(done, 2, words)


@pytest.mark.parametrize(
    ("options", "executor"),
    [("--as pread", "posix"), ("--as ring", "io_uring"), ("--mmap-advice willneed", "posix")],
)
def test_the_interface_of_reads_chooses_the_executor(
    tmp_path: Path, options: str, executor: str
) -> None:
    """The words of those who ask are enough."""
    done = iotrace(
        *("replay", "corpus:torch-restore", *options.split(), "--verify", "--json", "-"),
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert f'"executor": "{executor}"' in done.stdout
