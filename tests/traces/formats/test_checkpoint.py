"""Checkpoints as traces: what their indexes say is what capture saw being written."""

from __future__ import annotations

import json
import os
import pickle
import struct
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
import torch.distributed.checkpoint as dcp

from iotrace.replay.build import plan_from_trace
from iotrace.traces.check import check_trace
from iotrace.traces.errors import PlanError, TraceFormatError
from iotrace.traces.formats import checkpoint
from iotrace.traces.formats.pickled import Global, Object, Pairs, parse
from iotrace.traces.formats.source import Source
from iotrace.traces.reader import read_trace
from iotrace.traces.trace import Trace
from tests.tools.command import iotrace

JOB = Path(__file__).parent / "jobs" / "checkpoints.py"


class Row(NamedTuple):
    """A tensor row."""

    path: str | None
    offset: int
    length: int
    name: str | None
    dtype: str | None
    shape: tuple[int, ...] | None
    device: str | None
    tensor_offset: int


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of checkpoints of one state, and the trace of how they were written."""
    folder = tmp_path_factory.mktemp("saved")
    (folder / "files").mkdir()
    job = (sys.executable, JOB, folder / "files")
    done = iotrace("capture", "-q", "-o", folder / "trace.parquet", "--", *job)
    assert done.returncode == 0, done.stderr
    return folder


def tensor_rows(trace: Trace, engine: str, op: str = "save") -> list[Row]:
    """Return the tensor rows of one engine that have a place in a file, sorted."""
    rows = trace.where(trace.row_mask(layer="tensor", op=op))
    columns = zip(
        rows.strings("path"),
        rows.ints("offset").tolist(),
        rows.ints("length").tolist(),
        rows.strings("name"),
        rows.strings("dtype"),
        rows.shapes(),
        rows.strings("device"),
        rows.ints("tensor_offset").tolist(),
        strict=True,
    )
    own = zip(rows.strings("engine"), columns, strict=True)
    return sorted((Row(*row) for name, row in own if name == engine), key=repr)


@pytest.mark.parametrize("engine", ["torch.save", "safetensors", "dcp", "torchsnapshot"])
def test_a_checkpoint_tells_what_capture_saw_of_its_save(saved: Path, engine: str) -> None:
    """Two ways to know where tensors lie: the hooks, while they are written; the index, after."""
    captured = read_trace(saved / "trace.parquet")
    imported = checkpoint.read(saved / "files")

    assert checkpoint.looks_like(Source.of(saved / "files"))
    expected = tensor_rows(captured, engine)
    if engine == "safetensors":  # it is renamed into place
        expected = [
            row._replace(path=str(saved / "files" / "state.safetensors")) for row in expected
        ]
        expected.sort(key=repr)
    assert len(expected) >= 5
    assert tensor_rows(imported, engine) == expected
    assert tensor_rows(imported, engine, "load") == expected
    assert check_trace(imported) == []


@pytest.mark.parametrize("name", ["state.pt", "legacy.pt"])
def test_the_bytes_at_each_place_are_the_tensors(saved: Path, name: str) -> None:
    """An extent that is off by one is worse than none."""
    path = saved / "files" / name
    content = path.read_bytes()
    state = torch.load(path, weights_only=False)
    rows = {row.name: row for row in tensor_rows(checkpoint.read(path), "torch.save")}
    for name, tensor in (
        ("model.weight", state["model"]["weight"]),
        ("model.odd", state["model"]["odd"]),
        ("optimizer.1.1.deep", state["optimizer"][1][1]["deep"]),
        ("parameter", state["parameter"].detach()),
        ("sparse.values", state["sparse"]._values()),
    ):
        row = rows[name]
        stored = content[row.offset : row.offset + row.length]
        assert stored == bytes(tensor.contiguous().view(torch.uint8).numpy())
        assert row.shape == tuple(tensor.shape)


def test_ranks_of_a_sharded_checkpoint_are_known(tmp_path: Path) -> None:
    """The reference run: two ranks, each half of the rows of every tensor."""
    train = Path(__file__).parents[1] / "jobs" / "train.py"
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2")
    subprocess.run([sys.executable, *launcher, train, "dcp", tmp_path], check=True)
    trace = checkpoint.read(tmp_path / "step100")
    saves = trace.where(trace.row_mask(op="save"))
    assert len(saves) == 240
    assert [process.rank for process in trace.metadata.processes] == [0, 1]
    assert saves.ints("rank").tolist().count(1) == 120
    assert int(saves.ints("length").sum()) == 15_515_520
    weight = [row for row in tensor_rows(trace, "dcp") if row.name == "transformer.wte.weight"]
    assert sorted((row.shape, row.tensor_offset, row.length) for row in weight) == [
        ((1000, 192), 0, 192_000),
        ((1000, 192), 192_000, 192_000),
    ]


def header_file(path: Path, header: dict[str, object], data: int) -> None:
    """Write a file that begins with a JSON header."""
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(data))


def test_a_datastates_file_is_read_by_its_header(tmp_path: Path) -> None:
    """Written by hand from the engine's layout: header, tensors, a pickle that is left alone."""
    path = tmp_path / "step.ckpt"
    header = {
        "model|wte": {"dtype": "torch.bfloat16", "shape": [3, 4], "data_offsets": [0, 24]},
        "opt|0|avg": {"dtype": "torch.float32", "shape": [5], "data_offsets": [24, 44]},
        "datastates_metadata": {"data_offsets": [44, 60]},
    }
    header_file(path, header, 60)
    begin = path.stat().st_size - 60
    trace = checkpoint.read(path)
    assert tensor_rows(trace, "datastates-llm") == [
        Row(str(path), begin, 24, "model.wte", "bfloat16", (3, 4), "cpu", 0),
        Row(str(path), begin + 24, 20, "opt.0.avg", "float32", (5,), "cpu", 0),
    ]
    assert f"{begin + 16} of the files' {begin + 60} bytes belong to no tensor" in " ".join(
        trace.metadata.completeness.problems()
    )


