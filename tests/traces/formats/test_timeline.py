"""Timelines for Perfetto and configurations for DLIO: what they say is in the trace, and right."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from iotrace.traces.errors import TraceFormatError
from iotrace.traces.formats import dlio, perfetto
from iotrace.traces.reader import read_trace
from iotrace.traces.trace import Ints, Strings, Trace
from tests.traces.conftest import ODD_PATH, small_trace

CORPUS = Path(__file__).parents[3] / "traces" / "corpus"
NAMES = sorted(path.stem for path in CORPUS.glob("*.parquet"))
# What the Trace Event Format asks of each kind of event: its fields, and their types.
NUMBER = int | float
TYPES: dict[str, Any] = {
    **{"ph": str, "name": str, "cat": str, "s": str, "args": dict},
    **{"pid": int, "tid": int, "id": int, "ts": NUMBER, "dur": NUMBER},
}
NEEDED = {
    "M": {"name", "pid", "args"},
    "X": {"name", "cat", "pid", "tid", "ts", "dur"},
    "b": {"name", "cat", "pid", "tid", "ts", "id"},
    "e": {"name", "cat", "pid", "tid", "ts", "id"},
    "i": {"name", "cat", "pid", "tid", "ts", "s"},
    "C": {"name", "pid", "ts", "args"},
}
# Of metadata: what each name's argument is called, and of what type.
DESCRIBED = {
    "process_name": ("name", str),
    "thread_name": ("name", str),
    "process_sort_index": ("sort_index", int),
}


def check_event(event: dict[str, Any]) -> None:
    """Hold one event against the format."""
    assert NEEDED[event["ph"]] <= event.keys() <= TYPES.keys(), event
    for key, value in event.items():
        assert isinstance(value, TYPES[key]) and not isinstance(value, bool), event
    assert event.get("ts", 0) >= 0 and event.get("dur", 0) >= 0, event
    assert 0 < event["pid"] < 2**31 and 0 < event.get("tid", 1) < 2**31, event
    if event["ph"] == "M":
        argument, kind = DESCRIBED[event["name"]]
        assert isinstance(event["args"][argument], kind), event
    elif event["ph"] == "C":  # a track for each argument
        assert event["args"] and all(isinstance(v, NUMBER) for v in event["args"].values()), event
    elif event["ph"] == "i":
        assert event["s"] in ("t", "p", "g"), event


def timeline(trace: Trace, tmp_path: Path) -> list[dict[str, Any]]:
    """Export, and check what every reader of the format relies on."""
    path = tmp_path / "t.json"
    perfetto.write(trace, path)
    content = json.loads(path.read_bytes().decode("ascii"))
    assert content.keys() == {"displayTimeUnit", "traceEvents"}
    assert content["displayTimeUnit"] in ("ms", "ns")
    events: list[dict[str, Any]] = content["traceEvents"]
    begun: Counter[tuple[Any, ...]] = Counter()
    ends: defaultdict[tuple[int, int], list[float]] = defaultdict(list)
    for event in events:
        check_event(event)
        key = event.get("cat"), event.get("id"), event.get("name"), event["pid"]
        if event["ph"] == "b":
            begun[key] += 1
        elif event["ph"] == "e":
            begun[key] -= 1
        elif event["ph"] == "X":  # slices of a track come in order and nest
            stack = ends[event["pid"], event["tid"]]
            while stack and stack[-1] <= event["ts"] + 1e-6:
                stack.pop()
            assert not stack or event["ts"] + event["dur"] <= stack[-1] + 1e-6, event
            stack.append(event["ts"] + event["dur"])
    assert not any(begun.values())
    return events


@pytest.mark.parametrize("name", NAMES)
def test_a_timeline_has_each_row_once(name: str, tmp_path: Path) -> None:
    """Requests, spans and tensors of a real trace; one process for each rank."""
    trace = read_trace(CORPUS / f"{name}.parquet")
    events = timeline(trace, tmp_path)
    slices = Counter(event["cat"] for event in events if event["ph"] in "Xbi")
    layers = Counter(trace.strings("layer"))
    assert slices == {k: layers[k] for k in ("request", "span", "tensor") if layers[k]}
    titles = [e["args"]["name"] for e in events if e["name"] == "process_name"]
    assert len(titles) == len(np.unique(trace.ints("process")))
    if name == "dcp":
        assert [title.split(" (")[0] for title in titles] == ["rank 0", "rank 1"]
    written = sum(
        event["args"]["result"]
        for event in events
        if event.get("cat") == "request"
        and event["name"].startswith("write ")
        and event["ph"] in "Xb"
    )
    rows = trace.where(trace.row_mask(layer="request", op="write"))
    assert written == int(rows.ints("result").sum())


def test_overlapping_requests_are_counted_in_flight_and_do_not_nest(tmp_path: Path) -> None:
    """Two of one thread at a time are asynchronous; the counter comes back to zero."""
    trace = small_trace(
        4,
        start_ns=np.array([0, 10, 20, 50]),
        end_ns=Ints(np.array([30, 25, 40, 0]), np.array([True, True, True, False])),
        path=Strings.constant(ODD_PATH, 4),
    )
    events = timeline(trace, tmp_path)
    assert Counter(event["ph"] for event in events if event["ph"] in "Xbei") == {
        **{"X": 2, "b": 1, "e": 1, "i": 1}
    }
    levels = [(e["ts"], e["args"]["requests"]) for e in events if e["name"] == "writes in flight"]
    assert levels == [(0.0, 1), (0.01, 2), (0.02, 3), (0.025, 2), (0.03, 1), (0.04, 0)]


def test_a_configuration_tells_ranks_bytes_syncs_and_steps(tmp_path: Path) -> None:
    """Of the reference run of two ranks: each saved 15.7 MB, and synced."""
    trace = read_trace(CORPUS / "dcp.parquet")
    unsaid = dlio.write(trace, tmp_path / "t.yaml")
    text = (tmp_path / "t.yaml").read_text()
    config = yaml.safe_load(text)
    written = trace.where(trace.row_mask(layer="request", op="write"))
    size = round(int(written.ints("result").sum()) / 2)
    assert config["model"]["model_size"] == config["checkpoint"]["model_size"] == size
    assert "mpirun -n 2 " in text
    assert config["checkpoint"]["fsync"] is True
    assert config["checkpoint"]["num_checkpoints_write"] == 1
    assert config["checkpoint"]["num_checkpoints_read"] == 1
    assert config["workflow"] == {"generate_data": False, "train": False, "checkpoint": True}
    assert any("ranks differ" in sentence for sentence in unsaid)


def test_the_launcher_is_no_rank_and_a_load_is_counted_once(tmp_path: Path) -> None:
    """Two ranks save 100 bytes twice each and load once; torchrun wrote 4 bytes of its own."""
    trace = small_trace(
        7,
        op=Strings.of(["write"] * 5 + ["read"] * 2),
        start_ns=np.array([0, 10, 20, 1_000, 1_010, 2_000, 2_010]),
        step=Ints(np.array([0, 0, 0, 1, 1, 2, 2]), np.arange(7) > 0),
        rank=np.array([-1, 0, 1, 0, 1, 0, 1]),
        process=np.array([0, 1, 2, 1, 2, 1, 2]),
        path=Strings.of(["/tmp/error.json", *(["/a", "/b"] * 3)]),
        file=np.array([0, 1, 2, 1, 2, 1, 2]),
        result=np.array([4, *[100] * 6]),
    )
    dlio.write(trace, tmp_path / "t.yaml")
    text = (tmp_path / "t.yaml").read_text()
    config = yaml.safe_load(text)["checkpoint"]
    assert "mpirun -n 2 " in text
    assert config["model_size"] == 100
    assert (config["num_checkpoints_write"], config["num_checkpoints_read"]) == (2, 1)


def test_two_steps_tell_the_time_between_them(tmp_path: Path) -> None:
    """Bytes are those of one checkpoint; a trace that saves nothing has no configuration."""
    trace = small_trace(
        4,
        start_ns=np.array([0, 1, 5_000_000_000, 5_000_000_001]),
        step=Ints(np.array([0, 0, 1, 1]), np.ones(4, np.bool_)),
        length=np.full(4, 100),
        result=np.full(4, 100),
    )
    dlio.write(trace, tmp_path / "t.yaml")
    config = yaml.safe_load((tmp_path / "t.yaml").read_text())
    assert config["model"]["model_size"] == 200
    assert config["checkpoint"]["time_between_checkpoints"] == 5.0
    assert config["checkpoint"]["num_checkpoints_write"] == 2
    assert config["checkpoint"]["fsync"] is False
    empty = small_trace(1, op=Strings.of(["read"]))
    with pytest.raises(TraceFormatError, match="saves nothing"):
        dlio.write(empty, tmp_path / "u.yaml")
