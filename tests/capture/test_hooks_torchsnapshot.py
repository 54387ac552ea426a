"""TorchSnapshot under the real library, against its files and against strace.

The engine writes from sets and names its slabs at random: what is compared has no order.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from iotrace.traces.check import check_trace

from .engine_job import Calls, EngineJob, Row, kernel_calls, run_engine_job, run_watched_engine_job
from .jobs.snapshot_ranks import state_tensors

SAVES = ("plain", "single", "slabs", "chunks", "async", "own")
READ_BIT_BY_BIT = {"plain": 5, "chunks": 6}  # steps
MIB = 1 << 20
RANKS = 4


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> EngineJob:
    """The finished job of snapshot_cases.py."""
    return run_engine_job(tmp_path_factory.mktemp("cases"), "snapshot_cases.py")


@pytest.fixture(scope="module")
def truth(cases: EngineJob) -> dict[str, Any]:
    """What the job says it saved, by tensor name."""
    loaded: dict[str, Any] = json.loads((cases.folder / "truth.json").read_text())
    return loaded


def rows_of(job: EngineJob, case: str, op: str) -> list[Row]:
    """Return the rows of the tensors of one snapshot, of its first save or load."""
    rows = job.rows("tensor", below=case, op=op)
    first = min(row["step"] for row in rows)
    return [row for row in rows if row["step"] == first and row["name"] != "all.object"]


@pytest.mark.parametrize("op", ["save", "load"])
@pytest.mark.parametrize("case", SAVES)
def test_every_tensor_lies_where_its_rows_say(
    cases: EngineJob, truth: dict[str, Any], case: str, op: str
) -> None:
    """In a file of its own, in a slab, in parts, or in an archive: the bytes are there."""
    rows = rows_of(cases, case, op)

    found = {name: bytearray(len(bytes.fromhex(truth[name]["bytes"]))) for name in truth}
    for row in rows:
        expected = truth[row["name"]]
        assert (row["dtype"], list(row["shape"])) == (expected["dtype"], expected["shape"])
        assert (row["engine"], row["device"]) == ("torchsnapshot", "cpu")
        first = row["tensor_offset"]
        found[row["name"]][first : first + row["length"]] = cases.bytes_at(row)
    assert {name: content.hex() for name, content in found.items()} == {
        name: expected["bytes"] for name, expected in truth.items()
    }
    assert sum(row["length"] for row in rows) == sum(map(len, found.values()))


def test_a_chunked_tensor_has_a_row_for_each_chunk(cases: EngineJob) -> None:
    """17 x 13 floats in chunks of about 300 bytes: rows 0-5, 6-11 and 12-16."""
    rows = [r for r in rows_of(cases, "chunks", "save") if r["name"] == "all.model.layer.weight"]

    assert len(rows) == 3
    assert sorted((row["tensor_offset"], row["length"]) for row in rows) == [
        (0, 312),
        (312, 312),
        (624, 260),
    ]


def test_slabs_hold_several_tensors(cases: EngineJob) -> None:
    """Many tensors in one file, one after another, is what the engine calls a slab."""
    rows = rows_of(cases, "plain", "save")
    slabs = Counter(row["path"] for row in rows if "/batched/" in row["path"])

    assert list(slabs.values()) == [8]
    extents = sorted((row["offset"], row["length"]) for row in rows if row["path"] in slabs)
    assert [offset for offset, _ in extents[1:]] == [sum(extent) for extent in extents[:-1]]
    singles = [row["path"] for row in rows_of(cases, "single", "save")]
    assert len(set(singles)) == len(singles) == 10


@pytest.mark.parametrize("case", READ_BIT_BY_BIT)
def test_a_part_that_is_read_bit_by_bit_has_a_row_for_each(
    cases: EngineJob, truth: dict[str, Any], case: str
) -> None:
    """`read_object` with a budget reads a tensor in tiles, each to its own place."""
    rows = cases.rows("tensor", below=case, op="load", step=READ_BIT_BY_BIT[case])

    assert {row["name"] for row in rows} == {"all.model.layer.weight"}
    assert len(rows) > 3
    rows.sort(key=lambda row: row["tensor_offset"])
    ends = [row["tensor_offset"] + row["length"] for row in rows]
    assert [row["tensor_offset"] for row in rows[1:]] == ends[:-1]
    stored = b"".join(map(cases.bytes_at, rows))
    assert stored.hex() == truth["all.model.layer.weight"]["bytes"]


def test_an_object_is_a_row_of_bytes(cases: EngineJob) -> None:
    """It takes a file of its own, though it has no shape."""
    for op in ("save", "load"):
        for row in cases.rows("tensor", name="all.object", op=op):
            assert (row["dtype"], row["shape"]) == ("uint8", (row["length"],))
            assert row["length"] == Path(row["path"]).stat().st_size


def test_each_snapshot_is_a_step(cases: EngineJob) -> None:
    """One taken in the background ends on another thread than it began on."""
    spans = [(row["op"], row["step"], Path(row["path"]).name) for row in cases.rows("span")]

    for op in ("save", "stage"):
        assert [span for span in spans if span[0] == op] == [
            (op, step, name) for step, name in enumerate(SAVES)
        ]
    loads = [span for span in spans if span[0] == "load"]
    names = (*SAVES[:-1], *READ_BIT_BY_BIT, SAVES[-1])
    assert loads == [("load", step, name) for step, name in enumerate(names)]
    (stage,), (save,) = (cases.rows("span", below="async", op=op) for op in ("stage", "save"))
    assert stage["thread"] != save["thread"]
    assert save["start_ns"] <= stage["start_ns"] < stage["end_ns"] <= save["end_ns"]
    (wait,) = cases.rows("span", below="async", op="wait")
    assert (wait["step"], wait["thread"]) == (stage["step"], stage["thread"])
    assert stage["end_ns"] <= wait["start_ns"] < save["end_ns"] <= wait["end_ns"]


def test_requests_of_pool_threads_know_their_step(cases: EngineJob) -> None:
    """The engine writes and reads on threads of a pool, which have no span."""
    steps = {row["path"]: row["step"] for row in cases.rows("span", op="save")}
    loads: dict[str, set[int]] = {}
    for row in cases.rows("span", op="load"):
        loads.setdefault(row["path"], set()).add(row["step"])
    main = cases.rows("span", op="load")[0]["thread"]
    for op in ("write", "read"):
        moved = [row for row in cases.rows("request", op=op) if "json" not in row["path"]]
        assert len(moved) > 20 and all(row["thread"] != main for row in moved)
        assert {row["engine"] for row in moved} == {"torchsnapshot"}
        for row in moved:
            path = str(cases.folder / cases.name(row).split("/")[0])
            assert row["step"] in (loads[path] if op == "read" else {steps[path]})


def test_no_row_is_of_an_archive_in_memory(cases: EngineJob) -> None:
    """torch.save is used for what has no plain bytes: its rows would name a tensor twice."""
    tensors = cases.trace.layer("tensor")

    assert set(tensors.strings("engine")) == {"torchsnapshot"}
    assert None not in tensors.strings("path")
    assert check_trace(cases.trace) == []
    assert cases.job.notes("hook", bound=False) == []


def by_case(calls: dict[str, Calls]) -> Counter[tuple[str, Calls]]:
    """Count the files by the snapshot they are in and what was done to them."""
    return Counter((name.split("/")[0], call) for name, call in calls.items())


def test_cases_are_what_the_kernel_saw(cases: EngineJob) -> None:
    """Calls and bytes of each file equal strace's, whatever the slabs are called."""
    seen = by_case(kernel_calls(cases, "snapshot_cases.py"))

    assert seen.total() == 39
    assert by_case(cases.calls()) == seen


