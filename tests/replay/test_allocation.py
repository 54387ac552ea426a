"""What a restore reads into, taken from the kernel before."""

import resource
from pathlib import Path

import pytest

from iotrace.replay.allocation import allocate
from iotrace.replay.memory_phases import MemoryPhases
from iotrace.replay.sketch import sketch

SIZE_BYTES = 64 << 20
PAGES = SIZE_BYTES // resource.getpagesize()
HUGE = Path("/sys/kernel/mm/transparent_hugepage/enabled")


def faults_of(huge: bool) -> int:
    """Return the page faults that taking memory costs."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    assert allocate(SIZE_BYTES, huge) > 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def test_every_page_is_touched() -> None:
    """One fault for each page of the usual size; nothing costs nothing."""
    assert PAGES <= faults_of(huge=False) < 1.1 * PAGES
    assert allocate(0) == 0


@pytest.mark.skipif(
    not HUGE.exists() or "[never]" in HUGE.read_text(), reason="there are no huge pages here"
)
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
