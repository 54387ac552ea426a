"""Every combination of layout transforms, proven byte by byte on each file system there is."""

import os
from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from iotrace.replay.build import plan_from_trace
from iotrace.replay.executors.executor import Executor, LoopOptions
from iotrace.replay.intervals import unions
from iotrace.replay.loop import Tape
from iotrace.replay.options import ReplayOptions
from iotrace.replay.plan import Plan
from iotrace.replay.result import RecordedSummary
from iotrace.replay.session import replay
from iotrace.replay.sketch import sketch
from iotrace.replay.transforms.aggregate import LAYOUTS, Aggregate
from iotrace.replay.transforms.align import Align
from iotrace.replay.transforms.coalesce import Coalesce
from iotrace.replay.transforms.direct import Direct
from iotrace.replay.transforms.mapped import Mapped
from iotrace.replay.transforms.prefetch import Prefetch
from iotrace.replay.transforms.select import Select
from iotrace.replay.transforms.split import Split
from iotrace.replay.verify import find_mismatch, written_extents
from iotrace.traces.reader import read_trace

from .job_builder import EXECUTORS, JobBuilder, directory, run

CORPUS = Path(__file__).parents[2] / "traces" / "corpus"
TRACES = sorted(path.stem for path in CORPUS.glob("*.parquet"))
NOTHING = RecordedSummary(0, 0, 0, 0, 0, 0.0, 0.0)
BLOCK = 4096
TAPE_BYTES = 4 << 20  # what a replay of so few bytes takes, so that the payload is the same

Transform = Callable[[Plan], Plan]
AGGREGATES: tuple[Transform | None, ...] = (None, *(Aggregate(layout) for layout in LAYOUTS))
COMBINATIONS = [
    [transform for transform in chosen if transform]
    for chosen in product(
        AGGREGATES,
        (None, Coalesce(64 << 10)),
        (None, Align(BLOCK)),
        (None, Split(16 << 10)),
        (None, Direct(BLOCK)),
    )
]

CACHED = [
    [*chain, Mapped("random"), Prefetch(1 << 20, 64 << 10)]
    for chain in COMBINATIONS
    if not any(isinstance(one, Direct | Split) for one in chain)
]

# Two ranks save and load two steps: odd sizes, a header written twice, a common file, a hole, an
# append, a commit by rename, a file that each step writes anew, and one that is removed.
SAVE = """
step {step}
process {rank}
open {step}/{rank}.tmp w+create
write {step}/{rank}.tmp 0 700
write {step}/{rank}.tmp 700 30000
write {step}/{rank}.tmp 30700 4096
write {step}/{rank}.tmp 0 700
sync {step}/{rank}.tmp
close {step}/{rank}.tmp
rename {step}/{rank}.tmp {step}/{rank}
open {step}/optim-{rank} w+create
write {step}/optim-{rank} 0 20000
write {step}/optim-{rank} 40000 100
close {step}/optim-{rank}
open {step}/optim-{rank} w+append
write {step}/optim-{rank} 40100 50
close {step}/optim-{rank}
open last-{rank} w+create+trunc
write last-{rank} 0 5000
close last-{rank}
open common w+create
write common {offset} 9000
close common
"""
LOAD = """
process {rank}
open {step}/{other} r
read {step}/{other} 0 700
read {step}/{other} 700 50000 -> 34096
close {step}/{other}
open {step}/optim-{rank} r
read {step}/optim-{rank} 19000 21150
close {step}/optim-{rank}
open common r
read common 0 18000
close common
open tokens r
read tokens {offset} 6000
close tokens
"""


def job() -> str:
    """The text of it."""
    parts = []
    for step in (0, 1):
        for part, rank in product((SAVE, LOAD), (0, 1)):
            parts.append(part.format(step=step, rank=rank, other=1 - rank, offset=9000 * rank))
    return "\n".join([*parts, "unlink 0/0"])


