"""What page faults brought in, of hand-made traces with every figure known."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from iotrace.traces.metadata import Host, Metadata, Process
from iotrace.traces.paging import Paging, paging_of
from iotrace.traces.summary import summarize
from iotrace.traces.trace import Ints, Strings, Trace

MIB = 1 << 20
PAGE = 4096


@dataclass
class Rows:
    """Rows of a trace under construction; of one step each, with processes of `hosts`."""

    hosts: tuple[int, ...] = (0, 0)
    rows: list[dict[str, object]] = field(default_factory=list)

    def add(self, layer: str, op: str, at: int, process: int, **more: object) -> None:
        row = {"layer": layer, "op": op, "start_ns": at, "end_ns": at, "process": process}
        self.rows.append(row | {"step": 0, "path": "/c/m"} | more)

    def load(
        self, process: int = 0, *, device: tuple[int, int], cached: tuple[int, int], **more: object
    ) -> None:
        """Add a load from 10 to 90, with what was counted around it."""
        engine = {"engine": "safetensors"} | more
        self.add("span", "load", 10, process, end_ns=90, **engine)
        for at, place in ((10, 0), (90, 1)):
            for name, values in (("device_read_bytes", device), ("cached_bytes", cached)):
                self.add("counter", "counter", at, process, name=name, result=values[place], **more)

    def faults(self, process: int = 0, *at: int, **more: object) -> None:
        """Map the file, and add faults on its pages at some times."""
        place = {"file": process, "offset": 0, "result": 0, "engine": "safetensors"} | more
        self.add("request", "map", at[0], process, length=8 * MIB, **place)
        for one in at:
            page = {"length": PAGE, "offset": one * PAGE}
            self.add("request", "fault", one, process, **(place | page))

    def trace(self) -> Trace:
        columns: dict[str, object] = {
            name: np.array([row[name] for row in self.rows], np.int64)
            for name in ("start_ns", "end_ns", "process", "step")
        }
        columns["rank"] = columns["process"]
        columns["thread"] = np.zeros(len(self.rows), np.int64)
        for name in ("layer", "op", "path", "engine", "name"):
            columns[name] = Strings.of([row.get(name) for row in self.rows])
        for name in ("file", "offset", "length", "result"):
            values = [row.get(name) for row in self.rows]
            known = np.array([value is not None for value in values])
            columns[name] = Ints(np.array([value or 0 for value in values], np.int64), known)
        processes = tuple(Process(i, host=host) for i, host in enumerate(self.hosts))
        hosts = tuple(Host(f"h{i}") for i in range(max(self.hosts) + 1))
        return Trace.from_columns(columns, Metadata(processes=processes, hosts=hosts))

    def paging(self) -> Paging:
        found = paging_of(self.trace())
        assert found is not None
        return found


def test_faults_without_times_or_counters_are_faults_that_nobody_counted() -> None:
    """A log without times has all at 0."""
    rows = Rows()
    rows.faults(0, 0, 0)
    found = summarize(rows.trace()).paging
    assert found == Paging(1, 8 * MIB, 2, 2 * PAGE, None, at_most=False)
    rows.add("counter", "counter", 99, 0, name="read_bytes", result=5 * MIB, path=None)
    assert rows.paging() == Paging(1, 8 * MIB, 2, 2 * PAGE, 5 * MIB, at_most=True)


def test_two_ranks_that_read_one_file_each_count_their_own() -> None:
    """The kernel counts what it reads for who asked first."""
    rows = Rows()
    for process, after in ((0, 5 * MIB), (1, 3 * MIB)):
        rows.load(process, device=(0, after), cached=(0, 8 * MIB))
        rows.faults(process, 20, 30)
    assert rows.paging() == Paging(1, 8 * MIB, 4, 4 * PAGE, 8 * MIB, at_most=False)


@pytest.mark.parametrize(
    ("hosts", "second", "expected"),
    [
        ((0, 0), (0, 8 * MIB), 8 * MIB),
        ((0, 0), (2 * MIB, 8 * MIB), 8 * MIB),
        ((0, 1), (0, 8 * MIB), 16 * MIB),
    ],
    ids=["at once", "later", "on two hosts"],
)
def test_where_processes_are_not_counted_a_files_growth_counts_once_per_host(
    hosts: tuple[int, int], second: tuple[int, int], expected: int
) -> None:
    """FUSE: two ranks load one file, and each sees all of it come into the page cache."""
    rows = Rows(hosts)
    for process, cached in ((0, (0, 8 * MIB)), (1, second)):
        rows.load(process, device=(0, 0), cached=cached)
        rows.faults(process, 20, 30)
    assert rows.paging() == Paging(1, 8 * MIB, 4, 4 * PAGE, expected, at_most=False)


def test_the_growth_of_two_files_is_of_both() -> None:
    """Each rank loads its own."""
    rows = Rows()
    for process, path in ((0, "/c/0"), (1, "/c/1")):
        rows.load(process, device=(0, 0), cached=(0, 3 * MIB), path=path)
        rows.faults(process, 20, path=path)
    assert rows.paging() == Paging(2, 16 * MIB, 2, 2 * PAGE, 6 * MIB, at_most=False)


def test_who_waited_for_what_another_read_adds_nothing() -> None:
    """Pages on their way fault in both; the kernel counts them for one."""
    rows = Rows()
    for process, after in ((0, 8 * MIB), (1, 0)):
        rows.load(process, device=(0, after), cached=(0, 8 * MIB))
        rows.faults(process, 20, 30)
    assert rows.paging().read_bytes == 8 * MIB


def test_what_came_before_the_first_counters_is_bounded_from_the_start_of_the_process() -> None:
    """Older captures counted when the header had been read, and what is read ahead with it."""
    rows = Rows()
    rows.load(device=(3 * MIB, 8 * MIB), cached=(3 * MIB, 8 * MIB))
    rows.faults(0, 8, 20)
    assert rows.paging() == Paging(1, 8 * MIB, 2, 2 * PAGE, 8 * MIB, at_most=True)
    rows = Rows()
    rows.load(device=(0, 0), cached=(3 * MIB, 8 * MIB))  # FUSE: nobody saw the file come in
    rows.faults(0, 8, 20)
    assert rows.paging().read_bytes is None


def test_a_page_cache_seen_before_the_last_fault_tells_nothing() -> None:
    """`torch.load(mmap=True)` from FUSE: what was used came after the call."""
    rows = Rows()
    rows.load(device=(0, 0), cached=(0, PAGE))
    rows.faults(0, 20, 95)
    rows.add("counter", "counter", 99, 0, name="read_bytes", result=0, path=None)
    assert rows.paging() == Paging(1, 8 * MIB, 2, 2 * PAGE, None, at_most=False)
