"""A replay under capture: what the executor issued, seen by something that did not issue it."""

import json
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from iotrace.traces.reader import read_trace
from iotrace.traces.trace import Trace
from tests.tools.command import IOTRACE, iotrace

Requests = Counter[tuple[str, int, int, int]]

SAVE_AND_LOAD = """
import sys, torch
torch.save({f"w{i}": torch.arange(10_000 + 77 * i) for i in range(40)}, sys.argv[1])
torch.load(sys.argv[1])
"""


def run(*arguments: object) -> None:
    done = iotrace(*arguments)
    assert done.returncode == 0, done.stderr


def data_requests(trace: Trace, layer: str = "request", api: str | None = None) -> Requests:
    """Return op, offset, length and result of the reads and writes of the checkpoint."""
    codes, paths = trace.codes("path")
    wanted = np.isin(codes, [code for code, path in enumerate(paths) if path.endswith("model.pt")])
    if api:
        codes, apis = trace.codes("api")
        wanted &= codes == apis.index(api)
    found: Requests = Counter()
    for op in ("read", "write"):
        rows = trace.where(wanted & trace.row_mask(layer=layer, op=op))
        columns = (rows.ints(name).tolist() for name in ("offset", "length", "result"))
        found.update((op, *extent) for extent in zip(*columns, strict=True))
    return found


def extents(requests: Requests) -> Counter[tuple[str, int, int]]:
    """Return the requests by what they moved: a read may ask for more than there is left."""
    moved: Counter[tuple[str, int, int]] = Counter()
    for (op, offset, _, result), count in requests.items():
        if result:
            moved[op, offset, result] += count
    return moved


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a checkpoint, and of the trace of its saving and loading."""
    folder = tmp_path_factory.mktemp("recorded")
    command = (sys.executable, "-c", SAVE_AND_LOAD, folder / "model.pt")
    run("capture", "-o", folder / "trace.parquet", "--", *command)
    return folder


@pytest.mark.parametrize(
    ("options", "is_unchanged"),
    [
        (("--queue-depth", 8), True),
        (("--queue-depth", 4, "--coalesce-size", "256KiB", "--gather"), False),
        (("--direct", "--align"), False),
    ],
    ids=["unchanged", "gathered", "direct"],
)
def test_the_trace_of_a_replay_is_what_was_planned(
    recorded: Path, tmp_path: Path, options: tuple[object, ...], is_unchanged: bool
) -> None:
    """The two halves check one another: one issues through a ring what the other must see there."""
    run(
        *("capture", "-o", tmp_path / "trace.parquet", "--"),
        *(IOTRACE, "replay", recorded / "trace.parquet", "--executor", "io_uring", *options),
        *("--root", tmp_path, "-o", tmp_path / "result.parquet"),
        *("--json", tmp_path / "result.json"),
    )
    trace = read_trace(tmp_path / "trace.parquet")
    seen = data_requests(trace, api="io_uring")
    assert seen == data_requests(read_trace(tmp_path / "result.parquet"), layer="replay")
    planned = json.loads((tmp_path / "result.json").read_text())["planned"]
    assert seen.total() == planned["data_requests"]
    assert trace.metadata.completeness.unmatched_completions == 0
    if is_unchanged:
        assert extents(seen) == extents(data_requests(read_trace(recorded / "trace.parquet")))


NAMELESS = """
import os, sys
made = f"{sys.argv[1]}/made"
os.mkdir(made)
for name, said, folder in (("a", 777, sys.argv[1]), ("b", 555, made)):
    fd = os.open(folder, os.O_TMPFILE | os.O_RDWR)
    os.write(fd, bytes(range(256)) * said)
    at = {"src_dir_fd": fd, "follow_symlinks": True}  # without the first, Python follows no link
    os.link(f"/proc/self/fd/{fd}", f"{folder}/{name}", **at)
    os.close(fd)
with open(f"{sys.argv[1]}/a", "rb") as file:
    file.read()
"""


def test_a_file_made_without_a_name_gets_the_one_that_it_is_linked_to(tmp_path: Path) -> None:
    """O_TMPFILE, then a link from /proc/self/fd, is how careful programs write."""
    folder, root = tmp_path / "job", tmp_path / "root"
    folder.mkdir()
    root.mkdir()
    trace = tmp_path / "trace.parquet"
    run("capture", "-o", trace, "--", sys.executable, "-c", NAMELESS, folder)
    told = iotrace("replay", trace, "--root", root, "--keep", "--verify", "--json", "-")
    assert told.returncode == 0, told.stderr
    assert json.loads(told.stdout)["verified"] is True
    names = sorted((path.name, path.stat().st_size) for path in root.rglob("?") if path.is_file())
    assert names == [("a", 777 * 256), ("b", 555 * 256)]
    assert not list(root.rglob("[0-9]"))