def test_batching_makes_three_files_of_thirty_three(tmp_path: Path) -> None:
    """32 x 4 MiB: slabs stay below 128 MiB; without them each tensor is a file."""
    job = run_watched_engine_job(tmp_path, "snapshot_batches.py")
    calls = job.calls()

    def sizes(case: str) -> list[int]:
        return sorted(
            call.bytes_written
            for name, call in calls.items()
            if name.startswith(f"{case}/") and "metadata" not in name
        )

    assert sizes("slabs") == [4 * MIB, 31 * 4 * MIB]
    assert sizes("single") == [4 * MIB] * 32
    assert {call.writes for call in calls.values()} == {1}
    reads = [call.reads for name, call in calls.items() if name.startswith("slabs/")]
    assert sum(reads) == 4  # of the metadata two, the second finds the end
    requests = job.rows("request", below="slabs")
    assert not [row for row in requests if row["op"] in ("sync", "rename")]
    written = [row["path"] for row in requests if row["op"] == "write"]
    assert written[-1].endswith("/.snapshot_metadata")
    assert by_case(calls) == by_case(job.kernel)


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> EngineJob:
    """The finished job of snapshot_ranks.py on several ranks."""
    return run_engine_job(tmp_path_factory.mktemp("ranks"), "snapshot_ranks.py", ranks=RANKS)


def test_each_part_is_saved_once(ranks: EngineJob) -> None:
    """Shards come from their owners, replicas and their chunks from one rank each."""
    rows = ranks.rows("tensor", op="save")
    world = len({row["rank"] for row in ranks.rows("span", op="save")})
    for name, tensor in state_tensors().items():
        full = f"part.{name}" if name == "rows" else f"all.{name}"
        parts = sorted(
            (row for row in rows if row["name"] == full), key=lambda row: row["tensor_offset"]
        )
        assert b"".join(map(ranks.bytes_at, parts)) == tensor.numpy().tobytes(), full
        ends = [row["tensor_offset"] + row["length"] for row in parts]
        assert [row["tensor_offset"] for row in parts] == [0, *ends[:-1]]
        assert {row["shape"] for row in parts} == {tuple(tensor.shape)}
    shards = sorted(
        (row["tensor_offset"], row["rank"]) for row in rows if row["name"] == "part.rows"
    )
    assert shards == [(rank * (192 // world), rank) for rank in range(world)]
    own = {row["rank"]: ranks.bytes_at(row) for row in rows if row["name"] == "part.own"}
    assert own == {rank: np.full(3, rank).tobytes() for rank in range(world)}


def test_every_rank_is_there_and_nothing_twice(ranks: EngineJob) -> None:
    """A rank that is missing, or counted twice, falsifies every sum."""
    spans = {op: [row["rank"] for row in ranks.rows("span", op=op)] for op in ("save", "load")}
    world = len(spans["save"])

    assert world == RANKS
    assert sorted(spans["save"]) == sorted(spans["load"]) == list(range(world))
    loads = Counter((row["name"], row["rank"]) for row in ranks.rows("tensor", op="load"))
    assert all(loads[f"all.{name}", rank] for name in ("same0", "same1") for rank in range(world))
    for row in ranks.rows("tensor", op="load"):
        whole = state_tensors().get(row["name"].split(".")[1])
        if whole is not None:
            first, last = row["tensor_offset"], row["tensor_offset"] + row["length"]
            assert ranks.bytes_at(row) == whole.numpy().tobytes()[first:last]
    for name, calls in ranks.calls().items():
        assert calls.bytes_written == (ranks.folder / name).stat().st_size
    assert check_trace(ranks.trace) == []
