"""What a restore reads into, taken from the kernel before."""

import resource
from pathlib import Path

import pytest

from iotrace.replay.allocation import allocate, has_huge_pages
from iotrace.replay.memory_phases import MemoryPhases
from iotrace.replay.sketch import sketch

from .session_run import run

SIZE_BYTES = 64 << 20
PAGES = SIZE_BYTES // resource.getpagesize()


def faults_of(huge: bool) -> int:
    """Return the page faults that taking memory costs."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    assert allocate(SIZE_BYTES, huge) > 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def test_every_page_is_touched() -> None:
    """One fault for each page of the usual size; nothing costs nothing."""
    assert PAGES <= faults_of(huge=False) < 1.1 * PAGES
    assert allocate(0) == 0


@pytest.mark.skipif(not has_huge_pages(), reason="there are no huge pages here")
def test_huge_pages_are_taken_in_one_fault_each() -> None:
    """As far as the kernel has some: far fewer faults."""
    assert faults_of(huge=True) < PAGES / 4


def test_a_plan_says_which_pages() -> None:
    """By the option's name."""
    plan = sketch("open a r\nread a 0 5000\nclose a")
    taken = {name: MemoryPhases.of(plan, name, None) for name in ("pooled", "fresh", "huge")}
    assert {name: (int(one.fresh_bytes.sum()), one.huge) for name, one in taken.items()} == {
        "pooled": (0, False),
        "fresh": (5000, False),
        "huge": (5000, True),
    }


def test_a_kernel_without_huge_pages_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a load, which takes memory; a save takes none."""
    monkeypatch.setattr("iotrace.replay.session.has_huge_pages", lambda: False)
    load = run(sketch("open a r\nread a 0 5000\nclose a"), tmp_path, allocate="huge")
    assert load.degraded == ("pages of the usual size: the kernel gives no huge ones",)
    save = run(sketch("open a w+create\nwrite a 0 50\nclose a"), tmp_path, allocate="huge")
    assert save.degraded == ()
