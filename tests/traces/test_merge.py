"""Traces of ranks and hosts become one, without mixing processes, hosts or clocks."""

import os
from dataclasses import replace

import numpy as np
import pytest

from iotrace.traces.check import check_trace
from iotrace.traces.errors import TraceFormatError
from iotrace.traces.merge import merge_traces
from iotrace.traces.merged_clocks import APART_NS
from iotrace.traces.metadata import (
    Completeness,
    FileCompleteness,
    HistoryEntry,
    Host,
    Metadata,
    Mount,
    Process,
    ProcessCompleteness,
    RecordedOn,
)
from iotrace.traces.trace import Ints, Strings, Trace
from tests.traces.conftest import small_trace


def part(boot: str, pid: int, realtime_ns: int, monotonic_ns: int | None) -> Metadata:
    return Metadata(
        epoch_realtime_ns=realtime_ns,
        epoch_monotonic_ns=monotonic_ns,
        hosts=(Host(f"host-{boot}", boot),),
        mounts=(Mount("/d"),),
        processes=(Process(pid),),
        completeness=Completeness(
            files=(FileCompleteness(f"/d/{pid}", 0, 1, 1, 1, True),),
            processes=(ProcessCompleteness(0),),
            dropped_records=1,
            notes=("cut",),
        ),
        history=(HistoryEntry("capture", str(pid)),),
    )


def test_processes_are_renumbered_with_all_that_mentions_them() -> None:
    parts = [part("a", 7, 1, 0), part("b", 8, 1, 0), part("a", 9, 1, 0)]
    merged = merge_traces([small_trace(1, metadata) for metadata in parts])
    metadata = merged.metadata
    pids = [metadata.processes[p].pid for p in merged.ints("process")]
    assert sorted(pids) == [7, 8, 9]
    assert [metadata.hosts[p.host].boot_id for p in metadata.processes] == ["a", "b", "a"]
    assert [f"/d/{metadata.processes[f.process].pid}" for f in metadata.completeness.files] == [
        f.path for f in metadata.completeness.files
    ]
    assert [p.process for p in metadata.completeness.processes] == [0, 1, 2]
    assert [m.host for m in metadata.mounts] == [0, 1]
    assert metadata.completeness.dropped_records == 3
    assert metadata.completeness.notes == ("cut",)
    assert [entry.detail for entry in metadata.history] == ["7", "8", "9"]
    assert check_trace(merged) == [
        f"3 rows (first: row 0): a read or write without its {what}"
        for what in ("file", "offset", "length")
    ]


def test_one_boot_is_joined_by_its_clock_and_not_by_the_wall() -> None:
    """NTP may step the wall clock between two ranks; the monotonic clock is exact."""
    parts = [part("a", 1, 5000, 100), part("a", 2, 9000, 130)]
    merged = merge_traces([small_trace(1, metadata) for metadata in parts])
    assert merged.ints("start_ns").tolist() == [0, 30]
    assert merged.metadata.epoch_realtime_ns == 5000
    assert merged.metadata.epoch_monotonic_ns == 100


def test_other_hosts_are_joined_by_wall_clock() -> None:
    parts = [part("a", 1, 5000, 100), part("b", 2, 4000, 130)]
    end_ns = Ints(np.array([5, 0]), np.array([True, False]))
    merged = merge_traces([small_trace(2, metadata, end_ns=end_ns) for metadata in parts])
    assert merged.ints("start_ns").tolist() == [0, 10, 1000, 1010]
    assert merged.ints("end_ns").tolist() == [5, -1, 1005, -1]
    assert merged.metadata.epoch_realtime_ns == 4000
    assert merged.metadata.epoch_monotonic_ns is None


def test_where_results_were_recorded_is_joined() -> None:
    """Each host once; mounts keep theirs."""
    places = [
        RecordedOn((Host("x", boot_id="x"),), (Mount("/a"),)),
        RecordedOn((Host("y", boot_id="y"), Host("x", boot_id="x")), (Mount("/b"), Mount("/a", 1))),
    ]
    parts = [replace(part("a", i, 5000, 100), recorded_on=p) for i, p in enumerate(places)]
    merged = merge_traces([small_trace(1, metadata) for metadata in parts]).metadata.recorded_on
    assert [host.name for host in merged.hosts] == ["x", "y"]
    assert merged.mounts == (Mount("/a"), Mount("/b", 1))


