"""torch.distributed.checkpoint under the real library, against its files and against strace."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from iotrace.traces.check import check_trace

from .engine_job import EngineJob, Row, kernel_calls, run_engine_job, run_watched_engine_job
from .jobs.dcp_ranks import state_tensors

CASES = ("plain", "threads", "each", "fsspec", "safetensors", "async", "async2", "own", "staged")
MANY = 2000
RANKS = 4


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> EngineJob:
    """The finished job of dcp_cases.py."""
    return run_engine_job(tmp_path_factory.mktemp("cases"), "dcp_cases.py")


@pytest.fixture(scope="module")
def truth(cases: EngineJob) -> dict[str, dict[str, Any]]:
    """What the job says it saved: by checkpoint, by tensor name."""
    loaded: dict[str, dict[str, Any]] = json.loads((cases.folder / "truth.json").read_text())
    return loaded


def tensor_rows(job: EngineJob, case: str, op: str) -> list[Row]:
    """Return the rows of tensors, without that of the object that is none."""
    return [row for row in job.rows("tensor", below=case, op=op) if row["name"] != "object"]


@pytest.mark.parametrize("case", CASES)
def test_every_saved_tensor_lies_where_its_row_says(
    cases: EngineJob, truth: dict[str, dict[str, Any]], case: str
) -> None:
    """Its bytes are in an archive in a file of archives: only an exact extent is of use."""
    rows = tensor_rows(cases, case, "save")

    assert sorted(row["name"] for row in rows) == sorted(truth[case])
    for row in rows:
        expected = truth[case][row["name"]]
        assert (row["dtype"], list(row["shape"])) == (expected["dtype"], expected["shape"])
        assert cases.bytes_at(row).hex() == expected["bytes"], row
        assert (row["engine"], row["device"], row["tensor_offset"]) == ("dcp", "cpu", 0)


@pytest.mark.parametrize("case", ["plain", "threads"])
def test_loaded_tensors_lie_where_the_saved_ones_do(
    cases: EngineJob, truth: dict[str, dict[str, Any]], case: str
) -> None:
    """Both halves of a checkpoint's life are told in the same places."""
    step = cases.rows("span", below=case, op="load")[0]["step"]
    loaded = [row for row in tensor_rows(cases, case, "load") if row["step"] == step]
    saved = {row["name"]: row for row in tensor_rows(cases, case, "save")}

    # An empty tensor has no part that could be read.
    assert sorted(row["name"] for row in loaded) == sorted(set(truth[case]) - {"empty"})
    for row in loaded:
        same = ("path", "offset", "length", "dtype", "shape", "tensor_offset")
        assert [row[key] for key in same] == [saved[row["name"]][key] for key in same]


def test_a_load_of_one_tensor_has_one_row(cases: EngineJob) -> None:
    """What was not read is not said to have been."""
    last = max(span["step"] for span in cases.rows("span", op="load"))
    rows = cases.rows("tensor", op="load", step=last)

    assert [row["name"] for row in rows] == ["model.weight"]


def test_an_object_is_a_row_of_bytes(cases: EngineJob) -> None:
    """It takes room in the file, though it has no shape of its own."""
    for op in ("save", "load"):
        (row,) = cases.rows("tensor", name="object", op=op)

        assert (row["dtype"], row["shape"]) == ("uint8", (row["length"],))
        assert cases.bytes_at(row).startswith(b"PK\x03\x04")


def test_each_save_and_load_is_a_step(cases: EngineJob) -> None:
    """An asynchronous save is a copy and a save of one step, on two threads."""
    spans = [(row["op"], row["step"], Path(row["path"]).name) for row in cases.rows("span")]

    assert [span for span in spans if span[0] == "load"] == [
        ("load", 0, "plain"),
        ("load", 1, "threads"),
        ("load", 2, "plain"),
    ]
    assert [span for span in spans if span[0] == "save"] == [
        ("save", step, name) for step, name in enumerate(CASES)
    ]
    assert [span for span in spans if span[0] == "stage"] == [
        ("stage", 5, "async"),
        ("stage", 6, "async2"),
        ("stage", 8, "staged"),
    ]
    (stage,), (save,) = (cases.rows("span", below="async", op=op) for op in ("stage", "save"))
    assert stage["thread"] != save["thread"]


@pytest.mark.parametrize("case", ["async", "async2"])
def test_the_wait_for_an_asynchronous_save_is_a_span_of_its_step(
    cases: EngineJob, case: str
) -> None:
    """It holds up the job as the copy did: time that is the save's, on the caller's thread."""
    stage, save, wait = (
        cases.rows("span", below=case, op=op)[0] for op in ("stage", "save", "wait")
    )

    assert len(cases.rows("span", below=case, op="wait")) == 1
    assert (wait["step"], wait["thread"]) == (stage["step"], stage["thread"])
    assert stage["end_ns"] <= wait["start_ns"] < save["end_ns"] <= wait["end_ns"]


