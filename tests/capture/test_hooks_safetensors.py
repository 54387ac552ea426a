"""safetensors under the real library: every row against the bytes in the file."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from iotrace.capture.hooks.emit import Emitter
from iotrace.capture.hooks.safetensors_layout import Piece, part_of, read_pieces, saved_pieces

from .hooked_job import Job, requests_below, run_job

JOBS = Path(__file__).parent / "jobs"
ENGINE = "safetensors"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the job saves into."""
    return tmp_path_factory.mktemp("cases")


@pytest.fixture(scope="module")
def job(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Job:
    """The finished job of safetensors_cases.py."""
    return run_job(tmp_path_factory.mktemp("logs"), JOBS / "safetensors_cases.py", folder)


@pytest.fixture(scope="module")
def truth(job: Job, folder: Path) -> dict[str, dict[str, Any]]:
    """What the job says it saved: by path, by tensor name."""
    loaded: dict[str, dict[str, Any]] = json.loads((folder / "truth.json").read_text())
    return loaded


def problems(row: dict[str, Any], expected: dict[str, Any]) -> list[str]:
    """Return what a row says otherwise than the job and the file."""
    found = [
        f"{key} is {row[key]}, not {expected[key]}"
        for key in ("dtype", "shape", "device")
        if row[key] != expected[key]
    ]
    stored = bytes.fromhex(expected["bytes"])
    content = Path(row["path"]).read_bytes()[row["offset"] :][: row["length"]]
    if (row["length"], row["tensor_offset"]) != (len(stored), 0) or content != stored:
        found.append(f"other bytes lie at {row['offset']}, {row['length']}")
    return [f"{row['op']} {row['path']} {row['name']}: {problem}" for problem in found]


def last_step(job: Job, path: str) -> list[dict[str, Any]]:
    """Return the rows of the last save of a file: those it replaced are gone."""
    rows = job.notes("tensor", op="save", engine=ENGINE, path=path)
    return [row for row in rows if row["step"] == rows[-1]["step"]]


def test_every_saved_tensor_lies_where_its_row_says(
    job: Job, truth: dict[str, dict[str, Any]]
) -> None:
    """The file's header is not read: what is computed in its place has to be right."""
    for path, expected in truth.items():
        rows = last_step(job, path)

        assert sorted(row["name"] for row in rows) == sorted(expected), path
        assert [p for row in rows for p in problems(row, expected[row["name"]])] == []


def test_every_loaded_tensor_lies_where_its_row_says(
    job: Job, truth: dict[str, dict[str, Any]], folder: Path
) -> None:
    """A mapped load makes no read: the rows alone say which bytes the job wanted."""
    paths = [str(folder / name) for name in ("kinds.safetensors", "tied.safetensors")]
    paths.append(str(folder / "arrays.safetensors"))
    for path in paths:
        rows = job.notes("tensor", op="load", path=path)

        assert {row["name"] for row in rows} == set(truth[path])
        assert [p for row in rows for p in problems(row, truth[path][row["name"]])] == []


def test_rows_come_in_the_order_of_the_bytes(job: Job, truth: dict[str, dict[str, Any]]) -> None:
    """The library sorts by type and name; a wrong guess of its order would show here."""
    for path in truth:
        rows = last_step(job, path)
        ends = [row["offset"] + row["length"] for row in rows]

        assert [row["offset"] for row in rows][1:] == ends[:-1]
        assert ends[-1:] in ([], [Path(path).stat().st_size])


def test_tensors_that_save_model_leaves_out_have_no_row(job: Job, folder: Path) -> None:
    """Tied weights are written once, under one name."""
    rows = job.notes("tensor", op="save", path=str(folder / "tied.safetensors"))

    assert {row["name"] for row in rows} == {"embedding.weight", "norm.weight", "norm.bias"}


def test_arrays_that_share_memory_are_written_twice(job: Job, folder: Path) -> None:
    """numpy allows it: the bytes in the file are two, and so are the extents."""
    rows = {row["name"]: row for row in last_step(job, str(folder / "arrays.safetensors"))}

    assert rows["base"]["offset"] != rows["shared"]["offset"]
    assert rows["base"]["length"] == rows["shared"]["length"] == 48


def test_a_part_of_a_tensor_has_the_extent_that_it_spans(job: Job, folder: Path) -> None:
    """Ranks load slices: the row says which bytes of the tensor, and where they are."""
    path = folder / "parts.safetensors"
    (whole,) = job.notes("tensor", op="save", path=str(path), name="whole")
    parts = job.notes("tensor", op="load", path=str(path))

    spans = [(row["tensor_offset"], row["length"]) for row in parts]
    assert spans == [(32, 64), (8, 104), (96, 32), (28, 100), (0, 0), (0, 128)]
    assert [row["offset"] - row["tensor_offset"] for row in parts] == [whole["offset"]] * 6
    assert [row["shape"] for row in parts] == [[4, 8]] * 6


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ((2, slice(1, 3)), (68, 8)),
        ((slice(None), -1), (28, 100)),
        (([0, 2],), (0, 128)),
        ((slice(3, 0, -1),), (32, 96)),
        ((slice(9, 12),), (0, 0)),
    ],
    ids=str,
)
def test_parts_are_found_in_numpy_fashion(key: Any, expected: tuple[int, int]) -> None:
    """An unclear choice counts as all of it: too much is said, never too little."""
    assert part_of(Piece("w", "float32", (4, 8), 128), key) == expected


