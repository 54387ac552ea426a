"""A replay on machines that see the same files and have page caches of their own."""

import json
import os
import shutil
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from iotrace.replay.sketch import sketch_trace
from iotrace.traces.writer import write_trace
from tests.replay.slow_mount import SlowMount, slow_mount

BIN = Path(sys.executable).parent
REPEAT = 2  # after a warm-up
SAVE = "process {0}\nopen {0} w+create\nwrite {0} 0 100000\nclose {0}\n"
LOAD = "process {0}\nopen {1} r\nread {1} 0 100000\nclose {1}\n"


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[tuple[SlowMount, SlowMount]]:
    """What two machines ask of one server, each through a mount and a cache of its own."""
    pytest.importorskip("torch")
    with ExitStack() as mounts:
        folders = [tmp_path / "mount-0", tmp_path / "mount-1"]
        for folder in folders:
            folder.mkdir()
        first = mounts.enter_context(slow_mount(folders[0], 0.0, cached=True))
        second = mounts.enter_context(slow_mount(folders[1], 0.0, cached=True, other=first))
        yield first, second


def replay(text: str, folder: Path) -> dict[str, list[float]]:
    """Replay a job of two processes, each on its own machine; return what was measured."""
    if shutil.which("unshare") is None:
        pytest.skip("needs unshare")
    trace, root = folder / "trace.parquet", folder / "root"
    write_trace(sketch_trace(text), trace)
    root.mkdir()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ("--root", root, "--repeat", REPEAT, "--json", "-")
    running = [
        subprocess.Popen(
            ["unshare", "--mount", "sh", "-c", 'mount --bind "$0" "$1" && shift && exec "$@"',
             folder / f"mount-{number}", root, BIN / "iotrace", "replay", trace,
             *map(str, options)],
            env={**os.environ, "PMI_RANK": str(number), "PMI_SIZE": "2",
                 "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for number in range(2)
    ]  # fmt: skip
    told = [process.communicate(timeout=200) for process in running]
    assert [process.returncode for process in running] == [0, 0], told
    found = json.loads(told[0][0])
    assert found["degraded"] == []
    return found["replayed"]


def asked(mount: SlowMount) -> Counter[str]:
    """Return what a machine asked for since the last call."""
    with mount.lock:
        seen, mount.seen = mount.seen, Counter()
    return seen


def test_each_run_reads_from_storage_on_every_machine(
    machines: tuple[SlowMount, SlowMount], tmp_path: Path
) -> None:
    """Files that stay from run to run were read by the other machine in the run before."""
    replay("step 0\n" + LOAD.format(0, "a") + LOAD.format(1, "b"), tmp_path)
    first, second = map(asked, machines)
    assert second["read"] >= 1 + REPEAT
    assert first["read"] >= 1 + REPEAT


def test_what_another_machine_wrote_is_durable_and_read_from_storage(
    machines: tuple[SlowMount, SlowMount], tmp_path: Path
) -> None:
    """Each loads what it saved: no cache of any machine has it, and each has synced its own."""
    saves = "step 0\n" + SAVE.format(0) + SAVE.format(1)
    loads = "step 1\n" + LOAD.format(0, 0) + LOAD.format(1, 1)
    replay(saves + loads, tmp_path)
    for seen in map(asked, machines):
        assert seen["fsync"] >= 1 + REPEAT
        assert seen["read"] >= 1 + REPEAT


def test_each_machine_syncs_in_the_end_what_it_wrote(
    machines: tuple[SlowMount, SlowMount], tmp_path: Path
) -> None:
    """What lies in the cache of one is not made durable by a sync on the other."""
    replay("step 0\n" + SAVE.format(0) + SAVE.format(1), tmp_path)
    for seen in map(asked, machines):
        assert seen["fsync"] >= 1 + REPEAT
