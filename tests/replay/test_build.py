"""From a trace to the plan that issues exactly what was recorded."""

import os

import numpy as np
import pytest

from iotrace.replay.build import plan_from_trace
from iotrace.replay.job import Op
from iotrace.replay.paths import rebase
from iotrace.replay.pieces import HOLE
from iotrace.replay.plan import Plan
from iotrace.replay.sketch import listing, sketch, sketch_trace
from iotrace.replay.workspace import peak_bytes
from iotrace.traces.check import check_trace
from iotrace.traces.errors import PlanError
from iotrace.traces.metadata import Metadata
from iotrace.traces.trace import Ints, Strings, Trace

SAVE_AND_LOAD = """
mkdir run
open run/model.tmp w+create+trunc
write run/model.tmp 0 100
write run/model.tmp 100 28
sync run/model.tmp
close run/model.tmp
rename run/model.tmp run/model
open run/model r
read run/model 0 4096 -> 128
close run/model
"""


def notes(plan: Plan) -> list[str]:
    return [str(note) for note in plan.notes]


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/".join("d" * 300), "folders deep"),
        ("/a/../b", "climbs out"),
        ("/" + "n" * 256, "component"),
        ("/", "names no file"),
    ],
)
def test_names_that_cannot_be_made_and_removed_are_refused(path: str, words: str) -> None:
    """A name may come from a stranger; a workspace must be removable to its last folder."""
    with pytest.raises(PlanError, match=words):
        rebase(path)


def test_the_plan_holds_the_recorded_requests_in_order() -> None:
    """Without a transform, a replay is the job again."""
    plan = sketch(SAVE_AND_LOAD)
    assert listing(plan).splitlines() == [
        "mkdir run",
        "open run/model.tmp w+create+trunc",
        "write run/model.tmp 0 100",
        "write run/model.tmp 100 28",
        "sync run/model.tmp",
        "close run/model.tmp",
        "rename run/model.tmp run/model",
        "open run/model r",
        "read run/model.tmp 0 4096  [0+128, past end 3968]",
        "close run/model.tmp",
    ]
    assert plan.requests["source_row"].tolist() == list(range(10))
    assert plan.notes == ()
    plan.validate()


def test_a_file_is_the_file_and_not_its_name() -> None:
    """What is written as a temporary file and renamed is read back as that file."""
    (spec,) = sketch(SAVE_AND_LOAD).files
    assert (spec.path, spec.final_path) == ("run/model.tmp", "run/model")
    assert (spec.exists, spec.initial_bytes, spec.final_bytes) == (False, 0, 128)
    assert (spec.written, spec.read) == (True, True)


def test_counts_are_of_payload() -> None:
    """A read that asked for more than there was moved what there was."""
    counts = sketch(SAVE_AND_LOAD).counts()
    assert (counts.requests, counts.data_requests, counts.files) == (10, 3, 1)
    assert (counts.bytes_written, counts.bytes_read, counts.padding_bytes) == (128, 128, 0)


def test_a_file_read_before_it_is_written_must_be_there() -> None:
    """The read part of a trace alone is replayable: its files are made first."""
    (spec,) = sketch("open a rw\nread a 10 20\nwrite a 0 100\nread a 0 100\nclose a").files
    assert (spec.exists, spec.initial_bytes, spec.final_bytes) == (True, 30, 100)


def test_an_appending_open_finds_the_file_as_long_as_it_was() -> None:
    """The first append says how much was there."""
    plan = sketch("open log w+create+append\nwrite log 500 10\nwrite log 510 5\nclose log")
    assert (plan.files[0].initial_bytes, plan.files[0].final_bytes) == (500, 515)
    assert plan.requests["flags"][0] & os.O_APPEND


def test_a_file_made_again_after_its_removal_is_another_file() -> None:
    """Checkpoints that take turns at one name do not share bytes."""
    plan = sketch(
        "open a w+create\nwrite a 0 8\nclose a\nunlink a\nopen a w+create\nwrite a 0 4\nclose a"
    )
    assert [spec.final_path for spec in plan.files] == [None, "a"]
    assert [spec.final_bytes for spec in plan.files] == [8, 4]


def test_two_processes_on_one_name_share_the_file() -> None:
    """Ranks that write parts of one shared file, each through its own open."""
    plan = sketch(
        "process 0\nopen a w+create\nwrite a 0 8\nprocess 1\nopen a w\nwrite a 8 8\n"
        "close a\nprocess 0\nclose a"
    )
    assert len(plan.files) == 1
    assert plan.files[0].final_bytes == 16
    assert plan.requests["handle"].tolist() == [0, 0, 1, 1, 1, 0]
    assert len(plan.streams) == 2