def test_one_trace_merged_is_itself() -> None:
    trace = small_trace(2)
    assert merge_traces([trace]) is trace


def test_nothing_cannot_be_merged() -> None:
    with pytest.raises(ValueError, match="no traces"):
        merge_traces([])


def known(value: int) -> Ints:
    return Ints(np.array([value]), np.ones(1, np.bool_))


def half(boot: str, offset: int, **columns: object) -> Trace:
    """Return the trace of a rank that wrote 10 bytes of a file of 20, not the rest."""
    metadata = part(boot, 1, 0, 0)
    file = FileCompleteness("/d/shared", 0, 3, 10 if offset == 0 else 0, 20, False)
    metadata = replace(
        metadata, completeness=Completeness(files=(file,), extra={"processes_left_out": 2})
    )
    given = {
        "process": np.zeros(1, np.int64),
        "file": known(3),
        "path": Strings.constant("/d/shared", 1),
        "offset": known(offset),
        "length": known(10),
        "result": known(10),
        "flags": Ints(np.zeros(1, np.int64), np.zeros(1, np.bool_)),
    }
    return small_trace(1, metadata, **(given | columns))


def test_a_file_that_ranks_of_several_hosts_share_is_judged_by_all_their_writes() -> None:
    """One checkpoint file of all ranks: what one host did not see, another did."""
    completeness = merge_traces([half("a", 0), half("b", 10)]).metadata.completeness

    assert [(f.process, f.complete) for f in completeness.files] == [(0, True), (1, True)]
    assert {f.recorded_bytes_written for f in completeness.files} == {20}
    assert completeness.extra == {"processes_left_out": 4}


@pytest.mark.parametrize("offset", [0, 11])
def test_a_shared_file_with_a_part_that_nobody_saw_is_not_complete(offset: int) -> None:
    """Merging explains nothing by itself."""
    completeness = merge_traces([half("a", 0), half("b", offset)]).metadata.completeness

    assert [f.complete for f in completeness.files] == [False, False]
    assert completeness.files[0].recorded_bytes_written == 10


def test_files_of_one_name_on_local_storage_are_judged_apart() -> None:
    """Each host had its own: what another host wrote explains nothing of it."""
    halves = [half("a", 0), half("b", 10)]
    parts = [
        trace.with_metadata(
            replace(trace.metadata, mounts=(Mount("/d", 0, file_system="ext4"),), clock=str(i))
        )
        for i, trace in enumerate(halves)
    ]
    completeness = merge_traces(parts).metadata.completeness

    assert [(f.complete, f.recorded_bytes_written) for f in completeness.files] == [
        (False, 10),
        (False, 0),
    ]


def test_what_was_written_before_a_shared_file_was_emptied_does_not_count() -> None:
    """The second rank opened it anew."""
    emptied = half(
        "b",
        10,
        op=Strings.constant("open", 1),
        start_ns=np.array([100]),
        flags=known(os.O_WRONLY | os.O_TRUNC),
    )
    whole = half("a", 0, length=known(20), result=known(20))

    completeness = merge_traces([whole, emptied]).metadata.completeness

    assert [f.complete for f in completeness.files] == [False, False]


def captured(numbers: list[int], processes: list[int], action: str = "capture") -> Trace:
    """Return writes to files of these numbers; the second process is on the second host."""
    files = [
        FileCompleteness(f"/d/{process}{number}", process, number, 1, 1, True)
        for number, process in zip(numbers, processes, strict=True)
    ]
    metadata = Metadata(
        epoch_realtime_ns=1,
        hosts=(Host("a", "a"), Host("b", "b")),
        processes=(Process(1, host=0), Process(2, host=1), Process(3, host=0)),
        completeness=Completeness(files=tuple(files)),
        history=(HistoryEntry(action, str(numbers)),),
    )
    rows = len(numbers)
    known = np.append(np.full(rows, True), False)
    return small_trace(
        rows + 1,
        metadata,
        file=Ints(np.append(numbers, 0), known),
        process=np.append(processes, 0),
        path=Strings.of([*(file.path for file in files), "/d/unnumbered"]),
    )


