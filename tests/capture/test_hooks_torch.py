"""torch.save and torch.load under the real library: every row against the bytes in the file."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from iotrace.capture.collector import collect

from .engine_job import Calls, EngineJob, kernel_calls
from .hooked_job import Job, requests_below, run_job

JOBS = Path(__file__).parent / "jobs"
UNLOADED = {"recent_kinds.legacy", "ragged.legacy", "by_name.bin", "fsspec.bin"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the job saves into."""
    return tmp_path_factory.mktemp("cases")


@pytest.fixture(scope="module")
def job(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Job:
    """The finished job of torch_cases.py."""
    return run_job(tmp_path_factory.mktemp("logs"), JOBS / "torch_cases.py", folder)


@pytest.fixture(scope="module")
def truth(job: Job, folder: Path) -> dict[str, dict[str, Any]]:
    """What the job says it saved: by path, by tensor name."""
    loaded: dict[str, dict[str, Any]] = json.loads((folder / "truth.json").read_text())
    return loaded


def problems(row: dict[str, Any], expected: dict[str, Any], content: bytes) -> list[str]:
    """Return what a row says otherwise than the job and the file."""
    found = [
        f"{key} is {row[key]}, not {expected[key]}"
        for key in ("dtype", "shape", "device", "tensor_offset")
        if row[key] != expected[key]
    ]
    stored = bytes.fromhex(expected["bytes"])
    if row["offset"] is None or row["length"] != len(stored):
        found.append(f"the extent is {row['offset']}, {row['length']}, not {len(stored)} long")
    elif content[row["offset"] : row["offset"] + row["length"]] != stored:
        found.append(f"other bytes lie at {row['offset']}")
    return [f"{row['op']} {row['path']} {row['name']}: {problem}" for problem in found]


@pytest.mark.parametrize("op", ["save", "load"])
def test_every_tensor_lies_where_its_row_says(
    job: Job, truth: dict[str, dict[str, Any]], op: str
) -> None:
    """Requests and tensors are joined by extent: a wrong offset would be a wrong answer."""
    found = []
    for path, expected in truth.items():
        content = Path(path).read_bytes()
        for row in job.notes("tensor", op=op, path=path):
            found += problems(row, expected[row["name"]], content)

    assert found == []


def test_every_saved_tensor_has_a_row(job: Job, truth: dict[str, dict[str, Any]]) -> None:
    """Names are what an engineer knows their model by; one missing is bytes unexplained."""
    for path, expected in truth.items():
        names = [row["name"] for row in job.notes("tensor", op="save", path=path)]

        assert sorted(names) == sorted(expected), path


def test_every_loaded_tensor_has_a_row(job: Job, truth: dict[str, dict[str, Any]]) -> None:
    """A load is told by the same names as the save."""
    for path, expected in truth.items():
        if Path(path).name in UNLOADED or path.endswith(".tmp"):
            continue
        names = {row["name"] for row in job.notes("tensor", op="load", path=path)}

        assert names == set(expected), path


def test_rows_come_in_the_order_of_writing(job: Job, truth: dict[str, dict[str, Any]]) -> None:
    """The order of the records is what coalescing works on."""
    for path in truth:
        rows = job.notes("tensor", op="save", path=path)
        offsets = [row["offset"] for row in rows]
        starts = [row["start_ns"] for row in rows]

        assert offsets == sorted(offsets), path
        assert starts == sorted(starts), path
        assert all(row["start_ns"] < row["end_ns"] for row in rows), path


def test_spans_hold_their_rows_and_count_steps(job: Job) -> None:
    """A step is found by its ordinal, a row's step by its span."""
    for op in ("save", "load"):
        spans = job.notes("span", op=op)
        assert [span["step"] for span in spans] == list(range(len(spans)))

        for row in job.notes("tensor", op=op):
            span = spans[row["step"]]
            assert span["start_ns"] <= row["start_ns"] <= row["end_ns"] <= span["end_ns"]


def test_views_of_one_storage_have_a_row_each(job: Job, folder: Path) -> None:
    """Their bytes are written once, and each view says where in them it begins."""
    rows = job.notes("tensor", op="save", path=str(folder / "views.pt"))

    assert {(row["offset"], row["length"]) for row in rows} == {(rows[0]["offset"], 96)}
    assert {row["name"]: row["tensor_offset"] for row in rows}["row"] == -48


def test_empty_tensors_have_a_place_and_no_length(job: Job, folder: Path) -> None:
    """They are in the checkpoint, and cost a header."""
    (row,) = job.notes("tensor", op="save", path=str(folder / "kinds.pt"), name="empty")

    assert (row["shape"], row["length"]) == ([0, 3], 0)
    assert row["offset"] > 0


def test_payloads_keep_the_alignment_that_was_asked_for(job: Job, folder: Path) -> None:
    """An aligned checkpoint is what O_DIRECT wants; the trace must not round."""
    rows = job.notes("tensor", op="save", path=str(folder / "aligned4096.pt"))

    assert [row["offset"] % 4096 for row in rows] == [0, 0]


def test_a_save_to_memory_names_no_file(job: Job) -> None:
    """Bytes that went to a buffer must not be looked for in a file."""
    for op in ("save", "load"):
        (row,) = job.notes("tensor", op=op, name="in_memory")

        assert (row["path"], row["offset"], row["length"]) == (None, None, 12)


def test_a_save_inside_a_save_belongs_to_its_step(job: Job, folder: Path) -> None:
    """Only the outermost save is a step of the job."""
    (inner,) = job.notes("tensor", name="inner")
    (outer,) = job.notes("tensor", op="save", path=str(folder / "outer.pt"))

    assert inner["step"] == outer["step"]
    assert len(job.notes("span", op="save", step=outer["step"])) == 1


def test_meta_tensors_have_no_bytes(job: Job, folder: Path) -> None:
    """They are saved as a shape."""
    rows = {row["name"]: row for row in job.notes("tensor", path=str(folder / "meta.pt"))}

    assert (rows["nothing"]["offset"], rows["nothing"]["length"]) == (None, 0)
    assert rows["real"]["length"] == 8


def test_a_load_without_data_has_no_rows(job: Job, folder: Path) -> None:
    """`map_location="meta"` reads no tensor; the other loads of the file did."""
    path = str(folder / "many.pt")
    steps = {row["step"] for row in job.notes("tensor", op="load", path=path)}

    assert len(job.notes("span", op="load", path=path)) == len(steps) + 1


def test_thousands_of_tensors_are_all_noted(tmp_path: Path) -> None:
    """In each of the five saves of torch_many.py; what that costs is for tests/bench."""
    many = run_job(tmp_path / "logs", JOBS / "torch_many.py", tmp_path, "1000")

    steps = Counter(note["step"] for note in many.notes("tensor", op="save"))
    assert steps == {step: 1000 for step in range(5)}


def test_the_process_says_what_it_is(job: Job) -> None:
    """A trace is read by people who do not have the job's machine."""
    import torch

    *_, process = job.notes("process")  # the last one counts

    assert process["libraries"]["torch"] == str(torch.__version__)
    assert "torchsnapshot" not in process["libraries"]  # installed, and not imported
    assert process["python"].count(".") == 2


def test_hooks_say_that_they_are_bound(job: Job) -> None:
    """A hook that does not fit a new torch must not fail in silence."""
    assert {note["name"] for note in job.notes("hook", bound=True)} >= {"torch_save", "torch_load"}
    assert job.notes("hook", bound=False) == []


def test_files_and_job_are_the_same_as_without_hooks(
    job: Job, folder: Path, tmp_path: Path
) -> None:
    """The hooks watch; they must not write a byte of the job's differently."""
    bare = run_job(None, JOBS / "torch_cases.py", tmp_path)

    assert (bare.done.stdout, bare.done.stderr) == (job.done.stdout, job.done.stderr)
    # Legacy files hold addresses, and the truth holds random names.
    names = sorted(path.name for path in tmp_path.glob("*.pt"))
    names += ["file.bin", "unbuffered.bin", "by_name.bin"]
    assert len(names) > 20
    for name in names:
        assert (tmp_path / name).read_bytes() == (folder / name).read_bytes(), name


def test_the_hooks_make_no_request(tmp_path: Path) -> None:
    """What they must know follows from what torch does: a look at the file would be I/O."""
    script = tmp_path / "job.py"
    script.write_text(
        "import sys, torch\n"
        "path = sys.argv[1] + '/x.pt'\n"
        "state = {str(i): torch.full((i * 1000,), float(i)) for i in range(20)}\n"
        "torch.save(state, path)\n"
        "torch.load(path), torch.load(path, mmap=True)\n"
        "with open(path, 'r+b') as file:\n"
        "    file.seek(64)\n"
        "    torch.save(state, file)\n"
        "    file.seek(64)\n"
        "    torch.load(file)\n"
        "torch.save(state['3'], path, _use_new_zipfile_serialization=False)\n"
        "torch.load(path)\n"
    )
    folder = tmp_path / "files"
    folder.mkdir()

    hooked = run_job(tmp_path / "hooked", script, folder)
    unhooked = run_job(tmp_path / "unhooked", script, folder, boot=tmp_path / "nowhere.py")

    assert unhooked.notes("hook") == []
    assert len(hooked.notes("tensor")) == 20 * 5 + 2
    requests = requests_below(folder, hooked)
    assert len(requests) > 100
    assert requests == requests_below(folder, unhooked)


def test_cases_are_what_the_kernel_saw(
    job: Job, folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Zip and legacy, by path and by file object, read and mapped: calls and bytes of each file."""
    logs = job.logs[0].path.parent
    found = EngineJob(folder, job, collect(logs, ("torch_cases.py",)))
    seen = kernel_calls(found, "torch_cases.py")
    assert named(found.calls()) == named(seen)
    assert len(seen) > 40


def named(calls: dict[str, Calls]) -> dict[str, Calls]:
    """Return calls with one name for the file whose name is made up at random."""
    return {re.sub(r"^tmp\w{8}\.tmp$", "tmp", name): call for name, call in calls.items()}
