"""What saves write comes from memory of its own: copied first, timed apart, and whole."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from iotrace.replay import source
from iotrace.replay.build import plan_from_trace
from iotrace.replay.memory_phases import MemoryPhases, MemorySeconds
from iotrace.replay.options import ReplayOptions
from iotrace.replay.result import RecordedSummary
from iotrace.replay.session import replay
from iotrace.replay.sketch import sketch
from iotrace.replay.source import SOURCES, copy_from
from iotrace.replay.transforms.align import Align
from iotrace.traces.errors import PlanError, ReplayError
from iotrace.traces.reader import read_trace
from tests.tools.command import assert_fits, assert_one_line_error, iotrace

CORPUS = Path(__file__).parents[2] / "traces" / "corpus"
NOTHING = RecordedSummary(0, 0, 0, 0, 0, 0.0, 0.0)


def has_gpu() -> bool:
    torch = pytest.importorskip("torch")
    return bool(torch.cuda.is_available())


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("size_bytes", [0, 1, 4096, (1 << 26) + 4097])
def test_all_that_is_copied_arrives(name: str, size_bytes: int) -> None:
    """In pieces, the last one shorter; what did not arrive raises."""
    if name == "cuda" and not has_gpu():
        pytest.skip("no GPU")
    seconds = copy_from(name, size_bytes, 3)
    assert (seconds > 0) == (size_bytes > 0)


def test_a_copy_that_is_not_whole_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source._Host, "copy", lambda self, size_bytes: None)
    with pytest.raises(ReplayError, match="not what lay there"):
        copy_from("host", 100)


def test_each_worker_copies_what_its_saves_write() -> None:
    """Payload alone: neither what loads read nor the padding of alignment comes from the source."""
    plan = sketch(
        "process 0\nopen a w+create\nwrite a 0 5000\nwrite a 9000 100\nclose a\n"
        "open a r\nread a 0 5000\nclose a\n"
        "process 1\nopen b w+create\nwrite b 0 300\nclose b"
    )
    for one in (plan, Align(4096)(plan)):
        assert MemoryPhases.of(one, "pooled", "host").saved_bytes.tolist() == [5100, 300]
    assert not MemoryPhases.of(plan, "pooled", None).fresh_bytes.any()
    phases = MemoryPhases.of(plan, "fresh", None)
    assert phases.saved_bytes.tolist() == [0, 0]
    assert phases.fresh_bytes.tolist() == [5000, 0]
    assert phases.spend(np.array([True, False]), 0).source == 0
    assert MemorySeconds.slowest([MemorySeconds(1, 4), MemorySeconds(3, 2)]) == MemorySeconds(3, 4)


@pytest.mark.parametrize("name", ["dcp", "dcp-restore"])
def test_the_copy_is_a_phase_of_its_own(name: str, tmp_path: Path) -> None:
    """Of a save in each run; of a load there is none."""
    plan = plan_from_trace(read_trace(CORPUS / f"{name}.parquet"))
    options = ReplayOptions(root=tmp_path, source="host", verify=True, repeat=2)
    outcome = replay(plan, NOTHING, options)
    assert (outcome.errors, outcome.verified) == ((), True)
    for one in outcome.repetitions:
        assert (one.source_seconds > 0) == (name == "dcp")
        parts = one.write_seconds + one.flush_seconds + one.sync_seconds
        assert one.durable_seconds == (parts if one.moved.bytes_written else 0)


def test_a_machine_without_a_gpu_is_told_in_one_line(tmp_path: Path) -> None:
    """From a worker, which alone may use the GPU, and nothing is left."""
    if has_gpu():
        pytest.skip("there is a GPU")
    done = iotrace("replay", "corpus:dcp", "--source", "cuda", "--root", tmp_path)
    assert_one_line_error(done, 1, "--source cuda", "GPU", "--source host")
    assert list(tmp_path.iterdir()) == []


def test_a_machine_without_torch_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ReplayError, match=r"needs torch.*`pip install torch`"):
        copy_from("cuda", 1)


def test_an_unknown_source_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="--source"):
        replay(sketch("open a r\nread a 0 1\nclose a"), NOTHING, ReplayOptions(source="tape"))


def test_the_copy_is_shown_and_written_to_json(tmp_path: Path) -> None:
    """With its bandwidth: the storage's own is below it."""
    asked = ("replay", "corpus:dcp", "--source", "host", "--root", tmp_path)
    done = iotrace(*asked, "--json", tmp_path / "told.json", "-o", tmp_path / "result.parquet")
    assert done.returncode == 0, done.stderr
    assert_fits(done.stdout)
    assert "copy from source" in done.stdout
    assert json.loads((tmp_path / "told.json").read_text())["replayed"]["source_seconds"][0] > 0
    assert "copy from source" in iotrace("show", tmp_path / "result.parquet").stdout
    assert_one_line_error(iotrace(*asked, "--dry-run"), 2, "--source")
