"""The numbers that `show` and `replay` print."""

import os
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iotrace.traces.file_summaries import FileSummary
from iotrace.traces.metadata import Completeness, FileCompleteness
from iotrace.traces.requests import Requests
from iotrace.traces.summary import SizeBucket, summarize
from iotrace.traces.trace import Ints, Strings, Trace
from tests.traces.conftest import small_trace


def checkpoint() -> Trace:
    """Return a save of 4096 + 100 bytes, renamed and read back, and one tensor."""
    n = 7
    moved = np.array([0, 4096, 100, 0, 0, 4196, -5])
    some = np.array([False, True, True, False, False, True, True])
    return small_trace(
        n,
        layer=Strings.of(["request"] * 6 + ["tensor"]),
        op=Strings.of(["open", "write", "write", "close", "rename", "read", "save"]),
        engine=Strings.of([None, "dcp", "dcp", None, None, None, "torch.save"]),
        rank=np.full(n, 2),
        step=Ints(np.array([0, 0, 0, 0, 3, 0, 0]), np.arange(n) < 5),
        end_ns=np.arange(n) * 10 + 15,
        path=Strings.of(["/d/tmp/x"] * 4 + ["/d/tmp", "/d/1/x", "/d/tmp/x"]),
        target=Strings.of([None] * 4 + ["/d/1"] + [None] * 2),
        file=Ints(np.array([1, 1, 1, 1, 0, 2, 0]), np.array([1, 1, 1, 1, 0, 1, 0], np.bool_)),
        flags=Ints(np.full(n, 1), np.arange(n) == 0),
        offset=Ints(np.array([0, 0, 4096, 0, 0, 0, 0]), some),
        length=Ints(np.array([0, 4096, 100, 0, 0, 8192, 24]), some),
        result=moved,
    )


def test_requests_bytes_and_words_are_counted() -> None:
    summary = summarize(checkpoint())
    assert (summary.requests, summary.data_requests, summary.tensors) == (6, 3, 1)
    assert (summary.bytes_written, summary.bytes_read) == (4196, 4196)
    assert summary.engines == ("dcp", "torch.save")
    assert summary.steps == (0, 3)
    assert summary.ranks == (2,)
    assert summary.processes == 1
    assert summary.write_seconds == pytest.approx(45e-9 + 15e-9)  # steps 0 and 3
    assert summary.read_seconds == pytest.approx(15e-9)
    assert summary.read_bandwidth == pytest.approx(4196 / 15e-9)


def test_a_file_is_told_by_its_last_name_also_when_its_folder_was_renamed() -> None:
    """Engines write under a temporary name; the user knows the final one."""
    trace = checkpoint()
    completeness = Completeness(files=(FileCompleteness("/d/1/x", 0, 1, 4196, 4196, True),))
    told = trace.with_metadata(replace(trace.metadata, completeness=completeness))
    assert tuple(summarize(told).files) == (FileSummary("/d/1/x", 4196, 4196, 4196, 5),)


def renaming(*rows: tuple[str, str, str | None, int]) -> Trace:
    """Return requests (op, path, target, result); each open is of a new file."""
    ops, paths, targets, results = zip(*rows, strict=True)
    return small_trace(
        len(rows),
        op=Strings.of(ops),
        path=Strings.of(paths),
        target=Strings.of(targets),
        file=Ints(np.arange(len(rows)), np.array([op == "open" for op in ops])),
        result=np.array(results),
    )


@pytest.mark.parametrize(
    ("trace", "names"),
    [
        (
            renaming(
                ("open", "/a", None, 0),
                ("rename", "/a", "/b", 0),
                ("open", "/a", None, 0),
                ("rename", "/b", "/c", 0),
            ),
            ["/c", "/a"],
        ),
        (renaming(("rename", "/a", "/b", 0), ("open", "/a", None, 0)), ["/a"]),
        (renaming(("open", "/a", None, 0), ("rename", "/a", "/b", -2)), ["/a"]),
        (renaming(("open", "/ab", None, 0), ("rename", "/a", "/c", 0)), ["/ab"]),
        (renaming(("open", "/a/b/c", None, 0), ("rename", "/a", "/z", 0)), ["/z/b/c"]),
        (renaming(("open", "/a", None, 0), ("link", "/a", "/b", 0)), ["/a"]),
        (
            renaming(
                ("open", "/a", None, 0),
                ("link", "/a", "/b", 0),
                ("unlink", "/a", None, 0),
                ("open", "/a", None, 0),
                ("link", "/a", "/c", -17),
                ("unlink", "/a", None, 0),
            ),
            ["/b", "/a"],
        ),
    ],
)
def test_renames_are_followed_in_order(trace: Trace, names: list[str]) -> None:
    assert [file.path for file in summarize(trace).files] == names