@pytest.mark.parametrize(("action", "count"), [("capture", 2), ("recover", 2), ("import", 3)])
def test_a_number_of_a_file_is_of_one_file_afterwards(action: str, count: int) -> None:
    """A capture numbers the files of a host together; what is imported may do so per process."""
    first = captured([7, 7, 7], [0, 1, 2], action)
    second = captured([7, 0, 7], [0, 0, 1])
    merged = merge_traces([first, second])
    known = merged.valid("file")
    assert [path for path, is_known in zip(merged.strings("path"), known, strict=True)
            if not is_known] == ["/d/unnumbered"] * 2  # fmt: skip
    rows = zip(merged.ints("process")[known], merged.ints("file")[known], strict=True)
    of_rows = {(int(process), int(file)) for process, file in rows}
    assert {(file.process, file.file) for file in merged.metadata.completeness.files} == of_rows
    numbers = [{file for process, file in of_rows if process in of} for of in ((0, 1, 2), (3, 4))]
    assert [len(own) for own in numbers] == [count, 3]
    assert not numbers[0] & numbers[1]


def test_what_has_no_common_clock_is_laid_one_after_another() -> None:
    """In the order given, and nothing is said to be its epoch."""
    parts = [replace(part("", pid, 0, None), epoch_realtime_ns=epoch) for pid, epoch in
             ((1, 0), (2, 500), (3, 530), (4, 0))]  # fmt: skip
    end_ns = Ints(np.array([3, 17]), np.array([True, True]))
    traces = [small_trace(2, metadata, end_ns=end_ns) for metadata in parts]
    merged = merge_traces(traces)
    first, last = APART_NS + 17, 2 * APART_NS + 17 + 47
    by_process = [merged.where(merged.ints("process") == process) for process in range(4)]
    assert [trace.ints("start_ns").tolist() for trace in by_process] == [
        *([0, 10], [first, first + 10], [first + 30, first + 40], [last, last + 10]),
    ]
    assert merged.metadata.clocks == 3
    assert merged.metadata.epoch_realtime_ns == 0
    again = merge_traces([merged, traces[1]])
    assert again.metadata.clocks == 4
    assert again.ints("start_ns").max() == last + 17 + APART_NS + 10


def test_one_boot_joins_times_without_a_wall_clock() -> None:
    merged = merge_traces([small_trace(1, part("a", pid, 0, at)) for pid, at in ((1, 9), (2, 4))])
    assert merged.ints("start_ns").tolist() == [0, 5]
    assert merged.metadata.clocks == 1
    assert merged.metadata.epoch_monotonic_ns == 4


def test_times_too_far_apart_are_told() -> None:
    parts = [part("a", 1, 1, 0), part("b", 2, 2**63 - 1, 0)]
    with pytest.raises(TraceFormatError, match="292 years"):
        merge_traces([small_trace(3, metadata) for metadata in parts])


@pytest.mark.parametrize(
    ("notes", "whole"),
    [
        (
            ("5.79 MiB of 2 files were mapped into memory for reading; it was not seen",) * 2,
            ("11.6 MiB of 4 files were mapped into memory for reading; it was not seen",),
        ),
        (
            (
                "about 1 MiB of 3 MiB of 1 file were warm",
                "about 512 KiB of 3 MiB of 2 files were warm",
            ),
            ("about 1.50 MiB of 6 MiB of 3 files were warm",),
        ),
        (
            (
                "1 request to an io_uring that is not understood",
                "2,000 requests to an io_uring that is not understood",
            ),
            ("2,001 requests to an io_uring that is not understood",),
        ),
        (("made of CSV",) * 3, ("made of CSV",)),
        (
            ("a fio iolog of version 2 has no times",) * 2,
            ("a fio iolog of version 2 has no times",),
        ),
        (("process 7 still runs",) * 2, ("process 7 still runs",) * 2),
        (("4 files lost", "4 files kept"), ("4 files lost", "4 files kept")),
    ],
)
def test_notes_of_the_parts_are_summed(notes: tuple[str, ...], whole: tuple[str, ...]) -> None:
    """What each lacks, all of them lack together; what is true of one is said once."""
    parts = []
    for number, note in enumerate(notes):
        metadata = part(f"host{number}", 7, 1, 0)
        completeness = Completeness(notes=(note,))
        parts.append(small_trace(1, replace(metadata, completeness=completeness)))
    merged = merge_traces(parts)
    assert merged.metadata.completeness.notes == whole
    assert merged.metadata.completeness.problems() == list(whole)
