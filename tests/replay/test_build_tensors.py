"""A plan of tensors: what the engine meant, and not how it went about it."""

import numpy as np
import pytest

from iotrace.replay.build import plan_from_trace
from iotrace.replay.sketch import listing, sketch_trace
from iotrace.traces.errors import PlanError
from iotrace.traces.metadata import Metadata
from iotrace.traces.trace import Strings, Trace


def tensors(*rows: tuple[str, str | None, int, int, int]) -> Trace:
    """A trace of tensor rows: op, path, step, offset, length."""
    op, path, step, offset, length = zip(*rows, strict=True)
    return Trace.from_columns(
        {
            "layer": Strings.constant("tensor", len(rows)),
            "op": Strings.of(op),
            "path": Strings.of(path),
            "step": np.array(step, np.int32),
            "offset": np.array(offset),
            "length": np.array(length),
            "start_ns": np.arange(len(rows)),
        },
        Metadata(),
    )


def test_the_tensor_layer_moves_each_storage_once() -> None:
    """What the engine meant, without what its format and buffers made of it."""
    trace = tensors(
        ("save", "/m.pt", 0, 64, 400),
        ("save", "/m.pt", 0, 512, 100),
        ("save", "/m.pt", 0, 64, 400),
        ("save", "/m.pt", 0, 612, 0),
        ("save", None, 0, 0, 300),
        ("load", "/m.pt", 0, 64, 400),
    )
    plan = plan_from_trace(trace, "tensor")
    assert listing(plan).splitlines() == [
        "open m.pt w+create+trunc",
        "write m.pt 64 400",
        "write m.pt 512 100",
        "close m.pt",
        "open m.pt r",
        "read m.pt 64 400",
        "close m.pt",
    ]
    assert [str(note) for note in plan.notes] == [
        "tensors without a place in a file, left out: 1 (300 bytes)",
        "tensors in another's storage, moved with it: 1",
    ]
    plan.validate()


def test_every_step_of_the_tensor_layer_saves_anew() -> None:
    """The second checkpoint to one path empties the file first."""
    plan = plan_from_trace(
        tensors(("save", "/m.pt", 0, 0, 400), ("save", "/m.pt", 1, 0, 100)), "tensor"
    )
    assert plan.files[0].final_bytes == 100
    assert plan.requests["step"].tolist() == [0, 0, 0, 1, 1, 1]


def test_a_trace_without_tensors_says_which_layer_it_has() -> None:
    """An importer's trace has requests only."""
    with pytest.raises(PlanError, match="--layer request"):
        plan_from_trace(sketch_trace("open a r"), "tensor")