def test_files_and_their_bytes_are_the_same_wherever_they_are_told(tmp_path: Path) -> None:
    """What convert says, the table and the JSON of show; the index counts among the bytes."""
    folder, out = tmp_path / "ckpt", tmp_path / "t.parquet"
    dcp.save({"w": torch.ones(100)}, checkpoint_id=folder, no_dist=True)
    done = iotrace("convert", folder, out)
    assert "on 1 file\n" in done.stderr
    assert "1 file," in iotrace("show", out).stdout
    told = json.loads(iotrace("show", out, "--json", "-").stdout)
    (file,) = told["files"]
    assert (file["path"], file["requests"]) == (str(folder / "__0_0.distcp"), 0)
    total = sum(path.stat().st_size for path in folder.iterdir())
    said = (
        f"{total - 400:,} of the files' {total:,} bytes belong to no tensor (1 index file included)"
    )
    assert said in told["completeness"]["notes"]


def test_a_tensor_trace_replays_by_its_tensors_and_says_so_otherwise(saved: Path) -> None:
    """The default layer has nothing to replay: the message names the one that has."""
    trace = checkpoint.read(saved / "files")
    plan = plan_from_trace(trace, "tensor")
    plan.validate()
    assert plan.counts().bytes_written == plan.counts().bytes_read > 0
    with pytest.raises(PlanError, match="add --layer tensor"):
        plan_from_trace(trace)


def test_strangers_in_a_folder_are_counted(saved: Path, tmp_path: Path) -> None:
    """A folder is rarely tidy; what is left out is told."""
    (tmp_path / "a.pt").write_bytes((saved / "files" / "net.pt").read_bytes())
    (tmp_path / "notes.txt").write_text("dear diary")
    problems = " ".join(checkpoint.read(tmp_path).metadata.completeness.problems())
    assert "1 file of no known format left out (10 bytes)" in problems
    assert str(tmp_path / "notes.txt") in problems


class Evil:
    """What a hostile checkpoint holds: a call."""

    def __reduce__(self) -> tuple[Callable[[str], object], tuple[str]]:
        return exec, ("raise SystemExit('executed')",)


def test_a_pipe_in_a_folder_is_not_waited_for(saved: Path, tmp_path: Path) -> None:
    """It counts as a file of no known format."""
    name = next((saved / "files").rglob("*.safetensors"))
    (tmp_path / "a.safetensors").write_bytes(name.read_bytes())
    os.mkfifo(tmp_path / "b.pt")
    done = iotrace("convert", tmp_path, tmp_path / "t.parquet", seconds=60)
    assert done.returncode == 0, done.stderr
    assert "1 file of no known format left out" in done.stderr


def test_nothing_in_a_pickle_is_executed(tmp_path: Path) -> None:
    """torch.load would have run it."""
    path = tmp_path / "evil.pt"
    tensor = {"w": torch.ones(3), "evil": Evil()}
    torch.save(tensor, path)
    assert [row.name for row in tensor_rows(checkpoint.read(path), "torch.save")] == ["w"]


def test_a_pickle_is_a_tree_of_calls() -> None:
    """Every container, and objects with state, in all protocols."""
    value = {"a": [1, (2.5, "x")], "b": b"y", 3: {None, True}}
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        tree = parse(pickle.dumps(value, protocol))
        assert isinstance(tree, Pairs)
        found = dict(tree)
        assert found["a"] == [1, (2.5, "x")]
        thing = parse(pickle.dumps(Evil(), protocol))
        assert isinstance(thing, Object)
        assert isinstance(thing.maker, Global) and thing.maker.name == "exec"
        assert thing.arguments == ("raise SystemExit('executed')",)


def test_a_pickle_that_holds_itself_many_times_over_ends(tmp_path: Path) -> None:
    """Forty levels of [x, x] are 2^40 paths to one leaf."""
    node: list[object] = [1]
    for _ in range(40):
        node = [node, node]
    cycle: list[object] = []
    cycle.append(cycle)
    torch.save({"deep": node, "cycle": cycle, "w": torch.ones(2)}, tmp_path / "a.pt")
    assert [r.name for r in tensor_rows(checkpoint.read(tmp_path), "torch.save")] == ["w"]


@pytest.mark.parametrize("damage", ["cut", "no pickle", "bad pickle", "bad header", "escape"])
def test_a_damaged_checkpoint_is_one_error_that_names_it(damage: str, tmp_path: Path) -> None:
    """Cut short by a kill, or made to confuse."""
    path = tmp_path / "a.pt"
    torch.save({"w": torch.ones(100)}, path)
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:-100])
    elif damage == "bad header":
        entry = {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}
        header_file(path, {"w": entry}, 4)
    elif damage == "escape":
        path.unlink()
        entry = {"type": "Tensor", "location": "../../etc/passwd", "serializer": "buffer_protocol"}
        entry |= {"dtype": "torch.float32", "shape": [1], "byte_range": None}
        path = tmp_path / ".snapshot_metadata"
        path.write_text(json.dumps({"manifest": {"0/w": entry}}))
        path = tmp_path
    else:
        with zipfile.ZipFile(path, "w") as archive:
            name = "a/data.pkl" if damage == "bad pickle" else "a/other.pkl"
            archive.writestr(name, b"\x80\x02u. data.pkl")
    with pytest.raises(TraceFormatError, match=f"{path} is a damaged checkpoint"):
        checkpoint.read(path)
