"""Traces of real engines against the headers of the files that those engines wrote.

The job kept the parameters and the optimizer's moments of a small GPT: 120 tensors. What its
files' headers said was noted down when the traces were made.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from iotrace.traces.check import check_trace
from iotrace.traces.reader import read_trace
from iotrace.traces.summary import summarize
from iotrace.traces.trace import Trace

CORPUS = Path(__file__).parents[2] / "traces" / "corpus"
WIDTH, LAYERS, VOCABULARY, CONTEXT = 192, 3, 1000, 128
ITEM_BYTES = {"bfloat16": 2, "float32": 4}
TENSOR_BYTES = 15_515_520


class Entry(NamedTuple):
    """One tensor of a header; its bytes are counted from the header's end."""

    key: str
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


# From the headers themselves: the first and last, and one from the middle.
DATASTATES_BEGIN, DATASTATES_BYTES = 14_037, 15_536_036
DATASTATES_ENTRIES = {
    0: Entry("model|transformer.wte.weight", "bfloat16", (1000, 192), 0, 384_000),
    1: Entry("model|transformer.wpe.weight", "bfloat16", (128, 192), 384_000, 433_152),
    40: Entry("optimizer|state|0|exp_avg", "float32", (1000, 192), 3_103_104, 3_871_104),
    43: Entry("optimizer|state|1|exp_avg_sq", "float32", (128, 192), 4_737_408, 4_835_712),
    119: Entry("optimizer|state|39|exp_avg_sq", "float32", (192,), 15_514_752, 15_515_520),
}
SAFETENSORS_BEGIN, SAFETENSORS_BYTES = 11_640, 15_527_160
SAFETENSORS_ENTRIES = {
    0: Entry("optimizer.state.0.exp_avg", "float32", (1000, 192), 0, 768_000),
    42: Entry("optimizer.state.28.exp_avg", "float32", (192, 576), 7_663_104, 8_105_472),
    118: Entry("transformer.wpe.weight", "bfloat16", (128, 192), 15_082_368, 15_131_520),
    119: Entry("transformer.wte.weight", "bfloat16", (1000, 192), 15_131_520, 15_515_520),
}


def parameters() -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield the parameters of the model in its order."""
    yield "transformer.wte.weight", (VOCABULARY, WIDTH)
    yield "transformer.wpe.weight", (CONTEXT, WIDTH)
    for layer in range(LAYERS):
        for name, shape in (
            ("ln_1", (WIDTH,)),
            ("attn.c_attn", (WIDTH, 3 * WIDTH)),
            ("attn.c_proj", (WIDTH, WIDTH)),
            ("ln_2", (WIDTH,)),
            ("mlp.c_fc", (WIDTH, 4 * WIDTH)),
            ("mlp.c_proj", (4 * WIDTH, WIDTH)),
        ):
            yield f"transformer.h.{layer}.{name}.weight", shape
            yield f"transformer.h.{layer}.{name}.bias", shape[-1:]
    yield "transformer.ln_f.weight", (WIDTH,)
    yield "transformer.ln_f.bias", (WIDTH,)


def tensors(engine: str) -> Iterator[tuple[str, str, tuple[int, ...]]]:
    """Yield key, type and shape of the tensors in the order of the state dict.

    DataStates-LLM was given the parameters in a dict of their own, and joins keys with bars.
    """
    is_datastates = engine == "datastates-llm"
    for name, shape in parameters():
        yield f"model|{name}" if is_datastates else name, "bfloat16", shape
    for index, (_, shape) in enumerate(parameters()):
        for moment in ("exp_avg", "exp_avg_sq"):
            key = f"optimizer.state.{index}.{moment}"
            yield key.replace(".", "|") if is_datastates else key, "float32", shape


def header(engine: str) -> list[Entry]:
    """Return the whole header: one tensor after another, in the engine's order."""
    found = list(tensors(engine))
    if engine == "safetensors":  # by type, then by name
        found.sort(key=lambda tensor: (-ITEM_BYTES[tensor[1]], tensor[0]))
    entries, end = [], 0
    for name, dtype, shape in found:
        begin, end = end, end + int(np.prod(shape)) * ITEM_BYTES[dtype]
        entries.append(Entry(name, dtype, shape, begin, end))
    return entries


