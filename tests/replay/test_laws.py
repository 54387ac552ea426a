"""The laws of plans and transforms, over random jobs."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from iotrace.replay.job import Op, check_job
from iotrace.replay.plan import Plan
from iotrace.replay.schedule import schedule
from iotrace.replay.sketch import listing, sketch
from iotrace.replay.transforms.aggregate import LAYOUTS, Aggregate
from iotrace.replay.transforms.align import Align
from iotrace.replay.transforms.broadcast import Broadcast
from iotrace.replay.transforms.buffered import Buffered
from iotrace.replay.transforms.coalesce import Coalesce
from iotrace.replay.transforms.direct import Direct
from iotrace.replay.transforms.drop_behind import DropBehind
from iotrace.replay.transforms.mapped import Mapped
from iotrace.replay.transforms.overwrite import Overwrite
from iotrace.replay.transforms.preallocate import Preallocate
from iotrace.replay.transforms.prefetch import Prefetch
from iotrace.replay.transforms.reorder import Reorder
from iotrace.replay.transforms.split import MaxRequest, Split
from iotrace.traces.errors import PlanError
from iotrace.traces.phases import Phase

from .model import FILE_SHIFT, run_at_random, run_in_order, token, written_before
from .strategies import jobs

TRANSFORMS = st.sampled_from(
    [
        Coalesce(2048),
        Coalesce(512, "vectored"),
        Align(512),
        Align(64),
        Split(512),
        Split(100),
        Buffered(),
        Reorder(),
        Preallocate(),
        DropBehind(),
    ]
)
DIRECTS = st.builds(
    Direct,
    st.just(512),
    st.sampled_from([("read", "write"), ("read",), ("write",)]),
    st.sampled_from([0, 700]),
)
AGGREGATES = st.builds(Aggregate, st.sampled_from(LAYOUTS), st.sampled_from([1, 1000, 4096]))
PREFETCHES = st.builds(Prefetch, st.sampled_from([1, 700, 2000, 1 << 20]), st.just(512))
CHAINS = st.builds(
    lambda chain, aggregate, more, overwrite, mapped, prefetch, direct: [
        *(*chain, *aggregate, *more, *overwrite),
        *(*mapped, *prefetch, *direct),
    ],
    st.lists(TRANSFORMS, max_size=2),
    st.lists(AGGREGATES, max_size=1),
    st.lists(TRANSFORMS, max_size=2),
    st.lists(st.builds(Overwrite), max_size=1),
    st.lists(st.builds(Mapped), max_size=1),
    st.lists(PREFETCHES, max_size=1),
    st.lists(DIRECTS, max_size=1),
)


def is_aggregated(chain: list) -> bool:
    """Whether files are given up for others."""
    return any(isinstance(transform, Aggregate) for transform in chain)


def is_over_old(chain: list) -> bool:
    """Whether files are there before."""
    return any(isinstance(transform, Overwrite) for transform in chain)


BARRIERS = (Op.SYNC, Op.CLOSE, Op.RENAME, Op.TRUNCATE, Op.UNLINK)

law = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))


def transformed(plan: Plan, chain: list) -> Plan:
    """The plan after the transforms; what cannot follow one before it is left out."""
    for transform in chain:
        parts_blocks = isinstance(transform, Split) and transform.size_bytes < plan.block_bytes
        maps = bool(plan.requests["mapping"].any())
        reads_direct = isinstance(transform, Direct) and "read" in transform.ops
        if not (parts_blocks or (maps and reads_direct)):
            plan = transform(plan)
    return plan


@law
@given(jobs())
def test_a_plan_runs_as_the_job_did(text: str) -> None:
    """Every open finds its file, and every read finds the bytes it found when recorded."""
    plan = sketch(text)
    plan.validate()
    model = run_in_order(plan)
    assert model.problems == []
    assert model.read == int(plan.counts().bytes_read) - holes(plan)


def touched(plan: Plan) -> np.ndarray:
    """The bytes that are written or read; others are there before only to give a file its size."""
    own = plan.pieces.compress(plan.pieces["file"] >= 0).lowered()
    return np.concatenate(
        [np.zeros(0, np.int64), *(token(p["file"], p["offset"], p["length"]) for p in own)]
    )


def holes(plan: Plan) -> int:
    return int(plan.pieces["length"][np.isin(plan.pieces["file"], (-4, -5))].sum())


@law
@given(jobs(), CHAINS)
def test_transforms_lose_and_swap_no_byte(text: str, chain: list) -> None:
    """Every byte a job left in its files is where the relocation map says, and nowhere else."""
    plan = sketch(text)
    after = transformed(plan, chain)
    after.validate()
    assert after.relocation.is_bijection()
    old, new = run_in_order(plan), run_in_order(after)
    assert new.problems == []
    for file, spec in enumerate(plan.files):
        content = old.content(file)
        if content is None or not spec.written:
            continue
        offset = np.flatnonzero(np.isin(content, touched(plan)))
        to_file, to_offset, _ = after.relocation.locate(np.full(len(offset), file), offset)
        for other in np.unique(to_file):
            moved = new.content(other)
            assert moved is not None
            mine = to_file == other
            assert np.array_equal(moved[to_offset[mine]], content[offset[mine]])
    for file, spec in enumerate(after.files):
        moved = new.content(file)
        if moved is None or not spec.written:
            continue
        assert len(moved) == spec.final_bytes
        place = np.flatnonzero(moved >= 0)
        origin, offset = np.divmod(moved[place], 1 << FILE_SHIFT)
        to_file, to_offset, _ = after.relocation.locate(origin, offset)
        assert (to_file == file).all()
        assert np.array_equal(to_offset, place)


@law
@given(jobs(), CHAINS)
def test_transforms_keep_the_payload_and_count_padding_apart(text: str, chain: list) -> None:
    """Bytes written and read are those recorded; whatever comes besides is padding."""
    before = sketch(text)
    after = transformed(before, chain)
    old, new = before.counts(), after.counts()
    assert new.bytes_written == old.bytes_written
    assert new.bytes_read == old.bytes_read
    assert is_aggregated(chain) or new.files == old.files
    moved = int(after.requests["length"][after.is_data()].sum())
    lacking = int(after.pieces["length"][after.pieces["file"] == -2].sum())
    assert moved >= new.bytes_written + new.bytes_read + new.padding_bytes
    assert moved <= new.bytes_written + new.bytes_read + new.padding_bytes + lacking


@law
@given(jobs(), CHAINS)
def test_nothing_crosses_a_barrier(text: str, chain: list) -> None:
    """What was written before a sync, close, rename, cut or removal is, in its file and stream."""
    before = sketch(text)
    after = transformed(before, chain)
    kept = set(after.requests["source_row"].tolist())
    for row in before.requests.compress(np.isin(before.requests["op"], BARRIERS)).lowered():
        source = int(row["source_row"])
        if source not in kept:
            assert is_aggregated(chain) or (is_over_old(chain) and row["op"] == Op.TRUNCATE)
        elif not is_aggregated(chain):
            assert written_before(after, source) == written_before(before, source)
        else:
            assert written_before(after, source) >= written_before(before, source)


@law
@given(jobs())
def test_sizes_without_align_stay(text: str) -> None:
    """Padding of direct I/O is cut off again: a file has the size it had."""
    plan = sketch(text)
    direct = Direct(512)(Preallocate()(Coalesce(1024)(Reorder()(plan))))
    assert [s.final_bytes for s in direct.files] == [s.final_bytes for s in plan.files]
    assert [s.final_path for s in direct.files] == [s.final_path for s in plan.files]


@law
@given(jobs())
def test_transforms_that_have_nothing_to_do_change_nothing(text: str) -> None:
    """Composing with nothing changes nothing."""
    plan = sketch(text)
    for transform in (Split(1 << 40), Align(1), Buffered()):
        same = transform(plan)
        assert listing(same) == listing(plan)
        for name in set(plan.requests.DEFAULTS) - {"first_piece"}:
            assert np.array_equal(same.requests[name], plan.requests[name]), name
        assert same.files == plan.files
        moved = same.relocation.entries
        assert np.array_equal(moved["to_file"], moved["file"])
        assert np.array_equal(moved["to_offset"], moved["offset"])


@law
@given(jobs(threads=3), st.lists(TRANSFORMS, max_size=2))
def test_broadcast_reads_each_byte_of_a_step_once(text: str, chain: list) -> None:
    """What was read is still read, by the first who did; nothing else changes."""
    before = sketch(text)
    after = transformed(Broadcast()(before), chain)
    after.validate()
    assert run_in_order(after).problems == []
    assert after.counts().bytes_written == before.counts().bytes_written
    old, new = loaded(before), loaded(after)
    assert set(old) == set(new)
    assert len(new) == len(set(new))


def loaded(plan: Plan) -> list[tuple[int, int]]:
    """The step and payload of every byte read in a load."""
    rows, pieces = plan.requests.lowered(), plan.pieces.lowered()
    found = []
    for row in rows[(rows["op"] == Op.READ) & (rows["phase"] == Phase.LOAD)]:
        own = pieces[row["first_piece"] : row["first_piece"] + row["piece_count"]]
        for piece in own[own["file"] >= 0]:
            payload = token(piece["file"], piece["offset"], piece["length"])
            found += [(int(row["step"]), byte) for byte in payload.tolist()]
    return found


@law
@given(jobs())
def test_coalescing_never_adds_requests(text: str) -> None:
    """Cutting at aligned places must not cost more than joining saves."""
    plan = sketch(text)
    for size_bytes in (1, 512, 2000, 1 << 20):
        assert Coalesce(size_bytes)(plan).counts().requests <= plan.counts().requests


@law
@given(
    st.lists(
        st.tuples(st.integers(0, 9000), st.lists(st.integers(1, 30000), min_size=1, max_size=12)),
        min_size=1,
        max_size=3,
    ),
    st.sampled_from(["write", "read"]),
    st.sampled_from([4096, 5000, 8192, 16384, 1 << 20]),
    st.sampled_from([None, 4096, 12288, 65536]),
)
def test_only_the_ends_of_a_run_are_parts_of_blocks(
    runs: list[tuple[int, list[int]]], op: str, size_bytes: int, split_bytes: int | None
) -> None:
    """Whatever the size of adjacent requests, coalesced and direct costs them two more at most."""
    lines, at = [f"open a {'w+create' if op == 'write' else 'r'}"], 0
    ends = set()
    for gap, lengths in runs:
        at += gap + 1
        ends.add(at)
        for length in lengths:
            lines.append(f"{op} a {at} {length}")
            at += length
        ends.add(at)
    plan = sketch("\n".join([*lines, "close a"]))
    shapes = [Coalesce(size_bytes), *([Split(split_bytes)] if split_bytes else []), Direct(4096)]
    after = transformed(plan, shapes)
    rows = after.requests.compress(after.is_data())
    low, high = rows["offset"], rows["offset"] + rows["length"]
    assert all(edge in ends for edge in [*low.tolist(), *high.tolist()] if edge % 4096)
    cuts = at // split_bytes if split_bytes else 0
    assert len(rows) <= plan.counts().data_requests + 2 * len(runs) + cuts


def test_large_requests_keep_their_number() -> None:
    """Tensors larger than requests are joined to, each at an odd place: 20 in, 21 out, not 60."""
    size, first = 12 << 20, 1234
    writes = [f"write a {first + n * size} {size}" for n in range(20)]
    plan = sketch("\n".join(["open a w+create", f"write a 0 {first}", *writes, "close a"]))
    joined = Direct()(Coalesce()(plan))
    rows = joined.requests.compress(joined.is_data())
    assert len(rows) == 21
    assert not (rows["offset"] % 4096).any()
    assert not (rows["length"] % 4096).any()
    assert rows["length"].max() <= size + 4096


@law
@given(
    jobs(threads=3),
    CHAINS,
    st.integers(1, 4),
    st.integers(0, 2**32),
    st.booleans(),
)
def test_any_order_that_the_fences_allow_gives_the_same_files(
    text: str, chain: list, queue_depth: int, seed: int, warm: bool
) -> None:
    """Fences are all that holds a replay together once requests run at the same time."""
    plan = transformed(sketch(text), chain)
    scheduled = schedule(plan, queue_depth, warm=warm)
    check_job(scheduled.job)
    expected, got = run_in_order(plan), run_at_random(plan, scheduled, queue_depth, seed)
    assert got.problems == []
    for file in range(len(plan.files)):
        left, right = expected.content(file), got.content(file)
        assert (left is None) == (right is None)
        assert left is None or np.array_equal(left, right)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Coalesce(0),
        lambda: Coalesce(gather="magic"),
        lambda: Align(0),
        lambda: Split(0),
        lambda: Direct(1000),
    ],
)
def test_impossible_parameters_are_refused(make: object) -> None:
    """A wrong option is one line, at once, and not a failure in the middle of a run."""
    with pytest.raises(PlanError):
        make()


def test_split_keeps_what_align_did() -> None:
    """A size that is no multiple of the block is rounded down; one that is smaller, refused."""
    plan = Align(512)(sketch("open a w+create\nwrite a 0 3000\nclose a"))
    after = Split(1500)(plan)
    writes = after.requests.compress(after.requests["op"] == Op.WRITE)
    assert writes["offset"].tolist() == [0, 1024, 2048]
    assert len(after.history[-1].notes) == 1
    with pytest.raises(PlanError, match="--align"):
        Split(500)(plan)


@pytest.mark.parametrize("transform", [Split, MaxRequest])
def test_more_cuts_than_memory_holds_are_refused_at_once(
    transform: type[Split] | type[MaxRequest],
) -> None:
    """The size that is named next is the least that works; a file of 16 GiB in 2 KiB does."""
    plan = sketch(f"open a w+create\nwrite a 0 {16 << 30}\nclose a")
    with pytest.raises(PlanError, match=r" 1 would make 17,179,869,186 requests.* least 2KiB$"):
        transform(1)(plan)
    with pytest.raises(PlanError, match=r" 1024 would make 16,777,218 requests.* least 2KiB$"):
        transform(1024)(plan)