def test_both_waits_for_a_copy_and_a_save_in_the_background_are_spans(cases: EngineJob) -> None:
    """With a stager of its own a job waits for the copy, and later for the save."""
    (stage,) = cases.rows("span", below="staged", op="stage")
    waits = cases.rows("span", below="staged", op="wait")

    assert [(wait["step"], wait["thread"]) for wait in waits] == [(8, stage["thread"])] * 2
    assert waits[0]["end_ns"] <= waits[1]["start_ns"]


def test_requests_of_every_thread_know_their_step(cases: EngineJob) -> None:
    """Writers on threads of the engine's own have no span of theirs."""
    steps = {row["path"]: row["step"] for row in cases.rows("span", op="save")}
    writes = [row for row in cases.rows("request", op="write") if "json" not in row["path"]]

    assert len({row["thread"] for row in writes}) >= 4
    for row in writes:
        folder = str(cases.folder / cases.name(row).split("/")[0])
        assert (row["engine"], row["step"]) == ("dcp", steps[folder]), row


def test_no_row_is_of_an_archive_in_memory(cases: EngineJob) -> None:
    """torch.save and torch.load are used inside: their rows would name each tensor twice."""
    tensors = cases.trace.layer("tensor")

    assert set(tensors.strings("engine")) == {"dcp"}
    assert None not in tensors.strings("path")
    assert check_trace(cases.trace) == []
    assert cases.job.notes("hook", bound=False) == []


def test_cases_are_what_the_kernel_saw(cases: EngineJob) -> None:
    """Calls and bytes per file equal strace's; uuids make no difference to lengths.

    Only the metadata of several writer threads differs from run to run, by the order in which
    they finish: there the calls are compared, not the bytes.
    """
    seen, calls = kernel_calls(cases, "dcp_cases.py"), cases.calls()

    assert len(seen) > 20
    for path in ("threads/.metadata.tmp", "threads/.metadata"):
        ours, kernels = calls.pop(path), seen.pop(path)
        assert (ours.reads, ours.writes) == (kernels.reads, kernels.writes)
    assert calls == seen


def test_two_thousand_tensors_are_three_writes_each(tmp_path: Path) -> None:
    """The engine's worst case, to the call: 6,007 writes, 10,398 reads of five times the bytes."""
    job = run_watched_engine_job(tmp_path, "dcp_many.py")
    calls = job.calls()

    assert calls == job.kernel
    assert sum(call.writes for call in calls.values()) == 3 * MANY + 7
    assert sum(call.reads for call in calls.values()) == 10_398
    data = calls["many/__0_0.distcp"]
    assert data.bytes_written == (job.folder / "many/__0_0.distcp").stat().st_size
    assert data.bytes_read > 3.5 * data.bytes_written
    for op in ("save", "load"):
        rows = job.rows("tensor", op=op)
        assert len({row["name"] for row in rows}) == len(rows) == MANY
        assert {row["length"] for row in rows} == {32 * 32 * 4}


def test_the_metadata_is_synced_before_its_bytes_are_written(cases: EngineJob) -> None:
    """An fsync of what is still in Python's buffer protects nothing; the order shows it."""
    requests = cases.rows("request", below="plain")
    metadata = [row for row in requests if row["path"].endswith(".metadata.tmp")]
    data = [row for row in requests if row["path"].endswith(".distcp")]

    ops = [row["op"] for row in metadata if row["op"] not in ("close", "stat")]
    assert ops == ["open", "sync", "write", "rename"]
    written = [row["op"] for row in data if row["op"] in ("write", "sync")]
    assert written[-1] == "sync" and set(written[:-1]) == {"write"}


def test_files_that_threads_load_by_another_engine_are_of_the_same_step(tmp_path: Path) -> None:
    """Files of Hugging Face are opened by safetensors, several at once."""
    job = run_engine_job(tmp_path, "dcp_huggingface.py")
    rows = job.rows("tensor", op="load")
    spans = job.rows("span", op="load")

    assert [(row["engine"], row["step"]) for row in spans] == [("dcp", 0)]
    assert sorted((row["name"], row["step"]) for row in rows) == [(f"w{n}", 0) for n in range(4)]
    assert {row["thread"] for row in rows}.isdisjoint({row["thread"] for row in spans})
    for row in rows:
        number = float(row["name"][1:])
        assert np.frombuffer(job.bytes_at(row), np.float32).tolist() == [number] * 5


