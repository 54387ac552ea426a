"""The main job, end to end, on real input: capture, look, replay, believe."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import torch

from iotrace.traces.reader import read_trace
from iotrace.traces.trace import Trace
from tests.tools.command import IOTRACE, iotrace

from .strace import FileCalls, file_calls

HERE = Path(__file__).parent
SAVE = HERE / "jobs" / "save.py"
BIG_MIB = 1024


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with model.pt and trace.parquet of save.py with a tensor of 1 GiB."""
    folder = tmp_path_factory.mktemp("captured")
    done = iotrace(
        *("capture", "-o", folder / "trace.parquet", "--"),
        *(sys.executable, SAVE, folder / "model.pt", BIG_MIB),
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "loaded what was saved\n"
    return folder


@pytest.fixture(scope="module")
def trace(captured: Path) -> Trace:
    """The captured trace."""
    return read_trace(captured / "trace.parquet")


def requests_on(trace: Trace, path: Path, op: str) -> tuple[np.ndarray, np.ndarray]:
    """Return offsets and bytes moved of the successful requests of one op on one file."""
    codes, values = trace.codes("path")
    here = codes == values.index(str(path))
    rows = trace.where(here & trace.row_mask(layer="request", op=op))
    moved = rows.ints("result")
    return rows.ints("offset")[moved >= 0], moved[moved >= 0]


def test_every_saved_tensor_lies_where_its_row_says(captured: Path, trace: Trace) -> None:
    """A tensor's extent is joined to requests by bytes, so it must be exact."""
    rows = trace.where(trace.row_mask(layer="tensor", op="save"))
    state = torch.load(captured / "model.pt")
    named = {
        "model.weight": state["model"]["weight"],
        "model.transposed": state["model"]["transposed"],
        "model.half": state["model"]["half"],
        "model.mask": state["model"]["mask"],
        "model.steps": state["model"]["steps"],
        "optimizer.0.scale": state["optimizer"][0]["scale"],
        "optimizer.1.empty": state["optimizer"][1]["empty"],
        "tied": state["tied"],
        "big": state["big"],
    }
    assert sorted(filter(None, rows.strings("name"))) == sorted(named)
    content = np.memmap(captured / "model.pt", np.uint8)
    for name, dtype, shape, offset, length in zip(
        rows.strings("name"),
        rows.strings("dtype"),
        rows.shapes(),
        rows.ints("offset"),
        rows.ints("length"),
        strict=True,
    ):
        tensor = named[name]
        storage = tensor.untyped_storage()
        assert (dtype, shape) == (str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape))
        assert length == storage.nbytes()
        if length:
            saved = np.frombuffer(memoryview(np.asarray(storage_bytes(storage))), np.uint8)
            assert np.array_equal(content[offset : offset + length], saved), name


def storage_bytes(storage: torch.UntypedStorage) -> torch.Tensor:
    """View a storage as bytes."""
    return torch.tensor([], dtype=torch.uint8).set_(storage)


def test_tensors_that_share_a_storage_share_their_extent(trace: Trace) -> None:
    """Tied weights are written once; both names say where."""
    rows = trace.where(trace.row_mask(layer="tensor", op="save"))
    extent = dict(
        zip(
            rows.strings("name"),
            zip(rows.ints("offset"), rows.ints("length"), strict=True),
            strict=True,
        )
    )
    assert extent["tied"] == extent["model.weight"] == extent["model.transposed"]


def test_loaded_tensors_lie_where_the_saved_ones_do(trace: Trace) -> None:
    """The load half of the tensor layer names the same extents as the save half."""
    extents = [
        sorted(
            zip(
                rows.strings("name"),
                rows.ints("offset").tolist(),
                rows.ints("length").tolist(),
                strict=True,
            )
        )
        for op in ("save", "load")
        for rows in [trace.where(trace.row_mask(layer="tensor", op=op))]
    ]
    assert extents[0] == extents[1]
    assert len(extents[0]) == 9


def test_written_bytes_are_the_file(captured: Path, trace: Trace) -> None:
    """A trace that loses bytes is worse than none."""
    path = captured / "model.pt"
    offsets, moved = requests_on(trace, path, "write")
    assert moved.sum() == path.stat().st_size
    assert offsets[0] == 0
    assert (offsets[1:] == np.cumsum(moved)[:-1]).all()
    assert trace.metadata.completeness.complete, trace.metadata.completeness.problems()


def test_calls_and_bytes_equal_what_the_kernel_saw(tmp_path: Path, trace: Trace) -> None:
    """strace of the same script is the oracle, per file."""
    path = tmp_path / "model.pt"
    seen = file_calls([sys.executable, str(SAVE), str(path), str(BIG_MIB)], tmp_path / "strace")[
        str(path)
    ]
    values = trace.codes("path")[1]
    captured_path = Path(next(value for value in values if value.endswith("/model.pt")))
    _, written = requests_on(trace, captured_path, "write")
    _, read = requests_on(trace, captured_path, "read")
    assert (
        FileCalls(len(read), len(written), int(read.sum()), int(written.sum()), written.tolist())
        == seen
    )