@pytest.mark.parametrize("phase", ["save", "load"])
def test_every_combination_is_proven(file_system: Path, phase: str) -> None:
    """Saving by what lies in the files, loading by what is read."""
    half = Select(phases=(phase,))(sketch(job()))
    for number, chain in enumerate(COMBINATIONS):
        plan = half
        for transform in chain:
            plan = transform(plan)
        options = ReplayOptions(
            root=file_system,
            verify=True,
            workers=1 + number // 2 % 2,
            queue_depth=4,
            warm=True,
            executor=("io_uring", "posix")[number % 2],
        )
        outcome = replay(plan, NOTHING, options)
        assert outcome.errors == (), chain
        assert outcome.verified is True, chain
        assert outcome.repetitions[-1].moved.bytes_read == half.counts().bytes_read
        assert outcome.repetitions[-1].moved.bytes_written == half.counts().bytes_written


@pytest.mark.parametrize("executor", EXECUTORS, ids=lambda executor: executor.name)
@pytest.mark.parametrize("kind", ["the same", "scattered", "longer than the tape", "cut"])
def test_reads_in_flight_land_apart(file_system: Path, executor: Executor, kind: str) -> None:
    """btrfs checks a direct read's checksum in the memory it lands in: no other may land there."""
    path, size_bytes = file_system / "read", (80 if kind == "cut" else 12) << 20
    path.write_bytes(os.urandom(4 << 20) * (size_bytes >> 22))
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_DIRECT))
    except OSError:
        pytest.skip("there is no direct I/O here")
    job = JobBuilder()
    handles = [job.open("read", os.O_RDONLY | os.O_DIRECT, stream=stream) for stream in range(4)]
    for stream, handle in enumerate(handles):
        length = 1 << 20 if kind in ("the same", "scattered") else size_bytes
        for number in range(size_bytes // length):
            pieces = [(0, 0, length)]
            if kind == "scattered":  # as recorded, in pieces that share blocks
                pieces = [(0, 100, 700_000), (0, 700_100, 20_000), (1, 3000, 328_576)]
            job.read(handle, number << 20, length, pieces=pieces, stream=stream)
    with Tape(TAPE_BYTES) as tape:
        done = run(executor, job.build(), tape, file_system, LoopOptions(queue_depth=8))
    path.unlink()
    assert done.timings["result"].tolist() == [row.get("length", 0) for row in job.rows]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_flipped_byte_is_found(tmp_path: Path, layout: str) -> None:
    """One bit of one byte, at either end and in the middle of a rank's region."""
    plan = Align(BLOCK)(Coalesce()(Aggregate(layout)(Select(phases=("save",))(sketch(job())))))
    outcome = replay(plan, NOTHING, ReplayOptions(root=tmp_path, keep=True, verify=True))
    assert outcome.verified is True
    folder = Path(str(outcome.workspace))
    for extent in written_extents(outcome.plan)[::5]:
        path = folder / str(plan.files[extent["file"]].final_path)
        for at in (0, extent["length"] // 2, extent["length"] - 1):
            flip(path, int(extent["offset"] + at))
            assert mismatch(plan, folder) is not None
            flip(path, int(extent["offset"] + at))
    assert mismatch(plan, folder) is None


def mismatch(plan: Plan, folder: Path) -> str | None:
    """What a fresh comparison finds."""
    with Tape(TAPE_BYTES) as tape, directory(folder) as root_fd:
        return find_mismatch(plan, tape, root_fd)


def flip(path: Path, at: int) -> None:
    """Change one bit of a file."""
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1]))


def payload(plan: Plan) -> list[list[int]]:
    """The recorded bytes that lie in the files after a run: file, start and end."""
    extents = written_extents(plan)
    start = extents["origin"]
    found = unions(extents["source"].astype(np.int64), start, start + extents["length"])
    return [column.tolist() for column in found]


@pytest.mark.parametrize("name", TRACES)
@pytest.mark.parametrize("layer", ["request", "tensor"])
def test_every_combination_of_every_trace_keeps_the_laws(name: str, layer: str) -> None:
    """Valid, one to one, the same bytes written and read, padding apart."""
    plan = plan_from_trace(read_trace(CORPUS / f"{name}.parquet"), layer)
    before, content = plan.counts(), payload(plan)
    for chain in (*COMBINATIONS, *CACHED):
        after = plan
        for transform in chain:
            after = transform(after)
        after.validate()
        assert after.relocation.is_bijection()
        counts = after.counts()
        assert (counts.bytes_written, counts.bytes_read) == (
            before.bytes_written,
            before.bytes_read,
        ), chain
        assert payload(after) == content, chain