@pytest.fixture(scope="module", params=["torchrun", "mpirun"])
def ranks(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> EngineJob:
    """The finished job of dcp_ranks.py on 4 ranks; torchrun's is watched by strace too."""
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "torchrun":
        return run_watched_engine_job(folder, "dcp_ranks.py", ranks=RANKS)
    if shutil.which(request.param) is None:
        pytest.skip("mpirun is not installed: openmpi-bin has it")
    return run_engine_job(folder, "dcp_ranks.py", ranks=RANKS, launcher=request.param)


def shards(world: int) -> dict[tuple[str, int], bytes]:
    """Return the bytes of each part of each tensor, by name and the place of its first byte."""
    found = {("plain", 0): np.arange(6).tobytes()}
    for name, tensor in state_tensors().items():
        whole = tensor.numpy()
        axis = {"same": None, "colu": 1}.get(name[:4], 0)
        chunks = [whole]
        if axis is not None:
            rows = -(-whole.shape[axis] // world)  # torch fills the first ranks
            edges = range(rows, whole.shape[axis], rows)
            chunks = np.split(whole, edges, axis)
        row_bytes = whole.strides[axis or 0]
        first = 0
        for chunk in chunks:
            found[name, first] = np.ascontiguousarray(chunk).tobytes()
            first += chunk.shape[axis or 0] * row_bytes
    return found


def world_size(job: EngineJob) -> int:
    """Return how many ranks took part."""
    return len({row["rank"] for row in job.rows("span", op="save")})


def test_each_part_is_saved_once_by_the_rank_that_wrote_it(ranks: EngineJob) -> None:
    """Shards come from their owners; of replicas, one rank writes each."""
    rows = [row for row in ranks.rows("tensor", op="save") if row["name"] != "object"]
    expected = shards(world_size(ranks))

    assert Counter((row["name"], row["tensor_offset"]) for row in rows) == Counter(expected.keys())
    for row in rows:
        assert ranks.bytes_at(row) == expected[row["name"], row["tensor_offset"]], row
        assert f"__{row['rank']}_0.distcp" in row["path"]


def test_each_rank_loads_its_parts(ranks: EngineJob) -> None:
    """Shards are read by their owners, replicas by all, from the files of all ranks."""
    world = world_size(ranks)
    expected = shards(world)
    rows = ranks.rows("tensor", op="load")
    counts = Counter((row["name"], row["tensor_offset"]) for row in rows)

    assert counts == {
        part: world if part[0].startswith(("same", "plain")) else 1 for part in expected
    }
    for row in rows:
        assert ranks.bytes_at(row) == expected[row["name"], row["tensor_offset"]], row
    whole = state_tensors()["rows0"]
    assert {row["shape"] for row in rows if row["name"] == "rows0"} == {tuple(whole.shape)}


def test_every_rank_is_there_and_nothing_twice(ranks: EngineJob) -> None:
    """A rank that is missing, or counted twice, falsifies every sum."""
    world = world_size(ranks)

    assert world == RANKS
    for op in ("save", "load"):
        spans = [(row["rank"], row["step"]) for row in ranks.rows("span", op=op)]
        assert sorted(spans) == [(rank, 0) for rank in range(world)]
    for name, calls in ranks.calls().items():
        if name.endswith(".distcp"):
            assert calls.bytes_written == (ranks.folder / name).stat().st_size
    writers = {row["rank"]: row["path"] for row in ranks.rows("request", op="write")}
    assert set(writers) == set(range(world))
    assert check_trace(ranks.trace) == []
    whole = ranks.trace.metadata.completeness
    unseen = [(p.unseen_bytes_read, p.unseen_bytes_written) for p in whole.processes]
    assert set(unseen) == {(0, 0)}
    assert whole.dropped_records == whole.unknown_descriptors == whole.torn_records == 0
    files = [f for f in whole.files if Path(f.path).is_relative_to(ranks.folder)]
    assert files and all(f.complete for f in files)


@pytest.mark.parametrize("ranks", ["torchrun"], indirect=True)  # mpirun's do the same calls
def test_the_kernel_saw_what_the_ranks_did(ranks: EngineJob) -> None:
    """Calls and bytes of each file, over all ranks, as strace counts them."""
    assert len([name for name in ranks.kernel if name.endswith(".distcp")]) == RANKS
    assert ranks.calls() == ranks.kernel


def test_a_saving_process_that_is_ended_by_a_signal_has_its_rows(tmp_path: Path) -> None:
    """torch ends the process that saves with SIGTERM: nothing of it may wait for an exit."""
    job = run_engine_job(tmp_path, "dcp_process.py")

    assert "was killed" in " ".join(job.trace.metadata.completeness.problems())
    for step in (0, 1):
        below = f"step{step}"
        (stage,), (save,) = (job.rows("span", below=below, op=op) for op in ("stage", "save"))
        assert (stage["step"], save["step"]) == (step, step)
        assert stage["process"] != save["process"]
        tensors = job.rows("tensor", below=below, op="save", process=save["process"])
        assert sorted(row["name"] for row in tensors) == sorted(f"t{i}" for i in range(20))
        for row in tensors:
            assert job.bytes_at(row) == np.full(row["shape"], step, np.float32).tobytes()
    written = sum(call.bytes_written for call in job.calls().values())
    files = [path for path in job.folder.rglob("*") if path.is_file() and path.name != "store"]
    assert written - job.calls()["store"].bytes_written == sum(p.stat().st_size for p in files)
