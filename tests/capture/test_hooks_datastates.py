"""DataStates-LLM under the real library: rows against the headers that the engine wrote.

The engine is built from source and not on any package index; where it is missing, the traces
of tests/traces/test_corpus_headers.py are what is held against its headers.
"""

from __future__ import annotations

import importlib.util
import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from iotrace.capture.collector import collect
from iotrace.traces.check import check_trace
from iotrace.traces.trace import Trace

from .hooked_job import Job, requests_below, run_job

JOBS = Path(__file__).parent / "jobs"
ENGINE = "datastates-llm"
LENGTH_BYTES = 8


def is_installed() -> bool:
    """Say whether the engine is here, without importing it."""
    try:
        return importlib.util.find_spec("datastates.ckpt.src") is not None
    except ModuleNotFoundError:
        return False


pytestmark = pytest.mark.skipif(
    not is_installed(), reason="DataStates-LLM is not installed: build it from its repository"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the job saves into."""
    return tmp_path_factory.mktemp("cases")


@pytest.fixture(scope="module")
def log_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the raw logs."""
    return tmp_path_factory.mktemp("logs")


@pytest.fixture(scope="module")
def job(folder: Path, log_dir: Path) -> Job:
    """The finished job of datastates_cases.py."""
    return run_job(log_dir, "-W", "ignore", JOBS / "datastates_cases.py", folder)


@pytest.fixture(scope="module")
def trace(job: Job, log_dir: Path) -> Trace:
    """The job's trace."""
    return collect(log_dir, ("python", "job.py"))


def checkpoints(folder: Path) -> list[Path]:
    """Return the files that the job saved whole, in order."""
    return [folder / f"step{step}" / f"rank{rank}.ckpt" for step in (0, 1) for rank in (0, 1)]


def header_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Yield what a file's own header says of its tensors, as the trace has it."""
    content = path.read_bytes()
    begin = LENGTH_BYTES + int.from_bytes(content[:LENGTH_BYTES], "little")
    for key, entry in json.loads(content[LENGTH_BYTES:begin]).items():
        if key != "datastates_metadata":
            first, last = entry["data_offsets"]
            yield {
                "name": key.replace("|", "."),
                "dtype": entry["dtype"].removeprefix("torch."),
                "shape": entry["shape"],
                "offset": begin + first,
                "length": last - first,
                "tensor_offset": 0,
                "device": "cpu",
            }


def told(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what rows say of their tensors."""
    names = ("name", "dtype", "shape", "offset", "length", "tensor_offset", "device")
    return [{name: row[name] for name in names} for row in rows]


def test_saved_tensors_are_where_the_header_says(job: Job, folder: Path) -> None:
    """Rows are written when the tensors are queued: before the file is, and right all the same."""
    for path in checkpoints(folder):
        rows = job.notes("tensor", op="save", path=str(path))

        assert len(rows) == 11
        assert told(rows) == list(header_rows(path))


def test_saved_bytes_are_where_the_rows_say(job: Job, folder: Path) -> None:
    """Or nowhere: the engine may empty the file when it has written some tensors."""
    truth = json.loads((folder / "truth.json").read_text())
    found = 0
    for path in checkpoints(folder):
        content = path.read_bytes()
        expected = {key.replace("|", "."): text for key, text in truth[str(path)].items()}
        for row in job.notes("tensor", op="save", path=str(path)):
            stored = content[row["offset"] : row["offset"] + row["length"]]
            if any(stored):
                found += 1
                assert stored.hex() == expected[row["name"]], row["name"]
    assert found > 0


def test_loaded_tensors_are_where_the_header_says(job: Job, folder: Path) -> None:
    """A load in Python tells its tensors like a save, by the same names."""
    (path,) = {row["path"] for row in job.notes("span", op="load") if row["path"].endswith("ckpt")}

    assert path == str(folder / "step1" / "rank0.ckpt")
    assert told(job.notes("tensor", op="load", path=path)) == list(header_rows(Path(path)))


def test_a_save_is_told_on_both_threads_with_its_version(job: Job, folder: Path) -> None:
    """How long the job waited, and how long the pool's thread took, are two questions."""
    for path, step in zip(checkpoints(folder), (0, 0, 1, 1), strict=True):
        spans = job.notes("span", op="save", path=str(path))

        assert [span["step"] for span in spans] == [step] * 2
        assert len({span["thread"] for span in spans}) == 2
        assert {row["step"] for row in job.notes("tensor", op="save", path=str(path))} == {step}


def test_commits_and_waits_are_spans(job: Job) -> None:
    """The wait inside a commit is part of it; the one by itself is the job's."""
    assert [span["step"] for span in job.notes("span", op="commit")] == [0, 1]
    assert [span["step"] for span in job.notes("span", op="wait")] == [2]


def test_tensors_handed_to_the_engine_itself_have_their_version(job: Job, folder: Path) -> None:
    """Nobody names them; place and version are those of the call."""
    for op, step in (("save", 7), ("load", 8)):
        rows = job.notes("tensor", op=op, path=str(folder / "direct"))

        assert [(row["offset"], row["length"]) for row in rows] == [(0, 400), (400, 12)]
        assert [(row["name"], row["step"]) for row in rows] == [(None, step)] * 2


def test_requests_of_the_engines_threads_know_engine_and_step(trace: Trace, folder: Path) -> None:
    """They are made in C++, after the calls that asked for them have returned."""
    expected = {str(path): step for path, step in zip(checkpoints(folder), "0011", strict=True)}
    writes = trace.where(trace.row_mask(layer="request", op="write"))
    columns = (writes.strings("path"), writes.strings("engine"), writes.ints("step").tolist())
    labels = {
        (path, engine, step)
        for path, engine, step in zip(*columns, strict=True)
        if (path or "").startswith(f"{folder}/") and not (path or "").endswith(".json")
    }

    assert labels == {
        *((path, ENGINE, int(step)) for path, step in expected.items()),
        (str(folder / "direct"), ENGINE, 7),
    }
    reads = trace.where(trace.row_mask(layer="request", op="read"))
    steps = zip(reads.strings("path"), reads.ints("step").tolist(), strict=True)
    assert {step for path, step in steps if path == str(folder / "direct")} == {8}
    # A tensor in a tuple is pickled, which torch does by a save to memory: it has no place.
    in_files = trace.valid("offset") | ~trace.row_mask(layer="tensor")
    assert check_trace(trace.where(in_files)) == []


def test_what_the_job_reads_for_itself_is_nobodys(trace: Trace, folder: Path) -> None:
    """It looks at its files until they are laid out; that is no load."""
    reads = trace.where(trace.row_mask(layer="request", op="read"))
    of_first = [path == str(checkpoints(folder)[0]) for path in reads.strings("path")]
    engines = {name for name, own in zip(reads.strings("engine"), of_first, strict=True) if own}

    assert engines == {None}


def test_every_tensor_is_one_write_in_a_file_opened_for_it(trace: Trace, folder: Path) -> None:
    """The public engine opens, seeks, writes and closes for each tensor."""
    path = str(checkpoints(folder)[0])
    saved = trace.where(trace.row_mask(layer="tensor", op="save"))
    writes = trace.where(trace.row_mask(layer="request", op="write"))

    def extents(rows: Trace) -> Counter[tuple[int, int]]:
        lengths = rows.ints("length").tolist()
        found = zip(rows.strings("path"), rows.ints("offset").tolist(), lengths, strict=True)
        return Counter((offset, length) for place, offset, length in found if place == path)

    assert extents(saved) <= extents(writes)


def test_hooks_are_bound(job: Job) -> None:
    """A generation that has moved on must not fail in silence."""
    bound = Counter(note["name"] for note in job.notes("hook", engine=ENGINE, bound=True))

    assert bound["datastates"] == 2
    assert job.notes("hook", engine=ENGINE, bound=False) == []


def test_the_hooks_record_no_request_of_their_own(tmp_path: Path) -> None:
    """The header is read once more after a load, with the recording paused."""
    state = tmp_path / "job.py"
    state.write_text(
        "import os, sys, time, torch\n"
        "if not torch.cuda.is_available():\n"
        "    torch.cuda.is_available, torch.cuda.current_device = lambda: True, lambda: 0\n"
        "from datastates.llm import Checkpointing\n"
        "engine = Checkpointing({'host_cache_size': 1}, 0)\n"
        "path = sys.argv[1] + '/x.ckpt'\n"
        "engine.save_background({'w': torch.ones(50)}, path)\n"
        "time.sleep(0.3)\n"
        "engine.load(path)\n"
        "os._exit(0)\n"
    )
    folder = tmp_path / "files"
    folder.mkdir()

    hooked = run_job(tmp_path / "hooked", state, folder)
    unhooked = run_job(tmp_path / "unhooked", state, folder, boot=tmp_path / "nowhere.py")

    assert [row["op"] for row in hooked.notes("tensor")] == ["save", "load"]
    reads = [request for request in requests_below(folder, hooked) if request[0] == "read"]
    assert reads == [r for r in requests_below(folder, unhooked) if r[0] == "read"]
    assert len(reads) > 0
    assert os.path.getsize(folder / "x.ckpt") > 200
