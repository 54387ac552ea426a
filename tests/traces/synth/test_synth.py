"""Traces without a run: published sizes, and layouts that are those of the real engines."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path

import pytest
import torch
import torch.distributed.checkpoint as dcp
import torchsnapshot
from safetensors.torch import save_file

from iotrace.replay.build import plan_from_trace
from iotrace.traces.check import check_trace
from iotrace.traces.errors import TraceFormatError
from iotrace.traces.formats import checkpoint
from iotrace.traces.reader import read_trace
from iotrace.traces.stores import CORPUS
from iotrace.traces.summary import summarize
from iotrace.traces.synth.layouts import LAYOUTS
from iotrace.traces.synth.models import ITEM_BYTES, MODELS, Model, Tensor, shard
from iotrace.traces.synth.synth import synthesize
from iotrace.traces.trace import Trace

# As published with the weights.
PARAMETERS = {
    "llama-3.2-3b": 3_212_749_824,
    "llama-2-7b": 6_738_415_616,
    "mistral-7b": 7_241_732_096,
    "llama-3-8b": 8_030_261_248,
    "llama-2-13b": 13_015_864_320,
    "llama-3-70b": 70_553_706_496,
    "llama-3.1-405b": 405_853_388_800,
}
SMALL = "llama-3-8b", 1 / 1024  # 1,164 tensors of 0.1 GB


def test_the_models_have_their_published_sizes() -> None:
    """To the parameter."""
    assert {name: model.parameter_count() for name, model in MODELS.items()} == PARAMETERS


@pytest.mark.parametrize("engine", LAYOUTS)
@pytest.mark.parametrize("ranks", [1, 3])
def test_every_byte_of_the_state_is_saved_and_loaded_once(engine: str, ranks: int) -> None:
    """Whatever the engine: the shards are the state, and both layers say so."""
    model, scale = SMALL
    trace = synthesize(model, engine, ranks, scale)
    state = shard(MODELS[model], 0, 1, scale, True)
    total = sum(tensor.length for tensor in state)
    for op in ("save", "load"):
        rows = trace.where(trace.row_mask(layer="tensor", op=op))
        assert int(rows.ints("length").sum()) == total
        assert len(set(rows.strings("name"))) == len(state) == 4 * 291
    summary = summarize(trace)
    assert summary.bytes_read == total
    assert total < summary.bytes_written < total * 1.1
    assert summary.ranks == tuple(range(ranks))
    assert check_trace(trace) == []
    for layer in ("request", "tensor"):
        plan = plan_from_trace(trace, layer)
        plan.validate()
        assert plan.counts().bytes_read == total


def test_it_says_that_it_is_synthetic() -> None:
    """Nobody may take it for a measurement."""
    trace = synthesize(*("llama-2-7b", "dcp"), ranks=2, scale=1 / 1024)
    assert "SYNTHETIC" in " ".join(trace.metadata.completeness.problems())
    assert [entry.action for entry in trace.metadata.history] == ["synth"]
    assert not trace.valid("end_ns").any()
    summary = summarize(trace)
    assert summary.write_bandwidth is summary.read_bandwidth is None


def test_a_full_size_state_is_as_large_as_its_parameters_say() -> None:
    """14 bytes for each: weights of two, and three optimizer tensors of four."""
    trace = synthesize("llama-3.2-3b", "torchsnapshot", ranks=4)
    rows = trace.where(trace.row_mask(layer="tensor", op="save"))
    assert int(rows.ints("length").sum()) == 14 * PARAMETERS["llama-3.2-3b"]
    light = synthesize("llama-3.2-3b", "torchsnapshot", ranks=4, optimizer=False)
    assert summarize(light).bytes_read == 2 * PARAMETERS["llama-3.2-3b"]


def state_of(model: Model) -> dict[str, torch.Tensor]:
    """Return a real state with the tensors of a model on one rank."""
    return {
        tensor.name: torch.zeros(tensor.shape, dtype=getattr(torch, tensor.dtype))
        for tensor in shard(model, 0, 1, 1.0, True)
    }


def extents(trace: Trace) -> dict[str | None, tuple[int, int]]:
    """Return where each saved tensor lies."""
    rows = trace.where(trace.row_mask(layer="tensor", op="save"))
    columns = rows.ints("offset").tolist(), rows.ints("length").tolist()
    return dict(zip(rows.strings("name"), zip(*columns, strict=True), strict=True))


@pytest.mark.parametrize("engine", ["torch.save", "safetensors", "dcp"])
def test_the_layout_is_the_engines(
    engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a small model, saved by the real one: what lies where."""
    model = Model(layers=3, hidden=96, ffn=256, heads=4, kv_heads=2, vocabulary=1000)
    monkeypatch.setattr("iotrace.traces.synth.synth.MODELS", {"small": model})
    state = state_of(model)
    if engine == "torch.save":
        torch.save(state, tmp_path / "rank_0.pt")
    elif engine == "safetensors":
        save_file(state, tmp_path / "rank_0.safetensors")
    else:
        dcp.save(state, checkpoint_id=tmp_path, no_dist=True)

    real, made = checkpoint.read(tmp_path), synthesize("small", engine)

    written = int(made.where(made.row_mask(layer="request", op="write")).ints("length").sum())
    size = sum(path.stat().st_size for path in tmp_path.iterdir())
    assert written == pytest.approx(size, rel=0.01)
    there, here = extents(real), extents(made)
    assert {name: length for name, (_, length) in here.items()} == {
        name: length for name, (_, length) in there.items()
    }
    if engine != "torch.save":  # whose pickle's length is a guess
        assert here == there
        return
    assert gaps(here) == gaps(there)


