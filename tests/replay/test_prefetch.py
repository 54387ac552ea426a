"""Files read ahead of their loads: what, in which order, how far, and what it saves."""

import random
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from iotrace.replay.job import Op
from iotrace.replay.options import ReplayOptions
from iotrace.replay.plan import Plan
from iotrace.replay.result import Outcome, RecordedSummary
from iotrace.replay.session import replay
from iotrace.replay.sketch import listing, sketch
from iotrace.replay.transforms.prefetch import Prefetch
from iotrace.traces.errors import PlanError
from tests.tools.command import iotrace

from .model import run_in_order
from .slow_mount import slow_mount
from .strategies import jobs

Group = tuple[int, int, int]  # stream, step, file
Extent = tuple[tuple[int, int], int, int]  # step and file, from, to

NOTHING = RecordedSummary(0, 0, 0, 0, 0, 0.0, 0.0)
BLOCK_BYTES = 512
PIECES = 400
READ_BYTES = 4096


def scattered_load(name: str = "a") -> str:
    """Read each page of a file once, in no order."""
    pages = random.Random(5).sample(range(PIECES), PIECES)
    reads = "\n".join(f"read {name} {page * READ_BYTES} {READ_BYTES}" for page in pages)
    return f"open {name} r\n{reads}\nclose {name}"


def overlap(one: Extent, other: Extent) -> bool:
    return one[0] == other[0] and one[1] < other[2] and one[2] > other[1]


def run(plan: Plan, root: Path, **options: object) -> Outcome:
    return replay(plan, NOTHING, ReplayOptions(root=root, **options))  # type: ignore[arg-type]


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(jobs(threads=3), st.sampled_from([1, 512, 700, 1500, 1 << 20]))
def test_what_is_read_ahead_is_read_once_before_it_is_loaded_within_the_window(
    text: str, window_bytes: int
) -> None:
    """Per thread, step and file: all the bytes that are loaded, and no further than asked."""
    before = sketch(text)
    plan = Prefetch(window_bytes, BLOCK_BYTES)(before)
    plan.validate()
    assert run_in_order(plan).problems == []
    leads = [stream.leads for stream in plan.streams]
    ahead: dict[Group, list[np.ndarray]] = defaultdict(list)
    waiting: dict[int, list[Extent]] = defaultdict(list)
    begun: dict[int, list[Extent]] = defaultdict(list)
    reads = (plan.requests["op"] == Op.READ) & (plan.requests["length"] > 0)
    for row in plan.requests.compress(reads).lowered():
        stream, step, file, low = (int(row[name]) for name in ("stream", "step", "file", "offset"))
        extent = ((step, file), low, low + int(row["length"]))
        leader = leads[stream]
        if leader < 0:
            begun[stream].append(extent)
            reached = [place for place, one in enumerate(waiting[stream]) if overlap(one, extent)]
            del waiting[stream][: max(reached, default=-1) + 1]  # what it passed over, too
            continue
        ahead[(leader, step, file)].append(np.arange(low, extent[2]))
        assert extent[2] - low <= min(window_bytes, BLOCK_BYTES)
        if not any(overlap(one, extent) for one in begun[leader]):
            waiting[leader].append(extent)
        assert sum(end - start for _, start, end in waiting[leader]) <= window_bytes
    for parts in ahead.values():
        found = np.concatenate(parts)
        assert len(np.unique(found)) == len(found)
    kept = plan.requests["source_row"] >= 0
    kept |= np.array(leads)[plan.requests["stream"]] < 0
    assert listing(before) == "\n".join(np.array(listing(plan).split("\n"))[kept])


@pytest.mark.parametrize("executor", ["io_uring", "posix"])
@pytest.mark.parametrize("queue_depth", [1, 4])
def test_reading_ahead_waits_for_the_loads_and_is_counted_apart(
    tmp_path: Path, executor: str, queue_depth: int
) -> None:
    """A window that is not kept fills the memory of the node."""
    plan = Prefetch(4 * 65536, 65536)(sketch(scattered_load()))
    done = run(plan, tmp_path, executor=executor, queue_depth=queue_depth, verify=True)
    assert done.errors == () and done.verified is True
    counts, moved = plan.counts(), done.repetitions[0].moved
    assert moved.bytes_read == counts.bytes_read == PIECES * READ_BYTES
    assert moved.padding_bytes == counts.padding_bytes
    start_ns = done.repetitions[0].timings["start_ns"]
    rows = plan.requests
    own = rows["stream"] == 0
    started = np.maximum.accumulate(np.where(own, start_ns, 0))
    assert np.all(start_ns[~own] >= started[~own])


def test_small_loads_find_what_was_read_ahead(tmp_path: Path) -> None:
    """Counted by the file system itself: large requests instead of one per page."""
    plan = sketch(scattered_load())
    found = []
    for one in (plan, Prefetch(PIECES * READ_BYTES)(plan)):
        there = tmp_path / str(len(found))
        there.mkdir()
        with slow_mount(there, 0.002, cached=True) as mount:
            done = run(one, there)
            assert done.errors == () and done.cold
            found.append(mount.seen["read"])
    assert found[0] >= PIECES / 2  # the kernel reads ahead a little by itself
    assert found[1] < PIECES / 4, found


def test_a_file_is_opened_under_the_name_it_has_by_then() -> None:
    """A load of what was just renamed, and one whose file is written in between."""
    text = """
    open a w+create
    write a 0 1000
    close a
    rename a b
    open c r
    read c 0 600
    close c
    open b r
    read b 0 1000
    close b"""
    lines = listing(Prefetch(1 << 20, 512)(sketch(text))).split("\n")
    assert lines.index("rename a b") < lines.index("open b r")
    assert lines.count("open b r") == 2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--direct"], "--direct-op write"),
        (["--rtt", "1ms"], "leave out --prefetch"),
        (["--prefetch", "0"], "bytes from 1"),
    ],
)
def test_what_would_undo_it_is_refused(tmp_path: Path, options: list[str], words: str) -> None:
    """Direct reads go past the page cache, and simulated round trips do not know of it."""
    done = iotrace("replay", "corpus:dcp", "--prefetch", "64MiB", *options, cwd=tmp_path)
    assert done.returncode == 2
    assert words in done.stderr


def test_it_comes_last_but_for_direct_writes() -> None:
    """Other transforms would move what was read ahead with the rest."""
    plan = Prefetch(1 << 20)(sketch(scattered_load()))
    with pytest.raises(PlanError, match="before prefetch"):
        Prefetch(1 << 20)(plan)
    with pytest.raises(PlanError, match="at least 1 byte"):
        Prefetch(0)
    nothing = Prefetch(1 << 20)(sketch("open a w+create\nwrite a 0 9\nclose a"))
    assert len(nothing.requests) == 3
    assert [str(note) for note in nothing.notes] == [
        "no loads through the page cache to read ahead of"
    ]


def test_loads_of_no_real_file_are_refused_before_they_take_memory() -> None:
    """8 TiB of memory were asked for."""
    plan = sketch(f"open a w+create\nwrite a 0 9\nclose a\nopen a r\nread a 0 {2**59}\nclose a")
    with pytest.raises(PlanError, match="more than 4,000,000"):
        Prefetch(1 << 20, 4096)(plan)
