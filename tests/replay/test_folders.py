"""Folders that nobody recorded the making of, and names that are files and folders."""

from pathlib import Path

import numpy as np
import pytest

from iotrace.replay.folders import MADE_UNRECORDED, Folders
from iotrace.replay.sketch import listing, sketch
from iotrace.replay.transforms.aggregate import Aggregate
from iotrace.replay.transforms.overwrite import Overwrite
from iotrace.replay.transforms.select import Select
from iotrace.traces.errors import PlanError

from .session_run import run


def saved(name: str) -> str:
    return f"open {name} w+create\nwrite {name} 0 4096\nclose {name}\n"


def loaded(name: str) -> str:
    return f"open {name} r\nread {name} 0 4096\nclose {name}\n"


MADE_BY_OTHERS = [
    ("mkdir a\n" + saved("a/b/c/f"), ["a/b", "a/b/c"]),
    ("mkdir a\n" + saved("a/b/f") + saved("a/b/g") + saved("a/c/f"), ["a/b", "a/c"]),
    ("mkdir a\nrmdir a/b", ["a/b"]),
    ("mkdir a\n" + saved("a/b/f") + "rename a/b a/c\n" + loaded("a/c/f"), ["a/b"]),
    ("mkdir a\nrename a/b a/c\n" + saved("a/c/f"), ["a/b"]),
    ("mkdir a\n" + saved("f") + "rename f a/b/f\n" + loaded("a/b/f"), ["a/b"]),
    ("mkdir a\n" + saved("f") + "link f a/b/f\n" + loaded("a/b/f"), ["a/b"]),
    ("mkdir a\nrmdir a\n" + saved("a/f"), ["a"]),
    ("mkdir a\nrename a b\n" + saved("a/f"), ["a"]),
    ("mkdir a\nrename a b\n" + saved("b/c/f"), ["b/c"]),
    (saved("a/f") + "unlink a/f\nrmdir a\n" + saved("a/b/f"), ["a", "a/b"]),
    (saved("a") + "unlink a\n" + saved("a/f"), ["a"]),
]


@pytest.mark.parametrize("executor", ["posix", "io_uring"])
@pytest.mark.parametrize(("text", "made"), MADE_BY_OTHERS)
def test_a_folder_that_somebody_else_made_is_made_when_it_is_needed(
    tmp_path: Path, text: str, made: list[str], executor: str
) -> None:
    """It cannot be there before, as what it is in is not; what is recorded stays as it is."""
    plan = sketch(text)
    plan.validate()
    added = plan.requests["source_row"] < 0
    assert listing(plan.derive(plan.history[0], plan.requests.compress(added))).splitlines() == [
        f"mkdir {folder}" for folder in made
    ]
    assert plan.requests["source_row"][~added].tolist() == list(range(int((~added).sum())))
    assert [(note.what, note.count) for note in plan.notes] == [(MADE_UNRECORDED, len(made))]
    outcome = run(plan, tmp_path, executor=executor, verify=True, repeat=2)
    assert (outcome.errors, outcome.verified) == ((), True)


def test_a_folder_is_made_right_before_it_is_first_needed() -> None:
    """By who needs it."""
    plan = sketch("process 1\nmkdir a\nprocess 2\n" + saved("x") + saved("a/b/f"))
    at = int(np.flatnonzero(plan.requests["source_row"] < 0)[0])
    assert listing(plan).splitlines()[at : at + 2] == ["mkdir a/b", "open a/b/f w+create"]
    stream = plan.streams[plan.requests["stream"][at]]
    assert stream.process == 2
    assert plan.requests["due_ns"][at] == plan.requests["due_ns"][at + 1]


def test_processes_find_the_folder_that_one_of_them_makes(tmp_path: Path) -> None:
    """Whoever of them is the first when it is replayed."""
    text = "process 1\nmkdir a\nopen a/b/1 w+create\nwrite a/b/1 0 9\nprocess 2\n"
    plan = sketch(text + saved("a/b/2") + "process 3\n" + saved("a/b/c/3"))
    outcome = run(plan, tmp_path, verify=True, workers=3, repeat=3)
    assert (outcome.errors, outcome.verified) == ((), True)


def test_a_folder_whose_making_is_not_selected_is_made(tmp_path: Path) -> None:
    """Its parent is made by who is selected."""
    text = "step 1\nmkdir a\nstep 0\nmkdir a/b\nstep 1\n" + saved("a/b/f")
    plan = Select(steps=(1,))(sketch(text))
    assert listing(plan).splitlines()[:3] == ["mkdir a", "mkdir a/b", "open a/b/f w+create"]
    assert run(plan, tmp_path, verify=True).verified is True


@pytest.mark.parametrize("made", ["mkdir t\n", ""])
@pytest.mark.parametrize("name", ["1", "s/1"])
def test_a_file_of_somebody_else_moves_with_its_folder(
    tmp_path: Path, made: str, name: str
) -> None:
    """It is first met where the folder was renamed to: it was in it before."""
    plan = sketch(
        f"{made}{saved('t/0')}rename t f\nrename f g\n{loaded('g/0')}{loaded('g/' + name)}"
    )
    spec = next(spec for spec in plan.files if spec.exists)
    assert (spec.path, spec.final_path) == (f"t/{name}", f"g/{name}")
    assert "f" not in Folders.of(plan).before
    for one in (plan, Overwrite()(plan), Aggregate("shared")(plan), Select(ops=("read",))(plan)):
        outcome = run(one, tmp_path, verify=True, repeat=2)
        assert (outcome.errors, outcome.verified) == ((), True)


@pytest.mark.parametrize(
    "text",
    [
        saved("a") + saved("a/f"),
        saved("a/f") + saved("a"),
        loaded("a") + loaded("a/f"),
        saved("b/a/f") + loaded("b/a"),
        "mkdir a\n" + saved("a"),
        saved("a") + "mkdir a",
        saved("a/f") + saved("b") + "rename b a/f/b",
        saved("a") + saved("b/f") + "rename b a",
    ],
)
def test_a_name_that_is_a_file_and_a_folder_is_refused(text: str) -> None:
    """Before anything is replayed, and by its name."""
    with pytest.raises(PlanError, match=r"'/(b/)?a(/f)?' is a file and a folder at a time"):
        sketch(text)


@pytest.mark.parametrize("between", ["unlink a\nmkdir a\n", "rename a c\nmkdir a\n"])
def test_a_name_may_be_a_file_and_later_a_folder(tmp_path: Path, between: str) -> None:
    plan = sketch(saved("a") + between + saved("a/f"))
    assert plan.notes == ()
    assert run(plan, tmp_path, verify=True).verified is True
