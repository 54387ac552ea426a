"""The bytes of many files in few: which files there are, what is left of the rest, and where."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iotrace.replay.folders import Folders
from iotrace.replay.job import Op
from iotrace.replay.plan import Plan
from iotrace.replay.sketch import listing, sketch
from iotrace.replay.transforms.aggregate import Aggregate
from iotrace.replay.transforms.align import Align
from iotrace.replay.transforms.coalesce import Coalesce
from iotrace.replay.workspace import peak_bytes
from iotrace.traces.errors import PlanError

from .model import run_in_order

TWO_RANKS = """
process 0
open a w+create
write a 0 3000
close a
process 1
open b w+create
write b 0 100
close b
"""


def lines(plan: Plan) -> list[str]:
    """The plan's requests, without where their bytes come from."""
    return [line.partition("  [")[0] for line in listing(plan).splitlines()]


def files(plan: Plan) -> list[str]:
    """The names of the files that a run leaves."""
    return sorted(spec.final_path for spec in plan.files if spec.final_path)


def valid(plan: Plan) -> Plan:
    """The plan, if it is valid and runs."""
    plan.validate()
    assert run_in_order(plan).problems == []
    return plan


def test_each_layout_has_its_files() -> None:
    """One per rank, one per machine, one in all."""
    plan = sketch(TWO_RANKS)
    apart = replace(plan, streams=tuple(replace(s, host=7 + s.process) for s in plan.streams))

    assert files(valid(Aggregate("rank")(plan))) == ["process-0", "process-1"]
    assert files(valid(Aggregate("host")(plan))) == ["host-0"]
    assert files(valid(Aggregate("host")(apart))) == ["host-7", "host-8"]
    assert files(valid(Aggregate("shared")(plan))) == ["shared"]


def test_ranks_are_named_by_their_number() -> None:
    """A process without a rank, such as a data loader, does not take a rank's file."""
    plan = sketch(TWO_RANKS)
    ranked = replace(plan, streams=(replace(plan.streams[0], rank=5), plan.streams[1]))
    assert files(Aggregate("rank")(ranked)) == ["process-1", "rank-5"]


@pytest.mark.parametrize(("stripe", "begin"), [(1, 3000), (1000, 3000), (4096, 4096), (2048, 4096)])
def test_a_region_begins_at_the_rounded_sum_of_those_before(stripe: int, begin: int) -> None:
    """An exclusive prefix sum, each size rounded up to a stripe."""
    plan = valid(Aggregate("shared", stripe)(sketch(TWO_RANKS)))
    writes = plan.requests.compress(plan.requests["op"] == Op.WRITE)
    assert writes["offset"].tolist() == [0, begin]
    assert plan.files[-1].final_bytes == begin + 100


def test_opens_closes_syncs_and_folders_shrink_with_the_files() -> None:
    """A rank opens, syncs and closes its file once, whatever the engine did with its own."""
    text = "mkdir d\n" + "\n".join(
        f"open d/{n} w+create\nwrite d/{n} 0 8\nsync d/{n}\nclose d/{n}" for n in range(5)
    )
    plan = valid(Aggregate("rank")(sketch(text)))
    assert lines(Coalesce()(plan)) == [
        "open process-0 w+create",
        "write process-0 0 40",
        "sync process-0",
        "close process-0",
    ]
    assert Folders.of(plan).before == []


def test_every_step_has_its_files() -> None:
    """Checkpoints are kept and removed one by one."""
    step = "open {n} w+create\nwrite {n} 0 8\nclose {n}"
    text = "\n".join(f"step {n}\n{step.format(n=n)}" for n in range(3))
    plan = valid(Aggregate("shared")(sketch(f"{text}\nunlink 0")))
    assert files(plan) == ["step-1-shared", "step-2-shared"]
    assert lines(plan)[-1] == "unlink step-0-shared"


def test_a_file_goes_with_the_last_of_those_in_it() -> None:
    """As long as one is there, its bytes may be read."""
    text = "open a w+create\nwrite a 0 8\nclose a\nopen b w+create\nwrite b 0 8\nclose b\nunlink a"
    assert files(valid(Aggregate("rank")(sketch(text)))) == ["process-0"]
    assert files(valid(Aggregate("rank")(sketch(f"{text}\nunlink b")))) == []


def test_a_file_renamed_to_the_name_it_has_stays() -> None:
    """POSIX: nothing happens."""
    plan = valid(Aggregate("rank")(sketch("open a w+create\nwrite a 0 8\nclose a\nrename a a")))
    assert files(plan) == ["process-0"]
    assert plan.files[-1].final_bytes == 8