@pytest.mark.parametrize(("slab_bytes", "chunk_bytes"), [(128 << 20, 512 << 20), (100_000, 60_000),
                                                        (40_000, 70_000)])  # fmt: skip
def test_the_layout_is_torchsnapshots(
    slab_bytes: int, chunk_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which parts of tensors lie together in a file, and where; sizes as they are, and small."""
    model = Model(layers=2, hidden=96, ffn=256, heads=4, kv_heads=2, vocabulary=1000)
    monkeypatch.setattr("iotrace.traces.synth.synth.MODELS", {"small": model})
    monkeypatch.setattr("iotrace.traces.synth.layouts._SLAB_BYTES", slab_bytes)
    monkeypatch.setattr("iotrace.traces.synth.layouts._CHUNK_BYTES", chunk_bytes)
    state = {"m": torchsnapshot.StateDict(**state_of(model))}
    for knob, value in (("SLAB_SIZE_THRESHOLD", slab_bytes), ("MAX_CHUNK_SIZE", chunk_bytes)):
        monkeypatch.setenv(f"TORCHSNAPSHOT_{knob}_BYTES_OVERRIDE", str(value))
    torchsnapshot.Snapshot.take(str(tmp_path / "s"), state)
    real, made = checkpoint.read(tmp_path / "s"), synthesize("small", "torchsnapshot")
    assert files_of(made) == files_of(real)


def test_the_layout_is_that_of_a_captured_save_of_datastates() -> None:
    """The same opens and closes, and every write of it; but a guess of the pickle's bytes."""
    trace = read_trace(CORPUS / "datastates-llm.parquet")
    saved = trace.where(trace.row_mask(layer="tensor", op="save"))
    tensors = [
        Tensor(str(name), str(dtype), shape or (), 0, (shape or (1,))[0])
        for name, dtype, shape in zip(
            saved.strings("name"), saved.strings("dtype"), saved.shapes(), strict=True
        )
    ]
    steps = list(LAYOUTS["datastates-llm"](tensors, 0, 1))
    requests = trace.where(trace.row_mask(layer="request", op=("open", "write", "close")))
    columns = (requests.ints(name).tolist() for name in ("offset", "length"))
    real = Counter(zip(requests.strings("op"), *columns, strict=True))
    made = Counter((s.op, s.offset, s.length) for s in steps if s.op == "write")
    there = Counter(requests.strings("op"))
    there.subtract(("open", "close"))  # of the load
    assert Counter(step.op for step in steps) == there
    (behind,) = (+(made - real)).elements()
    (really,) = ((op, at, size) for op, at, size in real - made if op == "write")
    assert behind[:2] == really[:2]
    assert behind[2] == pytest.approx(really[2], rel=0.01)


def files_of(trace: Trace) -> set[frozenset[tuple[object, ...]]]:
    """Return what lies in each file: name, where in the tensor, where in the file, length."""
    rows = trace.where(trace.row_mask(layer="tensor", op="save"))
    columns = (rows.ints(name).tolist() for name in ("tensor_offset", "offset", "length"))
    names = [str(name).removeprefix("m.") for name in rows.strings("name")]
    found: defaultdict[str | None, set[tuple[object, ...]]] = defaultdict(set)
    for path, *piece in zip(rows.strings("path"), names, *columns, strict=True):
        found[path].add(tuple(piece))
    return {frozenset(pieces) for pieces in found.values()}


def gaps(places: dict[str | None, tuple[int, int]]) -> list[tuple[str | None, int]]:
    """Return the tensors in the order of their bytes, with the distance to the next."""
    ordered = sorted(places.items(), key=lambda item: item[1])
    return [(a[0], b[1][0] - a[1][0]) for a, b in pairwise(ordered)]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("gpt-9", "dcp"), "llama-3-8b"),
        (("llama-3-8b", "hdf5"), "torchsnapshot"),
        (("llama-3-8b", "dcp", 0), "ranks"),
        (("llama-3-8b", "dcp", 1, math.inf), "scale"),
    ],
)
def test_what_there_is_not_is_one_error(arguments: tuple[str, str], told: str) -> None:
    """It lists what there is."""
    with pytest.raises(TraceFormatError, match=told):
        synthesize(*arguments)


def test_item_sizes_are_torchs() -> None:
    """A wrong one would make every number wrong."""
    for dtype, size in ITEM_BYTES.items():
        assert torch.empty(1, dtype=getattr(torch, dtype)).element_size() == size
