"""An unchanged replay of every trace in the corpus, as strace sees it, is the plan."""

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

from .strace import STRACE

Call = tuple[str, int, int]  # op, and what the op says of a place: offset and length

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


# Each command is a process of its own; the imports are strace's to follow only once.
REPLAY_EACH = """
import os, sys
from iotrace.tools import __main__, cli
for trace, root in zip(sys.argv[1::2], sys.argv[2::2]):
    pid = os.fork()
    if not pid:
        sys.argv = ["iotrace", "replay", trace, "--executor", "posix", "--warm", "--root", root]
        sys.exit(__main__.main())
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    print(trace, pid, status, file=sys.stderr)
"""


def observed(logs: Path, mains: set[int], roots: Path) -> dict[tuple[str, str], list[Call]]:
    """Return the calls on each file in a workspace, in order, by root and path.

    Those of main threads, and of threads that move no byte, are left out: these prepare files and
    sync them in the end, off the clock of what is recorded.
    """
    lines: list[tuple[float, str, str, Call]] = []
    for log in logs.iterdir():
        text = log.read_text(errors="surrogateescape")
        if int(log.suffix[1:]) in mains or not re.search(r" p(read|write)64\(", text):
            continue
        for line in text.splitlines():
            match = LINE.match(line)
            if match is None or not match[3].startswith(f"{roots}/"):
                continue
            root, _, below = match[3][len(str(roots)) + 1 :].partition("/")
            path = below.partition("/")[2].removesuffix(" (deleted)")
            lines.append((float(match[1]), root, path, as_seen(match[2], match[4] or "")))
    found: dict[tuple[str, str], list[Call]] = defaultdict(list)
    for _, root, path, call in sorted(lines, key=lambda line: line[0]):
        found[root, path].append(call)
    return found


@pytest.fixture(scope="module")
def replayed(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], list[Call]]:
    """Replay each trace in a folder of its name; return what strace saw there."""
    if shutil.which("strace") is None:
        pytest.skip("needs strace")
    logs, roots = tmp_path_factory.mktemp("logs"), tmp_path_factory.mktemp("roots")
    strace = [*STRACE, "-ttt", "-s", "0", "-e", f"trace={TRACED}", "-o", logs / "log"]
    words: list[Path] = []
    for trace in CORPUS:
        (roots / trace.stem).mkdir()
        words += [trace, roots / trace.stem]
    done = subprocess.run(
        [*strace, sys.executable, "-c", REPLAY_EACH, *words],
        check=True, text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    lines = [line.split() for line in done.stderr.splitlines()]
    ended = {line[0]: (int(line[1]), int(line[2])) for line in lines if len(line) == 3}
    assert {trace: status for trace, (_, status) in ended.items()} == {
        str(trace): 0 for trace in CORPUS
    }
    return observed(logs, {pid for pid, _ in ended.values()}, roots)


def planned(plan: Plan) -> dict[str, list[Call]]:
    """Return the calls on each file, by the name it has at each."""
    rows = plan.requests
    opened: dict[int, str] = {}
    renamed: dict[str, str] = {}
    found: dict[str, list[Call]] = defaultdict(list)
    for row in rows.lowered():
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


@pytest.mark.parametrize("trace", CORPUS, ids=lambda path: path.stem)
def test_an_unchanged_replay_makes_exactly_the_recorded_calls(
    trace: Path, replayed: dict[tuple[str, str], list[Call]]
) -> None:
    """The tool's first promise, judged from outside: same files, offsets, lengths and order."""
    plan = plan_from_trace(read_trace(str(trace)))
    seen = {path: calls for (root, path), calls in replayed.items() if root == trace.stem}
    wanted = planned(plan)
    data = {path: calls for path, calls in wanted.items() if calls}
    assert {path: len(calls) for path, calls in seen.items() if path in data} == {
        path: len(calls) for path, calls in data.items()
    }
    several = np.unique(np.stack([plan.requests["file"], plan.requests["stream"]]), axis=1)
    shared = len(np.unique(several[0])) < several.shape[1]
    for path, calls in data.items():
        # The streams of one file have no order among each other.
        assert (sorted(seen[path]) == sorted(calls)) if shared else (seen[path] == calls), path