def test_requests_of_a_file_open_twice_go_through_their_own_threads_open() -> None:
    """An engine's header and its tensors are written by two threads at once."""
    rows = [  # op, thread, flags, offset, length; one file identity for both opens
        ("open", 0, os.O_WRONLY | os.O_CREAT, 0, 0),
        ("open", 1, os.O_RDWR, 0, 0),
        ("write", 0, 0, 0, 8),
        ("write", 1, 0, 8, 4),
        ("close", 0, 0, 0, 0),
        ("write", 1, 0, 12, 4),
        ("close", 1, 0, 0, 0),
    ]
    op, thread, flags, offset, length = zip(*rows, strict=True)
    count = len(rows)
    trace = Trace.from_columns(
        {
            "layer": Strings.constant("request", count),
            "op": Strings.of(op),
            "thread": np.array(thread),
            "start_ns": np.arange(count) * 10,
            "path": Strings.constant("/a", count),
            "file": np.zeros(count, np.int32),
            "flags": np.array(flags, np.int32),
            "offset": np.array(offset),
            "length": np.array(length),
            "result": np.array(length),
        },
        Metadata(),
    )
    assert plan_from_trace(trace).requests["handle"].tolist() == [0, 1, 0, 1, 0, 1, 1]


def test_a_file_open_before_the_trace_began_is_opened_first() -> None:
    """A capture may attach to a file that a parent opened."""
    plan = sketch("write a 0 8\nread b 0 4\nclose a\nsync b")
    assert listing(plan).splitlines()[:2] == ["open a w", "write a 0 8"]
    assert "opens added, of files open before the trace began: 2" in notes(plan)
    plan.validate()


def test_failed_requests_are_left_out_and_counted() -> None:
    """They moved nothing; what they were told may not hold here."""
    plan = sketch("open a r -> -2\nopen a w+create\nwrite a 0 100 -> 60\nwrite a 60 40 -> -28")
    assert listing(plan) == "open a w+create\nwrite a 0 60"
    assert "requests that failed when recorded, left out: 2" in notes(plan)


def test_mappings_are_counted_and_not_replayed() -> None:
    """A load through mmap makes no read calls: the plan says how much it does not do."""
    trace = sketch_trace("open a r\nmap a 0\nread a 0 10\nclose a")
    assert not np.any(plan_from_trace(trace).requests["op"] == 0)
    columns = {"length": Ints(np.array([0, 777, 10, 0]), np.array([False, True, True, False]))}
    plan = plan_from_trace(trace.with_columns(columns))
    assert "file mappings not replayed: 1 (777 bytes)" in notes(plan)


def test_a_read_cut_short_inside_the_file_asks_for_what_it_got() -> None:
    """Only the end of a file may make a replayed read short."""
    plan = sketch("open a r\nread a 0 100 -> 40\nread a 40 100 -> 100\nread a 140 100 -> 0")
    reads = plan.requests.compress(plan.requests["op"] == Op.READ)
    assert reads["length"].tolist() == [40, 100, 100]
    assert reads["may_be_short"].tolist() == [0, 0, 1]


def test_what_a_truncation_emptied_reads_as_a_hole() -> None:
    """A truncating open between an engine's own writes loses them, in a replay too."""
    plan = sketch(
        "thread 0\nopen a w+create+trunc\nwrite a 100 50\nthread 1\nopen a rw+trunc\n"
        "write a 0 10\nwrite a 150 10\nread a 0 160\nclose a\nthread 0\nclose a"
    )
    assert plan.pieces["file"].tolist().count(HOLE) == 1
    assert listing(plan).splitlines()[5] == "read a 0 160  [0+10, hole 140, 150+10]"
    assert not plan.files[0].exists


def test_a_directory_is_renamed_with_what_is_in_it() -> None:
    """A trainer writes below a temporary directory and renames that."""
    plan = sketch(
        "mkdir tmp\nopen tmp/a w+create\nwrite tmp/a 0 5\nclose tmp/a\nrename tmp final\n"
        "open final/a r\nread final/a 0 5\nclose final/a"
    )
    assert len(plan.files) == 1
    assert plan.files[0].final_path == "final/a"
    assert plan.requests["file"][4] == -1


def test_a_name_that_came_back_unrecorded_gets_one_of_its_own() -> None:
    """Another program put a file where one had been renamed away; both are replayed apart."""
    plan = sketch(
        "open a w+create\nwrite a 0 5\nclose a\nrename a b\nopen a r\nread a 0 9\nclose a"
    )
    assert [spec.path for spec in plan.files] == ["a", "a.iotrace-1"]
    assert plan.files[1].exists
    assert any("under a name of their own" in note for note in notes(plan))


def test_an_exclusive_open_of_a_file_that_should_be_gone_succeeds() -> None:
    """O_EXCL is kept, and must not fail on a file that the replay still has."""
    plan = sketch("open a r\nread a 0 5\nclose a\nopen a w+create+excl\nwrite a 0 3\nclose a")
    assert [spec.exists for spec in plan.files] == [True, False]
    assert plan.files[1].path == "a.iotrace-1"