def test_a_file_made_without_a_name_is_told_by_the_one_it_was_linked_to() -> None:
    """The link's own name of it says nothing; an ordinary file keeps the name it has."""
    nameless = os.O_TMPFILE | os.O_RDWR
    trace = renaming(
        ("open", "/d/#77", None, 0), ("open", "/d/x", None, 0),
        ("link", "/proc/self/fd/3", "/d/a", 0), ("link", "/proc/self/fd/4", "/d/b", 0),
    ).with_columns(
        {"file": np.array([0, 1, 0, 1]),
         "flags": Ints(np.array([nameless, os.O_RDWR, 0, 0]), np.array([1, 1, 0, 0], bool))}
    )  # fmt: skip
    assert [file.path for file in summarize(trace).files] == ["/d/a", "/d/x"]
    assert {Requests.of(trace).path_of(row) for row in (0, 1)} == {"/d/a", "/d/x"}


def test_renames_in_a_circle_end() -> None:
    """A trace comes from a stranger; a million renames must not take a million steps a file."""
    rows = 20_000
    turns = ["/a", "/b"] * (rows // 2)
    trace = small_trace(
        rows,
        op=Strings.of(["open"] * (rows // 2) + ["rename"] * (rows // 2)),
        path=Strings.of(["/a"] * (rows // 2) + turns[: rows // 2]),
        target=Strings.of([*[None] * (rows // 2), *turns[1 : rows // 2 + 1]]),
        file=np.arange(rows),
        result=np.zeros(rows, np.int64),
    )
    assert len(summarize(trace).files) <= 2


def test_request_sizes_fall_into_powers_of_two() -> None:
    length = np.array([0, 1, 2, 3, 4, (1 << 20) - 1, 1 << 20])
    sizes = summarize(small_trace(7, length=length)).request_sizes
    assert sizes["read"] == ()
    assert sizes["write"] == (
        SizeBucket(0, 1, 0),
        SizeBucket(1, 1, 1),
        SizeBucket(2, 2, 5),
        SizeBucket(4, 1, 4),
        SizeBucket(1 << 19, 1, (1 << 20) - 1),
        SizeBucket(1 << 20, 1, 1 << 20),
    )


@pytest.mark.parametrize(
    ("offset", "length", "share"),
    [([0, 4096], [4096, 8192], 1.0), ([0, 4096], [4096, 1], 0.5), ([1, 512], [4096, 4096], 0.0)],
)
def test_the_aligned_share_needs_offset_and_length(
    offset: list[int], length: list[int], share: float
) -> None:
    columns: dict[str, Any] = {"offset": np.array(offset), "length": np.array(length)}
    assert summarize(small_trace(2, **columns)).aligned_share == share


def test_the_aligned_share_of_nothing_is_unknown() -> None:
    assert summarize(small_trace(0)).aligned_share is None
    assert summarize(small_trace(0)).write_bandwidth is None


def test_concurrency_counts_overlaps_and_not_neighbours() -> None:
    """A request that starts when another ends is not in flight with it."""
    trace = small_trace(4, end_ns=np.array([10, 20, 35, 50]))  # starts 0, 10, 20, 30
    summary = summarize(trace)
    assert summary.max_concurrency == 2
    assert summary.mean_concurrency == pytest.approx((10 + 10 + 15 + 20) / 50)


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 20)), min_size=1, max_size=30))
def test_concurrency_agrees_with_counting_every_instant(times: list[tuple[int, int]]) -> None:
    start_ns, taken_ns = np.array(times).T
    summary = summarize(small_trace(len(times), start_ns=start_ns, end_ns=start_ns + taken_ns))
    in_flight = [sum(s <= t < s + d for s, d in times) for t in range(80)]
    busy = [count for count in in_flight if count]
    assert summary.max_concurrency == max(in_flight)
    assert summary.mean_concurrency == pytest.approx(sum(busy) / len(busy))


def test_a_result_is_summed_like_a_recording() -> None:
    """Every command that reads traces reads results."""
    rows: dict[str, Any] = {"result": np.array([8, 8])}
    result = small_trace(2, layer=Strings.constant("replay", 2), **rows)
    assert summarize(result) == summarize(small_trace(2, **rows))


def test_failures_move_no_bytes() -> None:
    assert summarize(small_trace(2, result=np.array([-28, 100]))).bytes_written == 100


def test_what_is_missing_is_in_the_summary() -> None:
    trace = small_trace(1)
    holes = replace(trace.metadata, completeness=Completeness(dropped_records=3))
    summary = summarize(trace.with_metadata(holes))
    assert not summary.complete
    assert summary.problems == tuple(holes.completeness.problems())
    assert summarize(trace).complete


EXTREMES = [-(1 << 63), -1, 0, 1, (1 << 63) - 1]


@given(st.data())
def test_hostile_numbers_never_crash_a_summary(data: st.DataObject) -> None:
    """Whatever the reader lets through, the summary survives."""
    columns: dict[str, Any] = {
        name: np.array(data.draw(st.lists(st.sampled_from(EXTREMES), min_size=3, max_size=3)))
        for name in ("start_ns", "end_ns", "offset", "length", "result", "seq")
    }
    with np.errstate(over="ignore"):
        summary = summarize(small_trace(3, **columns, file=np.arange(3)))
    assert summary.requests == 3