@pytest.mark.parametrize("steps", [True, False])
def test_files_that_are_written_anew_are_emptied_together(steps: bool) -> None:
    """Saving over the last checkpoint costs new blocks, as it did when recorded."""
    save = "\n".join(f"open {n} w+create+trunc\nwrite {n} 0 8\nclose {n}" for n in ("a", "b"))
    text = "\n".join(f"step {n}\n{save}" if steps else save for n in range(3))
    plan = valid(Aggregate("rank")(sketch(text)))
    assert [line for line in lines(plan) if line.startswith("open")] == [
        "open process-0 w+create",
        "open process-0 w+create+trunc",
        "open process-0 w+create+trunc",
    ]
    assert peak_bytes(plan) == 4096


def test_one_written_anew_does_not_empty_the_other() -> None:
    """The bytes that stay must be there."""
    text = """
    open a w+create
    write a 0 8
    close a
    open b w+create
    write b 0 8
    close b
    open b w+create+trunc
    write b 0 8
    close b
    open a r
    read a 0 8
    close a"""
    assert "trunc" not in listing(valid(Aggregate("rank")(sketch(text))))


def test_a_commit_by_rename_remains_one_rename() -> None:
    """An engine that writes to a temporary name does so with the common file."""
    save = "\n".join(f"open {n}.tmp w+create\nwrite {n}.tmp 0 8\nclose {n}.tmp" for n in "ab")
    plan = valid(Aggregate("rank")(sketch(f"{save}\nrename a.tmp a\nrename b.tmp b\nopen b r\n"
                                          "read b 0 8\nclose b")))  # fmt: skip
    assert lines(plan) == [
        "open process-0.tmp w+create",
        "write process-0.tmp 0 8",
        "write process-0.tmp 8 8",
        "close process-0.tmp",
        "rename process-0.tmp process-0",
        "open process-0 r",
        "read process-0.tmp 8 8",  # a file is called by its first name here
        "close process-0.tmp",
    ]


def test_reads_split_where_their_bytes_lie_apart() -> None:
    """A shared file becomes one per rank; who reads all of it reads both."""
    text = """
    process 0
    open a w+create
    write a 0 4
    process 1
    open a w
    write a 4 4
    process 0
    close a
    open a r
    read a 0 8
    close a
    process 1
    close a"""
    plan = valid(Aggregate("rank")(sketch(text)))
    reads = [line for line in lines(plan) if line.startswith("read")]
    assert reads == ["read process-0 0 4", "read process-1 0 4"]


def test_files_that_are_only_read_are_prepared_in_the_new_layout() -> None:
    """A restore alone has a layout, too; two readers of a byte find it in one place."""
    text = "\n".join(
        f"process {p}\nopen {n} r\nread {n} 0 {size}\nclose {n}"
        for p, n, size in ((0, "a", 10), (0, "b", 20), (1, "b", 30))
    )
    plan = valid(Aggregate("rank")(sketch(text)))
    sizes = {spec.path: spec.initial_size_bytes for spec in plan.files if spec.exists}
    assert sizes == {"process-0-loaded": 30, "process-1-loaded": 10}
    assert plan.counts().bytes_read == 60


def test_zeros_stay_zeros() -> None:
    """A hole at the end of the last file is read as one, and not as the end of the file."""
    text = "open a rw+create+excl\ntruncate a 100\nwrite a 0 10\nread a 0 100\nclose a"
    plan = valid(Aggregate("rank")(sketch(text)))
    assert lines(plan)[1] == "truncate process-0 100"


def test_bytes_that_became_zeros_are_read_and_not_looked_at() -> None:
    """DataStates-LLM empties a file that its threads have begun to write."""
    text = """
    open b w+create
    write b 0 10
    close b
    open a rw+create
    write a 0 10
    truncate a 0
    truncate a 10
    read a 0 10
    close a"""
    before = sketch(text)
    plan = valid(Aggregate("rank")(before))
    assert files(plan) == ["process-0"]
    assert "read process-0 10 10  [stale 10]" in listing(plan)
    assert plan.counts().bytes_read == before.counts().bytes_read == 10


def test_a_file_with_holes_punched_is_left_alone() -> None:
    """The common file is not punched."""
    plan = sketch("open a w+create\nwrite a 0 10\nallocate a 0 5\nclose a\n"
                  "open b w+create\nwrite b 0 10\nclose b")  # fmt: skip
    allocates = plan.requests["op"] == Op.ALLOCATE
    requests = plan.requests.having_at(allocates, flags=0x03)  # PUNCH_HOLE, KEEP_SIZE
    after = Aggregate("rank")(replace(plan, requests=requests))
    assert files(after) == ["a", "process-0"]
    (note,) = after.history[-1].notes
    assert note.count == 1