def test_recorded_times_become_due_times_and_pauses() -> None:
    """They are kept in the plan; whether a replay honours them is its timing's affair."""
    plan = sketch("open a w+create\nwrite a 0 5\nthread 1\nopen b r\nthread 0\nclose a")
    assert plan.requests["due_ns"].tolist() == [0, 1000, 2000, 3000]
    assert plan.requests["think_ns"].tolist() == [0, 500, 0, 1500]


@pytest.mark.parametrize(
    "path",
    ["/a/../b", "/..", "/", "/.", "/" + "x" * 256, "/" + "d/" * 2500 + "f"],
)
def test_hostile_names_are_refused(path: str) -> None:
    """A trace comes from a stranger: no name may climb, or be one no file system takes."""
    trace = sketch_trace("open a w+create\nwrite a 0 5").with_columns(
        {"path": Strings.constant(path, 2)}
    )
    with pytest.raises(PlanError, match="path '"):
        plan_from_trace(trace)


@pytest.mark.parametrize(("offset", "length"), [(2**62, 5), (5, 2**62), (2**63 - 1, 1)])
def test_numbers_no_file_can_have_are_refused(offset: int, length: int) -> None:
    """They would overflow somewhere; the message names the row."""
    text = f"open a w+create\nwrite a {offset} {length}"
    with pytest.raises(PlanError, match="row 1 has"):
        plan_from_trace(sketch_trace(text))


EDGE = 2**60


@pytest.mark.parametrize(
    ("writes", "is_fine"),
    [
        ([(0, EDGE)], True),
        ([(0, EDGE + 1)], False),
        ([(EDGE, 1)], True),
        ([(EDGE + 1, 1)], False),
        ([(0, 2**63 - 1)], False),
        ([(0, EDGE), (0, EDGE)], True),
        ([(0, EDGE), (0, EDGE), (0, 512)], False),
    ],
)
def test_check_and_replay_have_one_limit(writes: list[tuple[int, int]], is_fine: bool) -> None:
    """What replay calls damaged, check does not call well-formed."""
    lines = ["open a w+create", *(f"write a {offset} {length}" for offset, length in writes)]
    trace = sketch_trace("\n".join(lines))
    found = [p for p in check_trace(trace, gaps=False) if "no file holds" in p or "EiB" in p]
    assert bool(found) is not is_fine
    if is_fine:
        plan_from_trace(trace)
    else:
        with pytest.raises(PlanError, match="the trace is damaged"):
            plan_from_trace(trace)


def test_a_trace_without_requests_is_refused() -> None:
    """There is nothing to replay, and the message says where to look."""
    with pytest.raises(PlanError, match="iotrace show"):
        plan_from_trace(Trace.from_columns(
            {"layer": Strings.of([]), "op": Strings.of([]), "start_ns": np.zeros(0, np.int64)},
            Metadata(),
        ))  # fmt: skip


def test_a_symbolic_link_leads_to_the_file_that_was_written() -> None:
    """`latest` is a name of the last step, not a second copy of it."""
    plan = sketch("""
    open step-1/model w+create
    write step-1/model 0 100
    close step-1/model
    open latest/model r as step-1/model
    read latest/model 0 100
    close latest/model
    unlink latest/model""")
    assert listing(plan).splitlines()[3:] == [
        "open step-1/model r",
        "read step-1/model 0 100",
        "close step-1/model",
    ]
    assert not any(spec.exists for spec in plan.files)


def test_a_symbolic_link_that_moves_on_leads_to_the_next_file() -> None:
    """The name says less than the file that was opened by it."""
    save = "open {n} w+create\nwrite {n} 0 {size}\nclose {n}\nopen latest r as {n}\nclose latest"
    text = "\n".join(save.format(n=n, size=size) for n, size in (("a", 10), ("b", 20)))
    plan = sketch(f"{text}\nopen latest r as b\nread latest 0 20\nclose latest")
    opens = [line for line in listing(plan).splitlines() if line.startswith("open")]
    assert opens == ["open a w+create", "open a r", "open b w+create", "open b r", "open b r"]


def test_a_sparse_file_takes_what_is_written() -> None:
    """Eight terabytes of nothing fit on any disk."""
    plan = sketch("open a w+create\nwrite a 8796093022208 10\nwrite a 0 5000\nclose a")
    assert peak_bytes(plan) == 3 * 4096


def test_a_file_too_deep_is_left_out_and_said() -> None:
    """The other files are replayed."""
    deep = "/".join("d" * 300)
    plan = sketch(f"open {deep} w+create\nwrite {deep} 0 9\nclose {deep}\n" + SAVE_AND_LOAD)
    assert plan.paths == sketch(SAVE_AND_LOAD).paths
    assert "requests on files more than 256 folders deep, left out: 3" in notes(plan)
