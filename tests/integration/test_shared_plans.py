"""A shared trace replays as the original does: every plan is the same but for the names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from iotrace.replay.build import LAYERS, plan_from_trace
from iotrace.replay.plan import Plan
from iotrace.replay.transforms.align import Align
from iotrace.replay.transforms.coalesce import Coalesce
from iotrace.replay.transforms.direct import Direct
from iotrace.traces.digest import workload_digest
from iotrace.traces.reader import read_trace
from iotrace.traces.sharing.publish import publish
from iotrace.traces.sharing.share import KEEP, KEY, ShareOptions
from iotrace.traces.trace import Trace
from iotrace.traces.writer import write_trace

CORPUS = Path(__file__).parents[2] / "traces" / "corpus"
TRACES = sorted(path.stem for path in CORPUS.glob("*.parquet"))


@pytest.fixture(params=TRACES)
def original(request: pytest.FixtureRequest) -> Trace:
    """Each trace of the corpus."""
    return read_trace(CORPUS / f"{request.param}.parquet")


@pytest.fixture(params=[KEEP, KEY])
def shared(request: pytest.FixtureRequest, original: Trace, tmp_path: Path) -> Trace:
    """What another site reads."""
    path = tmp_path / "public.parquet"
    write_trace(publish(original, ShareOptions(tensor_names=request.param)), path)
    return read_trace(path)


def plans(trace: Trace, layer: str) -> Iterator[Plan]:
    plan = plan_from_trace(trace, layer)
    yield plan
    for transform in (Coalesce(), Align(), Direct()):
        plan = transform(plan)
        yield plan


@pytest.mark.parametrize("layer", LAYERS)
def test_the_plans_are_the_same(original: Trace, shared: Trace, layer: str) -> None:
    """Requests, order, sizes, offsets, files, folders and streams, before and after transforms."""
    for own, theirs in zip(plans(original, layer), plans(shared, layer), strict=True):
        assert own.counts() == theirs.counts()
        assert own.streams == theirs.streams
        assert np.array_equal(own.requests.lowered(), theirs.requests.lowered())
        assert np.array_equal(own.pieces.lowered(), theirs.pieces.lowered())
        assert shape(own.paths) == shape(theirs.paths)
        assert [sizes(file) for file in own.files] == [sizes(file) for file in theirs.files]


def shape(paths: tuple[str, ...]) -> list[list[int]]:
    """Return paths as numbers: equal components have one number, in order of appearance."""
    seen: dict[str, int] = {}
    return [[seen.setdefault(part, len(seen)) for part in path.split("/")] for path in paths]


def sizes(file: object) -> dict[str, object]:
    """Return all that is known of a file besides its names."""
    return {name: value for name, value in vars(file).items() if "path" not in name}


def test_the_work_is_the_same(original: Trace, shared: Trace) -> None:
    """Sites that never met agree on what they talk about."""
    assert workload_digest(original) == workload_digest(shared)
