"""Traces made to harm: refused or confined, in one line, and nothing outside is touched."""

from __future__ import annotations

import ctypes
import os
import resource
import struct
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest

from iotrace.replay.build import plan_from_trace
from iotrace.traces.errors import PlanError
from iotrace.traces.trace import Ints, Strings, Trace
from iotrace.traces.writer import write_trace

from .command import iotrace
from .conftest import Make, Row, build, metadata

CREATE = os.O_WRONLY | os.O_CREAT
MEMORY_BYTES = 1 << 30
SECONDS = 60
EXABYTE = 10**18
# <sys/inotify.h>: whatever changes a file, a name or an attribute.
_CHANGES = 0x2 | 0x4 | 0x8 | 0x40 | 0x80 | 0x100 | 0x200 | 0x400 | 0x800


@contextmanager
def watched(*folders: Path) -> Iterator[list[str]]:
    """Let the kernel tell every change in `folders`, whoever makes it."""
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = libc.inotify_init1(os.O_NONBLOCK)
    places = {libc.inotify_add_watch(descriptor, os.fsencode(f), _CHANGES): f for f in folders}
    changes: list[str] = []
    try:
        yield changes
        while True:
            try:
                events = os.read(descriptor, 1 << 16)
            except BlockingIOError:
                break
            while events:
                place, mask, _, size = struct.unpack_from("iIII", events)
                name = events[16 : 16 + size].rstrip(b"\0").decode()
                changes.append(f"{places[place]}/{name}: {mask:#x}")
                events = events[16 + size :]
    finally:
        os.close(descriptor)


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """What a trace could reach if it got out of the root: files beside it and above it."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "precious").write_text("do not touch")
    return folder


def run(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run the command with as much memory and time as a hostile trace may cost."""
    return iotrace(
        *arguments, cwd=cwd, limits={resource.RLIMIT_DATA: MEMORY_BYTES}, seconds=SECONDS
    )


def replayed(trace: Path, tmp_path: Path, outside: Path) -> subprocess.CompletedProcess[str]:
    """Replay in a root of its own; fail on any change around it, a traceback or a second line."""
    root = tmp_path / "root"
    root.mkdir(exist_ok=True)
    around = (outside, tmp_path, tmp_path.parent)
    before = sorted(tmp_path.iterdir())
    with watched(*around) as changes:
        done = run("replay", trace, "--root", root, cwd=tmp_path)
    assert changes == []
    assert sorted(tmp_path.iterdir()) == before
    assert (outside / "precious").read_text() == "do not touch"
    assert list(root.iterdir()) == []
    assert "Traceback" not in done.stderr
    if done.returncode == 2:
        assert len(done.stderr.splitlines()) == 1, done.stderr
    return done


def written(path: str, length: int = 100, offset: int = 0) -> list[Row]:
    """A file opened, written and closed."""
    return [
        Row("open", path=path, flags=CREATE),
        Row("write", path=path, offset=offset, length=length, result=length),
        Row("close", path=path),
    ]


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("../../x", "climbs"),
        ("/a/../../../x", "climbs"),
        ("/" + "p" * 5000, "255 bytes"),
        ("/" + "/".join(["q" * 200] * 25), "bytes"),
        ("/" + "d/" * 2000 + "x", "folders deep"),
        ("/nul\0byte", "NUL"),
        ("/", "names no file"),
        ("/.", "names no file"),
        ("", "names no file"),
        ("/half\ud800", "no bytes"),
    ],
)
def test_a_name_that_no_replay_may_use_is_refused(path: str, words: str) -> None:
    """Before anything is made, in a line that fits the screen however long the name is."""
    with pytest.raises(PlanError, match=words) as caught:
        plan_from_trace(build(written(path), metadata()))
    assert len(str(caught.value)) < 250
    assert "\n" not in str(caught.value)


def test_a_name_that_climbs_is_refused_by_the_command(
    make_trace: Make, tmp_path: Path, outside: Path
) -> None:
    """One line, status 2, and not a file made anywhere."""
    done = replayed(make_trace(written("../../x")), tmp_path, outside)
    assert done.returncode == 2
    assert "climbs" in done.stderr


def test_any_other_name_stays_below_the_root(
    make_trace: Make, tmp_path: Path, outside: Path
) -> None:
    """An absolute path is a path below the root; odd ones are names like others."""
    paths = (
        *("/etc/passwd", "/proc/self/mem", "/dev/sda", "/sys/power/state", "/new\nline"),
        *("/esc\x1b[2J", "/tab\there", "relative/name", "//double///slash", "/byte\udcff"),
        *("/-rf", "/~", "/$HOME", "/*", "/" + "n" * 255, str(outside / "precious")),
    )
    before = Path("/etc/passwd").read_bytes()
    trace = make_trace([row for path in paths for row in written(path)])
    done = replayed(trace, tmp_path, outside)
    assert done.returncode == 0, done.stderr
    assert Path("/etc/passwd").read_bytes() == before
    shown = run("show", trace, "--files", "--requests", cwd=tmp_path)
    assert shown.returncode == 0
    assert "\x1b" not in shown.stdout


