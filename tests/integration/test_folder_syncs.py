"""Syncs of folders, from the job to the replay: as strace sees them at both ends."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from iotrace.traces.digest import workload_digest
from iotrace.traces.reader import read_trace
from iotrace.traces.requests import Requests
from iotrace.traces.sync_kind import OF_FOLDER, SyncKind, syncs_folder
from iotrace.traces.trace import Trace
from tests.tools.command import IOTRACE, iotrace

pytestmark = pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")

JOB = Path(__file__).parent / "jobs" / "atomic_saves.py"
CALLS = "fsync,fdatasync,rename,renameat,renameat2"
SYNC = re.compile(r"(fsync|fdatasync)\(\d+<([^>]*)>\) += 0")
RENAME = re.compile(r'rename\w*\(.*"([^"]*)"(?:, \w+)?\) += 0')

FILES = re.compile(r"part-\d|latest|model|probe-")

Event = tuple[str, str]  # call, and the last component of what it is on


def seen(log: Path, top: Path) -> list[Event]:
    """Return the renames, and the syncs of what is a folder, in a log of strace -f -y."""
    found: list[Event] = []
    for line in log.read_text().splitlines():
        if match := SYNC.search(line):
            path = Path(match[2])
            if top in (path, *path.parents) and not FILES.match(path.name):
                found.append((match[1], path.name))
        elif match := RENAME.search(line):
            found.append(("rename", Path(match[1]).name))
    return found


def rows_of(trace: Trace) -> list[Event]:
    """Return the same of a trace's requests."""
    rows = trace.where(trace.row_mask(op=("rename", "sync")))
    columns = (rows.strings("op"), rows.ints("flags").tolist(), rows.strings("path"))
    found: list[Event] = []
    for op, kind, path, target in zip(*columns, rows.strings("target"), strict=True):
        if op == "rename":
            found.append(("rename", Path(target or "").name))
        elif kind in OF_FOLDER:
            call = "fsync" if kind == SyncKind.FOLDER else "fdatasync"
            found.append((call, Path(path or "").resolve().name))
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of the job's trace, what strace saw meanwhile, and that as a trace."""
    folder = tmp_path_factory.mktemp("saved")
    (folder / "ckpt").mkdir()
    strace = ("strace", "-f", "-y", "-ttt", "-T", "-o", folder / "log")
    command = (*strace, sys.executable, "-S", JOB, folder / "ckpt")
    only = ("--include", f"{folder}/ckpt*")
    done = iotrace("capture", "-o", folder / "captured.parquet", *only, "--", *command)
    assert done.returncode == 0, done.stderr
    done = iotrace("convert", folder / "log", folder / "imported.parquet", *only)
    assert done.returncode == 0, done.stderr
    return folder


EXPECTED = [
    *[("rename", f"part-{part}") for part in range(3)],
    ("fsync", "step-{step}"),
    ("fdatasync", "ckpt"),
    ("rename", "latest"),
    ("fsync", "ckpt"),
]


def expected() -> list[Event]:
    saves = [(call, name.format(step=step)) for step in range(2) for call, name in EXPECTED]
    return [*saves, ("rename", "model"), ("fsync", "real")]


@pytest.mark.parametrize("source", ["captured", "imported"])
def test_folder_syncs_are_requests_in_their_order(folder: Path, source: str) -> None:
    """As the kernel saw them, and nothing else of folders."""
    assert seen(folder / "log", folder / "ckpt") == expected()
    trace = read_trace(folder / f"{source}.parquet")
    assert rows_of(trace) == expected()
    syncs = trace.where(trace.row_mask(op="sync"))
    syncs = syncs.where(syncs_folder(syncs.ints("flags")))
    assert not syncs.valid("file").any()
    paths = {path for path in trace.where(trace.row_mask(op="open")).strings("path") if path}
    assert not paths & {path for path in syncs.strings("path") if path}
    assert trace.metadata.completeness.problems() == [] or source == "imported"


def test_a_folder_is_called_as_its_files_are(folder: Path) -> None:
    """The job goes through a link, and the kernel does not."""
    trace = read_trace(folder / "captured.parquet")
    syncs = trace.where(trace.row_mask(op="sync"))
    assert syncs.strings("path")[-1] == f"{folder}/ckpt/link"


def test_names_that_are_synced_are_durable(folder: Path) -> None:
    """That is what the sync of a folder is for."""
    trace = read_trace(folder / "captured.parquet")
    assert int(Requests.of(trace).is_folder_sync.sum()) == 7
    done = iotrace("why", folder / "captured.parquet", "--no-probe")
    assert re.search(r"durable +yes: \d files synced at return", done.stdout), done.stdout


def test_shared_folders_keep_their_files(folder: Path, tmp_path: Path) -> None:
    """The pseudonym of a folder is that of the part of a path."""
    done = iotrace("share", folder / "captured.parquet", "-o", tmp_path / "public.parquet")
    assert done.returncode == 0, done.stderr
    shared = read_trace(tmp_path / "public.parquet")
    rows = shared.where(shared.row_mask(op=("rename", "sync")))
    path, target = rows.strings("path"), rows.strings("target")
    at = rows.ints("flags").tolist().index(SyncKind.FOLDER)
    assert path[at] == str(Path(target[at - 1] or "").parent)
    assert workload_digest(shared) == workload_digest(read_trace(folder / "captured.parquet"))


@pytest.mark.parametrize(
    ("source", "executor", "timing"),
    [
        ("captured", "posix", "asap"),
        ("captured", "io_uring", "asap"),
        ("captured", "io_uring", "recorded"),
        ("imported", "posix", "recorded"),
    ],
)
def test_a_replay_makes_them_too(
    folder: Path, source: str, executor: str, timing: str, tmp_path: Path
) -> None:
    """In number, kind and order, and each behind the renames that it makes durable."""
    root, log, result = tmp_path / "root", tmp_path / "log", tmp_path / "result.parquet"
    root.mkdir()
    options = ("--executor", executor, "--timing", timing, "--verify", "--root", root)
    replay = (IOTRACE, "replay", folder / f"{source}.parquet", *options, "-o", result)
    strace = ("strace", "-f", "--seccomp-bpf", "-y", "-s", "256", "-o", log)
    subprocess.run([*strace, "-e", f"trace={CALLS}", *replay], check=True, capture_output=True)
    wanted = [(call, name.replace("real", "link")) for call, name in expected()]
    if source == "imported":
        wanted = expected()
    assert [event for event in seen(log, root) if event[1] != result.name] == wanted
    assert rows_of(read_trace(result)) == expected()
    done = iotrace("replay", result, "--root", root)  # a result is a trace
    assert done.returncode == 0, done.stderr
