"""An unchanged replay of every trace in the corpus, as strace sees it, is the plan."""

import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

from iotrace.replay.build import plan_from_trace
from iotrace.replay.job import Op
from iotrace.replay.plan import Plan
from iotrace.traces.reader import read_trace

Call = tuple[str, int, int]  # op, and what the op says of a place: offset and length

IOTRACE = Path(sys.executable).with_name("iotrace")
CORPUS = sorted(Path(str(files("iotrace.traces"))).glob("corpus/*.parquet"))
CALLS = {
    "pread64": Op.READ, "pwrite64": Op.WRITE, "fsync": Op.SYNC, "fdatasync": Op.SYNC,
    "sync_file_range": Op.SYNC, "ftruncate": Op.TRUNCATE, "fallocate": Op.ALLOCATE,
    "close": Op.CLOSE,
}  # fmt: skip
LINE = re.compile(r"^(\d+\.\d+) (\w+)\(\d+<([^>]*)>(?:, (.*))?\) += (-?\d+)")
# A read and a write in several parts would be other calls than these, and be missed.
TRACED = ",".join([*CALLS, "preadv", "pwritev", "preadv2", "pwritev2"])


def as_seen(call: str, arguments: str) -> Call:
    """Return a system call in the words of the plan."""
    op = CALLS[call]
    numbers = [int(word) for word in re.findall(r"(?<![\w\"])\d+(?!\w)", arguments)]
    if op in (Op.READ, Op.WRITE):
        return op.name, numbers[-1], numbers[-2]
    if op == Op.TRUNCATE:
        return op.name, 0, numbers[0]
    return op.name, 0, 0


def observed(logs: Path, root: Path) -> dict[str, list[Call]]:
    """Return the calls on each file below the workspace, in order, of all but the main threads.

    These prepare and sync files, off the clock.
    """
    lines: list[tuple[float, str, Call]] = []
    mains = {min(int(log.suffix[1:]) for log in logs.iterdir())}
    for log in logs.iterdir():
        for line in log.read_text(errors="surrogateescape").splitlines():
            match = LINE.match(line)
            if match is None or int(log.suffix[1:]) in mains or not match[3].startswith(str(root)):
                continue
            path = match[3][len(str(root)) + 1 :].partition("/")[2].removesuffix(" (deleted)")
            lines.append((float(match[1]), path, as_seen(match[2], match[4] or "")))
    found: dict[str, list[Call]] = defaultdict(list)
    for _, path, call in sorted(lines, key=lambda line: line[0]):
        found[path].append(call)
    return found


def planned(plan: Plan) -> dict[str, list[Call]]:
    """Return the calls on each file, by the name it has at each."""
    rows = plan.requests
    opened: dict[int, str] = {}
    renamed: dict[str, str] = {}
    found: dict[str, list[Call]] = defaultdict(list)
    for row in rows:
        op = Op(int(row["op"]))
        if op == Op.OPEN:
            opened[int(row["handle"])] = plan.paths[row["path"]]
        elif op == Op.RENAME:
            renamed[plan.paths[row["path"]]] = plan.paths[row["target"]]
        if op not in CALLS.values() or row["handle"] < 0:
            continue
        path = opened[int(row["handle"])]
        length = int(row["length"]) if op in (Op.READ, Op.WRITE, Op.TRUNCATE) else 0
        offset = int(row["offset"]) if op in (Op.READ, Op.WRITE) else 0
        found[renamed.get(path, path)].append((op.name, offset, length))
    return found


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
@pytest.mark.parametrize("trace", CORPUS, ids=lambda path: path.stem)
def test_an_unchanged_replay_makes_exactly_the_recorded_calls(trace: Path, tmp_path: Path) -> None:
    """The tool's first promise, judged from outside: same files, offsets, lengths and order."""
    logs, root = tmp_path / "logs", tmp_path / "root"
    logs.mkdir()
    root.mkdir()
    strace = ["strace", "-ff", "-y", "-ttt", "-s", "0", "-e", f"trace={TRACED}", "-o", logs / "log"]
    replay = [IOTRACE, "replay", trace, "--executor", "posix", "--warm", "--root", root]
    subprocess.run([*strace, *replay], check=True, stdout=subprocess.DEVNULL, env={**os.environ})
    plan = plan_from_trace(read_trace(str(trace)))
    seen, wanted = observed(logs, root), planned(plan)
    data = {path: calls for path, calls in wanted.items() if calls}
    assert {path: len(calls) for path, calls in seen.items() if path in data} == {
        path: len(calls) for path, calls in data.items()
    }
    several = np.unique(np.stack([plan.requests["file"], plan.requests["stream"]]), axis=1)
    shared = len(np.unique(several[0])) < several.shape[1]
    for path, calls in data.items():
        # The streams of one file have no order among each other.
        assert (sorted(seen[path]) == sorted(calls)) if shared else (seen[path] == calls), path
