"""What must be in the files after a run: the last writes, and zeros where bytes were taken away."""

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iotrace.replay.job import Op
from iotrace.replay.loop import Tape
from iotrace.replay.plan import Plan
from iotrace.replay.sketch import listing, sketch
from iotrace.replay.transforms.align import Align
from iotrace.replay.transforms.coalesce import Coalesce
from iotrace.replay.transforms.direct import Direct
from iotrace.replay.verify import find_mismatch, written_extents, zeroed_extents

from .model import ZERO, run_in_order, token
from .session_run import run
from .test_laws import law

PLACES = st.integers(0, 40).map(lambda n: 100 * n)
LENGTHS = st.integers(1, 12).map(lambda n: 100 * n)
CHANGES = st.one_of(
    st.builds("write a {} {}".format, PLACES, LENGTHS),
    st.builds("punch a {} {}".format, PLACES, LENGTHS),
    st.builds("truncate a {}".format, PLACES),
    st.just("close a\nopen a rw+create+trunc"),
)


@law
@given(st.lists(CHANGES, min_size=1, max_size=12), st.booleans(), st.booleans())
def test_every_byte_is_expected_as_it_is_left(
    changes: list[str], there: bool, direct: bool
) -> None:
    """Payload where it was written last, zeros where it was taken away, in order of time."""
    begin = ["open a rw", "read a 0 3000"] if there else ["open a rw+create"]
    other = ["open b w+create", "write b 0 2000", "truncate b 700"]  # says nothing of `a`
    plan = sketch("\n".join([*begin, *changes, "close a", *other]))
    plan = Direct(512)(Coalesce(2048)(plan)) if direct else plan
    content = run_in_order(plan).content(0)
    assert content is not None
    known = np.zeros(len(content), np.bool_)
    left, zeros = written_extents(plan), zeroed_extents(plan)
    for extent in left[left["file"] == 0]:
        own = slice(extent["offset"], extent["offset"] + extent["length"])
        wanted = token(extent["source"], extent["origin"], extent["length"])
        assert np.array_equal(content[own], wanted)
        known[own] = True
    written = known.copy()
    for extent in zeros[zeros["file"] == 0]:
        own = slice(extent["offset"], extent["offset"] + extent["length"])
        assert (content[own] == ZERO).all()
        assert extent["offset"] + extent["length"] <= len(content)
        assert not known[own].any()
        known[own] = True
    if not there:  # what a read found there before is not compared
        assert (written | (content == ZERO)).all()


READS = st.builds("read a {} {}".format, PLACES, LENGTHS)


@law
@given(st.lists(st.one_of(CHANGES, READS), min_size=2, max_size=12), st.booleans())
def test_every_read_is_expected_to_find_what_is_there(steps: list[str], there: bool) -> None:
    """Payload where it was written last, zeros where it was taken away before the read."""
    begin = ["open a rw", "read a 0 6000"] if there else ["open a rw+create+trunc"]
    lines = [*begin, "write a 0 6000", *steps, "write a 0 6000", "read a 0 6000", "close a"]
    plan = sketch("\n".join(lines))
    for one in (plan, Coalesce(2048)(plan), Align(512)(plan)):
        assert [text for text in run_in_order(one).problems if "short" not in text] == []


def left_of(plan: Plan) -> set[int]:
    """The recorded bytes that are in the files after a run."""
    found = [token(e["source"], e["origin"], e["length"]).tolist() for e in written_extents(plan)]
    return {byte for own in found for byte in own}


@law
@given(st.lists(st.tuples(st.booleans(), PLACES, LENGTHS), min_size=1, max_size=8))
def test_aligned_holes_take_the_bytes_they_took(steps: list[tuple[bool, int, int]]) -> None:
    """A hole ends within a block, and what lies beside it there stays."""
    lines = [f"{'punch' if punch else 'write'} a {at} {length}" for punch, at, length in steps]
    plan = sketch("\n".join(["open a rw+create", *lines, "close a"]))
    aligned = Align(512)(plan)
    assert left_of(aligned) == left_of(plan)
    assert run_in_order(aligned).problems == []
    ranges = aligned.requests.compress(aligned.requests["op"] == Op.ALLOCATE)
    assert (ranges["length"] > 0).all()


WRITE = "open a rw+create\nwrite a 0 65536\n"


@pytest.mark.parametrize(
    ("text", "zeros"),
    [
        (WRITE + "punch a 4096 8192\nclose a", [(4096, 8192)]),
        (WRITE + "punch a 4096 8192\nwrite a 8000 100\nclose a", [(4096, 3904), (8100, 4188)]),
        (WRITE + "truncate a 100\ntruncate a 50000\nwrite a 40000 10\nclose a",
         [(100, 39900), (40010, 9990)]),
        (WRITE + "close a\nopen a w+create+trunc\nwrite a 60000 10\nclose a", [(0, 60000)]),
    ],
)  # fmt: skip
def test_zeros_are_proven(tmp_path: Path, text: str, zeros: list[tuple[int, int]]) -> None:
    """A hole is as much of a file as its bytes: one that is not there is found."""
    plan = sketch(text)
    found = zeroed_extents(plan)
    assert list(zip(found["offset"].tolist(), found["length"].tolist(), strict=True)) == zeros
    outcome = run(plan, tmp_path, verify=True, keep=True)
    assert outcome.errors == ()
    assert outcome.verified is True
    folder = Path(str(outcome.workspace))
    with (folder / "a").open("r+b") as file:
        file.seek(zeros[-1][0] + 5)
        file.write(b"x")
    root_fd = os.open(folder, os.O_DIRECTORY)
    with Tape(1 << 20) as tape:
        told = find_mismatch(plan, tape, root_fd)
    os.close(root_fd)
    assert told == f"a: 1 byte differs, first at {zeros[-1][0] + 5:,}"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (WRITE + "punch a 4096 8192\nread a 0 65536", "[0+4096, hole 8192, 12288+53248]"),
        (WRITE + "punch a 4096 8192\nread a 4096 8192", "[hole 8192]"),
        (WRITE + "punch a 4096 8192\nwrite a 8000 100\nread a 4096 8192",
         "[hole 3904, 8000+100, hole 4188]"),
        (WRITE + "truncate a 5000\npunch a 4096 100\ntruncate a 9000\nread a 0 9000",
         "[0+4096, hole 100, 4196+804, hole 4000]"),
        ("open a rw\npunch a 4096 8192\nread a 4096 8192", "[hole 8192]"),
    ],
)  # fmt: skip
def test_reads_of_punched_holes_find_zeros(tmp_path: Path, text: str, found: str) -> None:
    """Those bytes are not what was written there before."""
    plan = sketch(text + "\nclose a")
    assert found in listing(plan)
    outcome = run(plan, tmp_path, verify=True)
    assert outcome.errors == ()
    assert outcome.verified is True