def rows(trace: Trace, op: str, begin: int) -> list[Entry]:
    """Return the tensor rows with this op as the header would have them."""
    chosen = trace.where(trace.row_mask(layer="tensor", op=op))
    offsets = chosen.ints("offset") - begin
    columns = (chosen.strings("name"), chosen.strings("dtype"), chosen.shapes())
    ends = offsets + chosen.ints("length")
    return [Entry(*row) for row in zip(*columns, offsets.tolist(), ends.tolist(), strict=True)]  # type: ignore[arg-type]


@pytest.fixture(params=["datastates-llm", "safetensors"])
def engine(request: pytest.FixtureRequest) -> str:
    """The engine whose trace is read."""
    return str(request.param)


@pytest.fixture
def trace(engine: str) -> Trace:
    """The trace of one save and one load."""
    return read_trace(CORPUS / f"{engine}.parquet")


@pytest.mark.parametrize("op", ["save", "load"])
def test_tensor_rows_say_what_the_header_said(trace: Trace, engine: str, op: str) -> None:
    """Offset, name and type of every tensor, in the order of the header."""
    is_datastates = engine == "datastates-llm"
    begin = DATASTATES_BEGIN if is_datastates else SAFETENSORS_BEGIN
    noted = DATASTATES_ENTRIES if is_datastates else SAFETENSORS_ENTRIES
    expected = header(engine)

    assert {place: expected[place] for place in noted} == noted
    assert expected[-1].end == TENSOR_BYTES
    told = rows(trace, op, begin)
    assert told == [entry._replace(key=entry.key.replace("|", ".")) for entry in expected]


def test_the_trace_is_well_formed_and_of_its_engine(trace: Trace, engine: str) -> None:
    """Every request on the checkpoint knows who made it."""
    summary = summarize(trace)
    requests = trace.layer("request")
    others = requests.where(~requests.row_mask(op="mkdir"))  # the job's own

    assert check_trace(trace) == []
    assert summary.engines == (engine,)
    assert set(others.strings("engine")) == {engine}
    assert set(others.ints("step").tolist()) == {0}


def test_the_trace_names_nobody(trace: Trace) -> None:
    """It is published: the only paths are those of the checkpoint."""
    paths = {path for path in trace.strings("path") if path is not None}

    assert all(path.startswith("/scratch/ckpt") for path in paths)
    assert [host.name for host in trace.metadata.hosts] == ["node"]
    assert trace.metadata.command[:2] == ("python", "train.py")
    assert not trace.valid("address").any()


def test_datastates_writes_a_tensor_per_open_and_truncates_meanwhile() -> None:
    """As its own threads race: the file is emptied when tensors have been written already."""
    trace = read_trace(CORPUS / "datastates-llm.parquet")
    requests = trace.layer("request")
    ops = requests.strings("op")
    opens = requests.where(requests.row_mask(op="open"))
    emptied = (opens.ints("flags", null=0) & os.O_TRUNC) != 0
    writes = requests.where(requests.row_mask(op="write"))
    threads = Counter(writes.ints("thread").tolist())

    assert Counter(ops) == {"open": 123, "close": 123, "write": 123, "read": 108, "mkdir": 1}
    assert int(writes.ints("result").sum()) == DATASTATES_BYTES
    assert sorted(threads.values()) == [3, 120]  # header and pickle; one write for each tensor
    assert int(emptied.sum()) == 2
    assert opens.ints("start_ns")[emptied].max() > writes.ints("start_ns").min()


def test_safetensors_writes_under_a_temporary_name_and_maps_twice() -> None:
    """The rename is a row without api: it was found when the file was closed."""
    trace = read_trace(CORPUS / "safetensors.parquet")
    requests = trace.layer("request")
    renames = requests.where(requests.row_mask(op="rename"))
    writes = requests.where(requests.row_mask(op="write"))
    maps = requests.where(requests.row_mask(op="map"))

    assert renames.strings("target") == ["/scratch/ckpt/step100.safetensors"]
    assert renames.strings("api") == [None]
    assert int(writes.ints("result").sum()) == SAFETENSORS_BYTES
    assert set(writes.strings("path")) == set(renames.strings("path"))
    assert maps.ints("length").tolist() == [SAFETENSORS_BYTES] * 2