SCRATCH = "open t w+create\nwrite t 0 4\nclose t\nunlink t\n"
SAVE = "open a w+create\nwrite a 0 8\nclose a\n"


@pytest.mark.parametrize("text", [SCRATCH, SCRATCH.removesuffix("unlink t\n")])
def test_a_file_that_no_step_touches_is_left_alone(text: str) -> None:
    """It is none of a checkpoint; without steps nobody knows."""
    plan = valid(Aggregate("rank")(sketch(text + "step 0\n" + SAVE)))
    assert "step-0-process-0" in files(plan) and "a" not in files(plan)
    assert lines(plan)[: text.count("\n")] == text.splitlines()
    assert [str(note) for note in plan.notes] == [
        "files that no save or load touches, not aggregated: 1"
    ]
    assert files(valid(Aggregate("rank")(sketch(text + SAVE)))) == ["process-0"]
    within = valid(Aggregate("rank")(sketch("step 0\n" + text + SAVE)))
    assert files(within) == ["step-0-process-0"] and not within.notes


def test_a_file_that_a_checkpoint_replaces_goes_with_it() -> None:
    """Its name is taken by a rename that is given up: left alone, it would stay."""
    text = "open t w+create\nwrite t 0 4\nclose t\n"
    replaced = "step 0\n" + SAVE + "rename a t"
    plan = valid(Aggregate("rank")(sketch(text + replaced)))
    assert files(plan) == ["step-0-process-0"]


def test_pauses_are_not_lost_with_their_requests() -> None:
    """The job computed for as long, whatever it opened."""
    plan = sketch("open a w+create\nwrite a 0 1\nclose a\nopen b w+create\nwrite b 0 1\nclose b")
    after = Aggregate("rank")(plan)
    writes = after.requests["op"] == Op.WRITE
    assert plan.requests["think_ns"].tolist() == [0, 500, 500, 500, 500, 500]
    assert after.requests["think_ns"][writes].tolist() == [500, 1500]


def test_requests_recorded_direct_stay_aligned() -> None:
    """Otherwise they could not be direct any more."""
    text = """
    open a w+create
    write a 0 10
    close a
    open b w+create+direct
    write b 4096 4096
    close b"""
    plan = valid(Aggregate("rank")(sketch(text)))
    direct = [line for line in lines(plan) if "direct" in line]
    assert direct == ["open process-0 w+create+direct"]
    assert plan.requests["offset"][plan.requests["length"] == 4096].tolist() == [4096]


def test_a_name_that_is_taken_is_not_taken_again() -> None:
    """A job may have a folder called `shared`."""
    plan = valid(Aggregate("shared")(sketch("mkdir shared\nopen a w+create\nwrite a 0 1\nclose a")))
    assert files(plan) == ["shared-aggregated"]


def test_what_was_synced_is_synced_later() -> None:
    """Of the syncs of a rank the last remains; it covers what the others did."""
    plan = sketch("open a w+create\nwrite a 0 5\nsync a\nopen b w+create\nwrite b 0 5\nsync b\n"
                  "write a 5 5\nclose a\nclose b")  # fmt: skip
    ops = Aggregate("rank")(plan).requests["op"]
    (sync,) = np.flatnonzero(ops == Op.SYNC)
    assert np.sum(ops[:sync] == Op.WRITE) == 2


@pytest.mark.parametrize("make", [lambda: Aggregate("node"), lambda: Aggregate("shared", 0)])
def test_impossible_parameters_are_refused(make: object) -> None:
    """A wrong option is one line, at once."""
    with pytest.raises(PlanError):
        make()


WRITES = st.lists(st.integers(1, 9000), min_size=1, max_size=6)


@given(ranks=st.lists(WRITES, min_size=2, max_size=4), stripe=st.sampled_from([4096, 6144, 16384]))
def test_regions_begin_at_stripes_after_align_too(ranks: list[list[int]], stripe: int) -> None:
    """Padding makes them grow; they neither leave their stripes nor run into each other."""
    text = []
    for rank, sizes in enumerate(ranks):
        text += [f"process {rank}", f"open f{rank} w+create"]
        for place, size in enumerate(sizes):
            text.append(f"write f{rank} {sum(sizes[:place])} {size}")
        text.append(f"close f{rank}")
    plan = valid(Align(4096)(Aggregate("shared", stripe)(sketch("\n".join(text)))))
    writes = plan.requests.compress(plan.requests["op"] == Op.WRITE)
    end = 0
    for rank in range(len(ranks)):
        own = writes.compress(writes["stream"] == rank)
        assert own["offset"][0] % stripe == 0
        assert own["offset"][0] >= end
        assert np.all(own["offset"] % 4096 == 0)
        end = int((own["offset"] + own["length"]).max())
