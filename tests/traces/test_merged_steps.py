"""Steps of traces that are joined are counted over all of them."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from iotrace.traces.merge import merge_traces
from iotrace.traces.metadata import HistoryEntry, Host, Metadata, Process
from iotrace.traces.reader import read_trace
from iotrace.traces.trace import Ints, Strings, Trace
from iotrace.traces.writer import write_trace

Row = tuple[str, str, str, int, int]  # layer, op, path, start, step


def part(rank: int, rows: list[Row], epoch_ns: int = 1) -> Trace:
    layers, ops, paths, starts, steps = (list(column) for column in zip(*rows, strict=True))
    is_span = [layer == "span" for layer in layers]
    return Trace.from_columns(
        {
            "layer": Strings.of(layers),
            "op": Strings.of(ops),
            "path": Strings.of(paths),
            "engine": Strings.of(["dcp"] * len(rows)),
            "rank": np.full(len(rows), rank),
            "start_ns": np.array(starts),
            "end_ns": Ints(np.array(starts) + np.where(is_span, 5, 1), np.full(len(rows), True)),
            "step": Ints(np.array(steps), np.full(len(rows), True)),
        },
        Metadata(
            epoch_realtime_ns=epoch_ns,
            hosts=(Host(f"host{rank}", f"boot{rank}"),),
            processes=(Process(rank),),
        ),
    )


def steps_of(trace: Trace) -> set[tuple[int, str, str, int]]:
    columns = (trace.ints("rank").tolist(), trace.strings("op"), trace.strings("path"))
    return set(zip(*columns, trace.ints("step").tolist(), strict=True))  # type: ignore[arg-type]


def test_a_save_of_one_host_alone_does_not_shift_the_steps_of_another() -> None:
    """Requests go with the save or load they were made in, though both have one number."""
    first = part(
        0,
        [
            ("span", "save", "/a", 0, 0), ("request", "write", "/a/f", 1, 0),
            ("span", "save", "/x", 10, 1), ("request", "write", "/x/f", 11, 1),
            ("span", "save", "/b", 20, 2), ("request", "read", "/b/f", 21, 2),
            ("span", "load", "/b", 30, 0), ("request", "read", "/b/f", 31, 0),
        ],
    )  # fmt: skip
    second = part(
        1,
        [
            ("span", "save", "/a", 1, 0), ("request", "write", "/a/g", 2, 0),
            ("span", "save", "/b", 21, 1), ("request", "open", "/b/g", 22, 1),
            ("span", "load", "/y", 27, 0), ("request", "open", "/y/g", 28, 0),
            ("span", "load", "/b", 33, 1), ("request", "open", "/b/g", 34, 1),
        ],
    )  # fmt: skip
    assert steps_of(merge_traces([first, second])) == {
        (0, "save", "/a", 0), (0, "write", "/a/f", 0),
        (1, "save", "/a", 0), (1, "write", "/a/g", 0),
        (0, "save", "/x", 1), (0, "write", "/x/f", 1),
        (0, "save", "/b", 2), (0, "read", "/b/f", 2), (1, "save", "/b", 2), (1, "open", "/b/g", 2),
        (1, "load", "/y", 0), (1, "open", "/y/g", 0),
        (0, "load", "/b", 1), (0, "read", "/b/f", 1), (1, "load", "/b", 1), (1, "open", "/b/g", 1),
    }  # fmt: skip


def test_numbers_that_were_given_stay() -> None:
    first = part(0, [("span", "save", "/a", 0, 100), ("span", "save", "/b", 10, 200)])
    second = part(1, [("span", "save", "/c", 10, 200), ("span", "load", "/a", 20, 7)])
    assert steps_of(merge_traces([first, second])) == {
        *((0, "save", "/a", 100), (0, "save", "/b", 200)),
        *((1, "save", "/c", 200), (1, "load", "/a", 7)),
    }


def test_a_folder_of_parts_has_the_same_steps_whatever_columns_are_read(tmp_path: Path) -> None:
    first = part(0, [("span", "save", "/x", 0, 0), ("span", "save", "/a", 10, 1)])
    second = part(1, [("span", "save", "/a", 11, 0)])
    for name, trace in (("0", first), ("1", second)):
        write_trace(trace, tmp_path / f"{name}.parquet")
    steps = read_trace(tmp_path).ints("step").tolist()
    assert steps == read_trace(tmp_path, columns=["step"]).ints("step").tolist() == [0, 1, 1]


def test_steps_of_clocks_that_nothing_joins_are_not_one() -> None:
    """Not even those of one number: it was chosen from each."""
    first = part(0, [("span", "save", "/a", 0, 1), ("span", "load", "/a", 10, 0)], epoch_ns=0)
    second = part(1, [("span", "save", "/a", 0, 1), ("span", "save", "/b", 10, 4)], epoch_ns=0)
    assert steps_of(merge_traces([first, second])) == {
        *((0, "save", "/a", 1), (0, "load", "/a", 0), (1, "save", "/a", 2), (1, "save", "/b", 5)),
    }


def test_steps_chosen_of_several_clocks_keep_their_numbers_where_they_differ() -> None:
    parts = [part(0, [("span", "save", "/a", 0, step)], epoch_ns=0) for step in (2, 0, 1)]
    assert steps_of(merge_traces(parts)) == {(0, "save", "/a", step) for step in range(3)}


def test_parts_chosen_from_one_trace_keep_its_steps() -> None:
    """Though names that differ by one could be those of ranks, and the first counts from 0."""
    parts = [part(3, [("span", "save", f"/a{step}", 10 * step, step)], 0) for step in range(3)]
    clock = replace(parts[0].metadata, clock="zero")
    merged = merge_traces([
        trace.with_metadata(replace(clock, history=(HistoryEntry("select", str(step)),)))
        for step, trace in enumerate(parts)
    ])  # fmt: skip
    assert steps_of(merged) == {(3, "save", f"/a{step}", step) for step in range(3)}
    assert merged.ints("start_ns").tolist() == [0, 10, 20]
