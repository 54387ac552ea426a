"""The traces of real engines that come with the source: readable, neutral, and replayable."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from iotrace.replay.build import plan_from_trace
from iotrace.replay.options import ReplayOptions
from iotrace.replay.result import RecordedSummary
from iotrace.replay.session import replay
from iotrace.traces.check import check_trace
from iotrace.traces.reader import read_trace
from iotrace.traces.sharing.card import make_card
from iotrace.traces.sharing.share import KEEP
from iotrace.traces.summary import summarize
from iotrace.traces.trace import Trace
from tests.traces.make_corpus import LICENCE
from tests.traces.make_corpus import TRACES as MADE

CORPUS = Path(__file__).parents[2] / "traces" / "corpus"
TRACES = sorted(path.stem for path in CORPUS.glob("*.parquet"))
MADE_HERE = tuple(MADE)  # by tests/traces/make_corpus.py
ENGINES = {"torch": "torch.save", "datastates": "datastates-llm"}
TENSORS = 120
SMALL_BYTES = 64 << 10
NOTHING = RecordedSummary(0, 0, 0, 0, 0, 0.0, 0.0)
# What would tell where a trace was made.
TELLING = (b"/tmp/", b"/root", b"/home/", b"site-packages", b"localhost")


@pytest.fixture(params=TRACES)
def name(request: pytest.FixtureRequest) -> str:
    """The name of each trace in the corpus."""
    return str(request.param)


@pytest.fixture
def trace(name: str) -> Trace:
    """One trace of the corpus."""
    return read_trace(CORPUS / f"{name}.parquet")


def test_the_corpus_has_the_engines() -> None:
    """A file that was not committed would be missed by no other test."""
    assert set(TRACES) >= set(MADE_HERE)


def test_a_trace_is_small_well_formed_and_of_its_engine(name: str, trace: Trace) -> None:
    """They are examples and test input: nobody should have to doubt them."""
    assert (CORPUS / f"{name}.parquet").stat().st_size < SMALL_BYTES
    assert check_trace(trace) == []
    first = name.partition("-")[0]
    assert summarize(trace).engines == (ENGINES.get(first, first),)


def test_a_trace_does_not_tell_where_it_was_made(name: str, trace: Trace) -> None:
    """The file itself is searched: what is in it, somebody can read."""
    content = (CORPUS / f"{name}.parquet").read_bytes()
    paths = {path for column in ("path", "target") for path in trace.strings(column) if path}

    assert [word for word in TELLING if word in content] == []
    assert all(path.startswith("/scratch/ckpt") for path in paths)
    assert {host.name for host in trace.metadata.hosts} == {"node"}
    assert not trace.valid("address").any()


@pytest.mark.parametrize("name", MADE_HERE, indirect=True)
def test_every_tensor_is_saved_and_loaded_once(name: str, trace: Trace) -> None:
    """120 tensors, on two ranks in two parts each, or twice; all bytes of all of them."""
    made = MADE[name]
    parts = 2 if made.launcher else 1
    copies = 2 if name == "torchsnapshot-ranks" else 1
    for op in ("load",) if made.does else ("save", "load"):
        rows = trace.where(trace.row_mask(layer="tensor", op=op))
        counts = Counter(rows.strings("name"))
        assert len(counts) == TENSORS
        assert set(counts.values()) == {parts}
        parameter_bytes = 4 if made.engine.startswith("torchsnapshot") else 2
        assert int(rows.ints("length").sum()) == copies * (parameter_bytes + 8) * 1_551_552


@pytest.mark.parametrize("layer", ["request", "tensor"])
def test_a_trace_replays(trace: Trace, layer: str, tmp_path: Path) -> None:
    """Each gives a valid plan, which moves what was recorded, byte for byte in its place."""
    plan = plan_from_trace(trace, layer)
    plan.validate()
    counts = plan.counts()

    outcome = replay(
        plan, NOTHING, ReplayOptions(executor="posix", root=tmp_path, verify=True, warm=True)
    )

    assert outcome.errors == ()
    assert outcome.verified is True
    (run,) = outcome.repetitions
    assert run.moved.bytes_written == counts.bytes_written
    assert run.moved.bytes_read == counts.bytes_read
    assert counts.bytes_written + counts.bytes_read > 0


def test_a_trace_has_its_card(name: str, trace: Trace) -> None:
    """It tells the same as the file: made again, it is the same page."""
    card = make_card(trace, LICENCE, KEEP, "")
    page = (CORPUS / f"{name}.md").read_text()
    assert page == card.to_markdown(f"corpus:{name}", keyed_paths=False)