JOB = """
import os, sys
print("out"); print("err", file=sys.stderr)
with open(sys.argv[1], "w") as f:
    f.write(repr(sorted((k, v) for k, v in os.environ.items()
                        if k != "LD_PRELOAD" and not k.startswith("IOTRACE_"))))
{end}
"""


@pytest.mark.parametrize(
    ("end", "status"),
    [("sys.exit(7)", 7), ("os._exit(9)", 9), ("os.kill(os.getpid(), 15)", 128 + 15)],
)
def test_the_job_cannot_tell_that_it_is_watched(tmp_path: Path, end: str, status: int) -> None:
    """Status, output and environment are as without capture."""
    job = [sys.executable, "-c", JOB.format(end=end)]
    capture = (IOTRACE, "capture", "-q", "-o", tmp_path / "t.parquet", "--")
    bare, seen = (
        subprocess.run(command, capture_output=True, text=True)
        for command in ([*job, tmp_path / "bare"], [*capture, *job, tmp_path / "seen"])
    )
    assert bare.returncode in (status, 128 - status)
    assert seen.returncode == status
    assert (seen.stdout, seen.stderr) == (bare.stdout, bare.stderr)
    assert (tmp_path / "seen").read_text() == (tmp_path / "bare").read_text()


def test_a_killed_job_still_gives_a_trace(tmp_path: Path) -> None:
    """SIGKILL of job and capture in mid-save: recover finds all requests but the last."""
    raw = tmp_path / "raw"
    path = tmp_path / "model.pt"
    whole = subprocess.Popen(
        [
            *(IOTRACE, "capture", "-o", tmp_path / "t.parquet", "--raw-dir", raw, "--"),
            *(sys.executable, SAVE, path, str(BIG_MIB)),
        ],
        start_new_session=True,
    )
    while not (path.exists() and path.stat().st_size > 1 << 20):  # the headers are recorded
        assert whole.poll() is None
        time.sleep(0.001)
    os.killpg(whole.pid, signal.SIGKILL)
    whole.wait()
    with suppress(ProcessLookupError):  # the job takes its time to give back so much memory
        while os.killpg(whole.pid, 0) is None:
            time.sleep(0.01)
    done = iotrace("recover", raw, "-o", tmp_path / "t.parquet")
    assert done.returncode == 0, done.stderr
    trace = read_trace(tmp_path / "t.parquet")
    offsets, _ = requests_on(trace, path, "write")
    assert len(offsets) >= 1
    assert not trace.metadata.completeness.complete
    assert "killed" in " ".join(trace.metadata.completeness.problems())


def result_of(done: subprocess.CompletedProcess[str]) -> dict:
    """The JSON object of `replay --json -`."""
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_replay_issues_the_recorded_requests(captured: Path, trace: Trace) -> None:
    """Outside view: strace of the posix executor shows the recorded sizes in the recorded order."""
    _, written = requests_on(trace, captured / "model.pt", "write")
    _, read = requests_on(trace, captured / "model.pt", "read")
    command = [
        *(str(IOTRACE), "replay", str(captured / "trace.parquet"), "--root", str(captured)),
        *("--executor", "posix", "--warm"),
    ]
    calls = file_calls(command, captured / "replay-strace")
    seen = [calls for path, calls in calls.items() if path.endswith("/model.pt")]
    assert [file.write_sizes for file in seen] == [written.tolist()]
    assert (seen[0].reads, seen[0].bytes_read) == (len(read), read.sum())


def test_coalesced_direct_and_verified(captured: Path, trace: Trace) -> None:
    """Fewer and larger requests; every byte in its place."""
    result = result_of(
        iotrace(
            *("replay", captured / "trace.parquet", "--root", captured, "--coalesce", "--direct"),
            *("--verify", "--json", "-"),
        )
    )
    assert result["verified"] is True
    assert result["errors"] == []
    assert result["planned"]["data_requests"] < result["recorded"]["data_requests"]
    assert result["replayed"]["bytes_written"] == result["recorded"]["bytes_written"]
    assert not list(captured.glob("iotrace-replay-*"))


def test_show_counts_what_the_trace_holds(captured: Path) -> None:
    """The documented keys, and the numbers of the file itself."""
    done = iotrace("show", captured / "trace.parquet", "--json", "-")
    shown = json.loads(done.stdout)
    assert shown["tensors"] == 18
    assert shown["bytes_written"] == (captured / "model.pt").stat().st_size
    assert shown["engines"] == ["torch.save"]
    assert re.search(r"model\.pt", json.dumps(shown["files"]))