def two_names(op: str, path: str, target: str) -> Trace:
    """A file that is written, and given another name."""
    rows = 2
    return Trace.from_columns(
        {
            "layer": Strings.constant("request", rows),
            "op": Strings.of(["write", op]),
            "path": Strings.of([path, path]),
            "target": Strings.of([None, target]),
            "file": np.zeros(rows, np.int64),
            "offset": Ints(np.zeros(rows, np.int64), np.array([True, False])),
            "length": Ints(np.full(rows, 10), np.array([True, False])),
            "result": Ints(np.array([10, 0]), np.array([True, True])),
            "start_ns": np.arange(rows),
        },
        metadata(),
    )


@pytest.mark.parametrize("op", ["rename", "link"])
@pytest.mark.parametrize("target", ["../../x", "/a/../../x", "/"])
def test_no_second_name_leads_out(op: str, target: str) -> None:
    """The target of a rename or a link is a name like any other."""
    with pytest.raises(PlanError):
        plan_from_trace(two_names(op, "/a/x", target))


def test_a_symbolic_link_that_appears_meanwhile_leads_nowhere(
    make_trace: Make, tmp_path: Path, outside: Path
) -> None:
    """Somebody swaps a folder of the running replay for a link to the outside."""
    rows = [row for i in range(300) for row in written(f"/deep/folder/{i}/precious")]
    trace = make_trace(rows)
    root = tmp_path / "root"
    root.mkdir()
    stop = threading.Event()
    swapped = 0

    def swap() -> None:
        nonlocal swapped
        while not stop.is_set():
            with suppress(OSError):  # the replay is as fast
                for folder in root.glob("iotrace-replay-*/deep/*"):
                    if not folder.is_symlink():
                        folder.rename(folder.with_name(f"gone{swapped}"))
                        folder.symlink_to(outside)
                        swapped += 1

    attacker = threading.Thread(target=swap)
    attacker.start()
    try:
        with watched(outside) as changes:
            for _ in range(2):
                run("replay", trace, "--root", root, "--repeat", 2, cwd=tmp_path)
    finally:
        stop.set()
        attacker.join()
    assert swapped > 0
    assert changes == []
    assert [path.name for path in outside.iterdir()] == ["precious"]


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (written("/a", 2**63 - 1), "hold"),
        (written("/a", 100, 2**63 - 200), "hold"),
        (written("/a", 100, 2**61), "hold"),
        ([row for i in range(10) for row in written(f"/{i}", EXABYTE)], "EiB"),
    ],
)
def test_numbers_that_no_file_has_are_refused(rows: Sequence[Row], words: str) -> None:
    """2^63 bytes, and ten exabytes in all: before memory or storage is asked for."""
    with pytest.raises(PlanError, match=words):
        plan_from_trace(build(rows, metadata()))


@pytest.mark.parametrize(
    ("rows", "statuses"),
    [
        ([Row("read", path="/a", offset=0, length=EXABYTE, result=EXABYTE)], {2}),
        ([*written("/a"), Row("allocate", path="/a", offset=0, length=EXABYTE)], {1, 2}),
        # No space is needed for these; the file system has the last word.
        ([*written("/a"), Row("truncate", path="/a", length=EXABYTE)], {0, 1, 2}),
        (written("/a", 10, EXABYTE), {0, 1, 2}),
        ([*written("/a"), *written("/a/b"), *written("/a/b/c"), *written("/b", 9, -5)], {0, 1, 2}),
    ],
)
def test_what_does_not_fit_is_told_and_does_no_harm(
    rows: Sequence[Row], statuses: set[int], make_trace: Make, tmp_path: Path, outside: Path
) -> None:
    """An exabyte to be read, allocated or skipped; a file that is a folder as well."""
    done = replayed(make_trace(rows), tmp_path, outside)
    assert done.returncode in statuses, done.stderr


def test_a_cycle_of_renames_ends(tmp_path: Path, outside: Path) -> None:
    """a to b to c to a, ten thousand times: no name is followed for ever."""
    turns = 9_999
    names = ["/a", "/b", "/c"]
    paths = ["/a", *(names[i % 3] for i in range(turns))]
    targets = [None, *(names[(i + 1) % 3] for i in range(turns))]
    rows = len(paths)
    first = np.arange(rows) == 0
    trace = Trace.from_columns(
        {
            "layer": Strings.constant("request", rows),
            "op": Strings.of(["write", *["rename"] * turns]),
            "path": Strings.of(paths),
            "target": Strings.of(targets),
            "file": np.zeros(rows, np.int64),
            "offset": Ints(np.zeros(rows, np.int64), first),
            "length": Ints(np.full(rows, 10), first),
            "result": np.where(first, 10, 0),
            "start_ns": np.arange(rows),
        },
        metadata(),
    )
    path = tmp_path / "t.parquet"
    write_trace(trace, path)
    assert replayed(path, tmp_path, outside).returncode == 0
    assert run("show", path, cwd=tmp_path).returncode == 0
