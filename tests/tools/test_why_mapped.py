"""What `why` says of loads through mapped files, of hand-made traces with every figure known."""

from dataclasses import replace

import pytest

from iotrace.tools.advice.bytes import mapped
from iotrace.tools.advice.requests import many_small
from iotrace.tools.verdict.headline import headline
from iotrace.traces.metadata import Metadata
from iotrace.traces.phases import Phase
from tests.traces.verdict.rows import R, moved, only, span, verdict_on


def told_of_load(*rows: R) -> str:
    """Return where the time of the load went."""
    return dict(headline("t", Metadata(), verdict_on(*rows), (), None))["load"]


def used_later(*more: R) -> tuple[R, ...]:
    """Return a load of 100 ms, of whose mapping a page was missing 900 ms later."""
    mapping = {"offset": 0, "length": 1 << 22}
    return (
        span("load", 0, 100),
        moved("read", 0, 40, 0, 4096),
        R("map", 50, 50, **mapping),
        *more,
        R("fault", 1000, 1000, offset=1 << 20, length=4096),
    )


def test_what_the_job_does_before_it_uses_a_mapping_is_told_apart() -> None:
    """The shares are of the time that is told, and the rest of it has a name."""
    finding = only(verdict_on(*used_later()), Phase.LOAD)
    assert finding.seconds == 1
    assert finding.slowest_rank.seconds == pytest.approx(0.1)
    assert finding.away_seconds == pytest.approx(0.9)
    assert finding.slowest_rank.outer_faults == 1
    assert (
        told_of_load(*used_later())
        == "1 s: I/O 4 %, page faults or no I/O 6 %, in no call (1 page fault) 90 %"
    )


def test_a_rank_that_begins_late_was_in_no_call_before() -> None:
    """The last rank's shares stand beside the time of all ranks."""
    rows = (
        span("load", 0, 100),
        moved("read", 0, 40, 0, 100),
        span("load", 500, 1000, rank=1),
        moved("read", 500, 900, 0, 100, rank=1),
    )
    assert only(verdict_on(*rows), Phase.LOAD).away_seconds == pytest.approx(0.5)
    told = told_of_load(*rows)
    assert told.startswith("1 s: I/O 40 %, outside I/O 10 %, in no call 50 %;")


@pytest.mark.parametrize("read_bytes", [0, 1 << 22])
def test_headers_are_no_matter_where_faults_bring_the_data(read_bytes: int) -> None:
    """To join them would change nothing that is felt."""
    small = [moved("read", 40 + i / 8, 40 + i / 8 + 0.1, 4096 + i * 64, 64) for i in range(400)]
    read = R("counter", 1100, 1100, layer="counter", name="read_bytes", result=read_bytes)
    rows = used_later(*small)[: None if read_bytes else -1]
    finding = only(verdict_on(*rows, read), Phase.LOAD)
    finding = replace(finding, episode=replace(finding.episode, end_ns=100_000_000))
    assert bool(list(many_small("t", finding))) == (not read_bytes)


@pytest.mark.parametrize(
    ("cached_bytes", "fetched_bytes", "is_warm"),
    [(1 << 22, 0, True), ((1 << 22) - 1, 0, False), (1 << 22, 4096, False)],
)
def test_no_page_fault_waits_for_what_is_in_memory(
    cached_bytes: int, fetched_bytes: int, is_warm: bool
) -> None:
    """A load of what the job has just saved: to read it instead of mapping it would cost more."""
    rows = []
    for at, fetched in ((1, 0), (101, fetched_bytes)):
        for name, value in (("device_read_bytes", fetched), ("cached_bytes", cached_bytes)):
            rows.append(R("counter", at, at, layer="counter", name=name, result=value))
    load = (span("load", 0, 100), R("map", 50, 50, offset=0, length=1 << 22), *rows)
    finding = only(verdict_on(*load), Phase.LOAD)
    assert finding.is_in_memory == is_warm
    assert bool(list(mapped("t", finding))) != is_warm
    told = dict(headline("t", Metadata(), verdict_on(*load), (), None))["reads"]
    assert told.startswith("1 file mapped: ")
    assert ("was in memory already" in told) == is_warm