def test_a_failed_save_is_not_told_as_tensors(job: Job, folder: Path) -> None:
    """Nothing was written."""
    for name in ("shared.safetensors", "nowhere/x.safetensors"):
        assert job.notes("tensor", path=str(folder / name)) == []
    assert job.notes("span", path=str(folder / "shared.safetensors")) == []


def test_every_open_file_is_one_load(job: Job, folder: Path) -> None:
    """Tensors taken one by one, by several threads or long after, belong to one load."""
    rows = job.notes("tensor", op="load", path=str(folder / "kinds.safetensors"))
    spans = job.notes("span", op="load", path=str(folder / "kinds.safetensors"))
    counts = Counter(row["step"] for row in rows)

    assert list(counts) == [span["step"] for span in spans][:-1]  # the last asked for no tensor
    assert list(counts.values())[3:] == [1, 4]
    assert job.notes("span", path=str(folder / "missing.safetensors")) == []


def test_a_save_while_a_file_is_open_is_no_part_of_its_load(job: Job, folder: Path) -> None:
    """Converters read one file and write others; each write is a save of its own."""
    saves = [
        job.notes("span", op="save", path=str(folder / f"converted_{name}.st")) for name in "xy"
    ]
    taken = job.notes("tensor", op="load", path=str(folder / "source.st"))

    assert [len(spans) for spans in saves] == [1, 1]
    assert len({row["step"] for row in taken}) == 1
    assert taken[0]["end_ns"] < saves[0][0]["start_ns"] < taken[1]["start_ns"]


def test_hooks_are_bound(job: Job) -> None:
    """A library that has moved on must not fail in silence."""
    bound = {note["name"] for note in job.notes("hook", engine=ENGINE, bound=True)}

    assert bound == {"safetensors_save", "safetensors_load", "safetensors_frameworks"}
    assert job.notes("hook", bound=False) == []


def test_the_job_is_the_same_as_without_hooks(job: Job, folder: Path, tmp_path: Path) -> None:
    """Errors, classes and files are what they would have been."""
    bare = run_job(None, JOBS / "safetensors_cases.py", tmp_path)

    assert (bare.done.stdout, bare.done.stderr) == (job.done.stdout, job.done.stderr)
    assert "FileNotFoundError" in bare.done.stdout
    names = sorted(path.name for path in tmp_path.iterdir() if path.suffix != ".json")
    assert len(names) > 8
    for name in names:
        assert (tmp_path / name).read_bytes() == (folder / name).read_bytes(), name


def test_the_hooks_make_no_request(tmp_path: Path) -> None:
    """Offsets follow from the order, the lengths and the size of the file."""
    script = tmp_path / "job.py"
    script.write_text(
        "import sys, torch\n"
        "from safetensors import safe_open\n"
        "from safetensors.torch import load_file, save_file\n"
        "path = sys.argv[1] + '/x.safetensors'\n"
        "save_file({str(i): torch.full((i * 1000,), float(i)) for i in range(20)}, path)\n"
        "load_file(path), load_file(path, backend='pread')\n"
        "with safe_open(path, 'pt') as file:\n"
        "    file.get_slice('7')[2:3]\n"
    )
    folder = tmp_path / "files"
    folder.mkdir()

    hooked = run_job(tmp_path / "hooked", script, folder)
    unhooked = run_job(tmp_path / "unhooked", script, folder, boot=tmp_path / "nowhere.py")

    assert unhooked.notes("hook") == []
    assert len(hooked.notes("tensor")) == 20 * 3 + 1
    assert requests_below(folder, hooked) == requests_below(folder, unhooked)


class PausedEmitter(Emitter):
    """Keeps whether recording is paused; writes nothing."""

    def __init__(self) -> None:
        self.depth = 0

    def pause(self) -> None:
        self.depth += 1

    def resume(self) -> None:
        self.depth -= 1


def test_arguments_of_older_libraries_give_the_same_rows(tmp_path: Path) -> None:
    """Before 0.8 a save is given dicts with bytes.

    The library here refuses to sort those, so the header is read, as with unknown types.
    """
    import safetensors
    from safetensors.numpy import save_file

    arrays = {"b": np.ones(3, np.float32), "a": np.ones(2, np.int64), "c": np.ones(5, np.uint8)}
    path = str(tmp_path / "x.safetensors")
    save_file(arrays, path)
    given = {
        name: {"dtype": array.dtype.name, "shape": list(array.shape), "data": array.tobytes()}
        for name, array in arrays.items()
    }
    emitter = PausedEmitter()

    pieces = saved_pieces(given, path, safetensors, emitter)

    assert [piece.name for piece in pieces] == ["a", "b", "c"]
    assert pieces == read_pieces(path, emitter)
    assert emitter.depth == 0
