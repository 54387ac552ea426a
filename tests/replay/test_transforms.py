"""The smaller transforms, by what they do to a plan and to a real file system."""

import os
from pathlib import Path

import pytest

from iotrace.replay.job import Op
from iotrace.replay.loop import resident_bytes
from iotrace.replay.options import ReplayOptions
from iotrace.replay.result import RecordedSummary
from iotrace.replay.schedule import schedule
from iotrace.replay.session import replay
from iotrace.replay.sketch import listing, sketch
from iotrace.replay.target import probe_target
from iotrace.replay.transforms.aggregate import Aggregate
from iotrace.replay.transforms.broadcast import Broadcast
from iotrace.replay.transforms.coalesce import Coalesce
from iotrace.replay.transforms.direct import Direct
from iotrace.replay.transforms.drop_behind import DropBehind
from iotrace.replay.transforms.preallocate import Preallocate
from iotrace.replay.transforms.reorder import Reorder
from iotrace.replay.transforms.select import Select
from iotrace.traces.errors import PlanError

NOTHING = RecordedSummary(0, 0, 0, 0, 0, 0.0, 0.0)
MIB = 1 << 20


def test_requests_in_order_of_offset_can_be_joined() -> None:
    """Tensors saved in the order of a dictionary lie in another order in the file."""
    writes = "\n".join(f"write a {place * 10} 10" for place in (3, 1, 0, 2))
    plan = sketch(f"open a w+create\n{writes}\nclose a")
    assert Coalesce()(plan).counts().data_requests == 4
    assert Coalesce()(Reorder()(plan)).counts().data_requests == 1


def test_overlapping_writes_keep_their_order() -> None:
    """The one that came last is what the file holds."""
    text = "open a w+create\nwrite a 5 10\nwrite a 0 10\nclose a"
    assert listing(Reorder()(sketch(text))) == listing(sketch(text))


@pytest.mark.parametrize(
    ("second", "words"),
    [("5 10", ": 1 (10 bytes)"), ("0 10", " (5 bytes)"), ("0 20", " (10 bytes)")],
)
def test_a_broadcast_counts_the_reads_that_it_leaves_out(second: str, words: str) -> None:
    """One that is needed on both sides of what was read before stays, in two parts."""
    load = "process {}\nopen a r\nread a {}\nclose a\n"
    plan = Broadcast()(sketch(load.format(0, "5 10") + load.format(1, second)))
    assert [f"{note}" for note in plan.notes] == [
        f"reads left out: of bytes read before in their step{words}"
    ]


def test_a_file_that_sizes_itself_is_not_sized_again() -> None:
    """The engine has done it; and a file that is there has its blocks."""
    for text in (
        "open a w+create\nallocate a 0 10\nwrite a 0 10\nclose a",
        "open a rw\nread a 0 5\nwrite a 0 10\nclose a",
        "open a r\nread a 0 5\nclose a",
    ):
        assert listing(Preallocate()(sketch(text))) == listing(sketch(text))


def test_each_rewriting_is_sized() -> None:
    """Emptied by its open, a file has no blocks again."""
    save = "open a w+create+trunc\nwrite a 0 {size}\nclose a"
    plan = Preallocate()(sketch("\n".join(save.format(size=size) for size in (10, 20))))
    sizes = plan.requests["length"][plan.requests["op"] == Op.ALLOCATE]
    assert sizes.tolist() == [10, 20]


@pytest.mark.parametrize(
    ("direct", "expected"),
    [
        (Direct(512, ops=("write",)), {"write 0": True, "write 4096": True, "read 0": False}),
        (Direct(512, ops=("read",)), {"write 0": False, "write 4096": False, "read 0": True}),
        (Direct(512, least_bytes=1024), {"write 0": True, "write 4096": False, "read 0": True}),
    ],
)
def test_direct_by_op_and_size(direct: Direct, expected: dict[str, bool]) -> None:
    """Small reads are faster buffered, large writes are not."""
    save = "open a w+create\nwrite a 0 4096\nwrite a 4096 512\nclose a"
    plan = direct(sketch(f"{save}\nopen a r\nread a 0 4096\nclose a"))
    rows = plan.requests
    opens = rows.compress(rows["op"] == Op.OPEN)
    is_direct = dict(zip(opens["handle"], opens["flags"] & os.O_DIRECT != 0, strict=True))
    found = {
        f"{Op(row['op']).name.lower()} {row['offset']}": bool(is_direct[row["handle"]])
        for row in rows.compress(plan.is_data()).lowered()
    }
    assert found == expected


def test_a_byte_that_nobody_moves_directly_is_refused() -> None:
    """There is no direct sync."""
    with pytest.raises(PlanError):
        Direct(512, ops=("sync",))


def test_dropped_files_are_not_in_the_page_cache(tmp_path: Path) -> None:
    """What is measured is the kernel's own count of the file's pages."""
    if not probe_target(tmp_path).evicts:
        pytest.skip("this file system keeps its pages")
    text = f"open a w+create\nwrite a 0 {MIB}\nclose a"
    found = []
    for plan in (sketch(text), DropBehind()(sketch(text))):
        outcome = replay(plan, NOTHING, ReplayOptions(root=tmp_path, keep=True))
        assert outcome.errors == ()
        fd = os.open(Path(str(outcome.workspace)) / "a", os.O_RDONLY)
        found.append(resident_bytes(fd))
        os.close(fd)
    assert found == [MIB, 0]


def test_allocated_files_end_where_they_ended(tmp_path: Path) -> None:
    """Whatever the order of the writes, and with padding for direct I/O on top."""
    text = f"open a w+create\nwrite a 4096 {MIB}\nwrite a 0 4096\nclose a"
    for finish in (lambda plan: plan, Direct(4096)):
        plan = finish(Preallocate()(sketch(text)))
        outcome = replay(plan, NOTHING, ReplayOptions(root=tmp_path, verify=True))
        assert outcome.errors == ()
        assert outcome.verified is True


def test_a_sync_needs_no_pieces_where_others_have_gone() -> None:
    """What moves no bytes may stand anywhere: its first piece means nothing."""
    plan = sketch("""
    read c 700 1500 -> 0
    read a 0 1500
    write c 4511 1500
    read c 1024 3000 -> 3000
    sync a""")
    for transform in (Select(ops=("read",)), Broadcast(), Aggregate("rank")):
        plan = transform(plan)
    plan.validate()
    assert len(schedule(plan).job.requests) == len(plan.requests)
