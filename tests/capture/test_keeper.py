"""Processes that may write no log themselves: other users, other root folders."""

from __future__ import annotations

import os
import resource
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from errno import EAGAIN, ENOSPC
from pathlib import Path

import numpy as np
import pytest

from iotrace.capture.keeper import (
    GROW,
    KEEP_ENTRY,
    LOG,
    NEW_LOG,
    OUTCOME,
    PART,
    PROC_FILE,
    PROC_LINK,
    QUESTION,
    WAITING_MAX,
    keeping,
)
from iotrace.capture.roster import BEGIN, ENTRY, read_roster, roster_path, start_roster
from iotrace.capture.session import Captured, CaptureOptions, capture, remove_raw_dir
from tests.integration.strace import file_calls

# 3000 records are more than a chunk of a log holds, so that it has to grow as another user.
WRITES = "g = os.open('x', 66)\nfor i in range(3000): os.pwrite(g, bytes(10), 10 * i)"
DROP = "os.setgroups([]); os.setresgid(*[65534] * 3); os.setresuid(*[65534] * 3)"


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty folder that is the current one; other users may not go through its parent."""
    if os.getuid():
        pytest.skip("changing the user needs root")
    (tmp_path / "job").mkdir(mode=0o777)
    (tmp_path / "job").chmod(0o777)
    tmp_path.chmod(0o700)
    monkeypatch.chdir(tmp_path / "job")
    return tmp_path / "job"


def captured(*command: str) -> Captured:
    """Capture a job that must end well and leave nothing."""
    found = capture(command, CaptureOptions(Path("../raw").absolute()))
    remove_raw_dir(found.raw_dir)
    assert found.status == 0
    assert not found.raw_dir.exists()
    return found


def moved(trace: Captured) -> dict[str, list[tuple[str, int, int]]]:
    """Return op, offset and bytes of the reads and writes of each file."""
    rows = trace.trace.where(trace.trace.row_mask(op=("read", "write")))
    found: dict[str, list[tuple[str, int, int]]] = {}
    columns = (rows.strings("path"), rows.strings("op"), rows.ints("offset"), rows.ints("result"))
    for path, op, offset, result in zip(*columns, strict=True):
        found.setdefault(str(path), []).append((str(op), int(offset), int(result)))
    return found


def seen_by_kernel(command: list[str], folder: Path) -> dict[str, list[int]]:
    """Return the sizes of the writes to the files of a folder, by strace."""

    calls = file_calls(command, folder.parent / "strace", stdin=subprocess.DEVNULL)
    return {
        path: c.write_sizes
        for path, c in calls.items()
        if c.writes and folder in Path(path).parents
    }


@pytest.mark.parametrize(
    "script",
    [
        "setpriv --reuid=65534 --clear-groups dd if=/dev/zero of=x bs=1M count=2 status=none",
        "setpriv --reuid=65534 --regid=65534 --clear-groups sh -c 'echo 1 > x; exec dd if=x of=z'",
        "su nobody -s /bin/bash -c 'dd if=/dev/zero of=x bs=3 count=3 status=none; echo 12 > u'",
        "runuser -u nobody -- dd if=/dev/zero of=x bs=3 count=3 status=none",
        f'{sys.executable} -S -c "import os\n{DROP}\n{WRITES}"',
        f"{sys.executable} -S -c \"import os\nos.write(os.open('y', 66), b'1')\n{DROP}\n{WRITES}\"",
    ],
    ids=["setpriv", "exec after exec", "su", "runuser", "in the program", "after its first writes"],
)
def test_what_another_user_does_is_recorded(job: Path, script: str) -> None:
    """It may not make a file in the folder of the raw logs, and does not even reach it."""
    program = script.split()[0]
    if not shutil.which(program):
        pytest.skip(f"no {program}")
    command = ["bash", "-c", f"head -c 10 /dev/zero > here; {script}"]
    found = captured(*command)
    assert found.trace.metadata.completeness.problems() == []
    recorded = {
        path: [result for op, _, result in rows if op == "write"]
        for path, rows in moved(found).items()
    }
    for left in job.iterdir():
        left.unlink()
    assert recorded == seen_by_kernel(command, job)


def test_the_paths_of_another_root_folder_are_those_of_the_launcher(job: Path) -> None:
    """It finds neither the folder of the raw logs nor /proc, and says `/z` to what is in here."""
    (job / "sub").mkdir()
    code = (
        "import os\nf = os.open('sub/first', 66); os.chroot('.'); os.chdir('/')\n"
        "os.write(f, bytes(5)); os.write(os.open('z', 66), bytes(7))\n"
        "os.write(os.open('/sub/w', 66), bytes(9))\n"
        "os.write(os.open('v', 66, dir_fd=os.open('/sub', 0)), bytes(11))\n"
        "os.rename('/z', 'sub/zz')\n"
    )
    found = captured(sys.executable, "-S", "-c", code)
    assert found.trace.metadata.completeness.problems() == []
    rows = found.trace.where(found.trace.row_mask(op="rename"))
    assert list(rows.strings("path")) == [str(job / "z")]
    assert list(rows.strings("target")) == [str(job / "sub" / "zz")]
    sizes = {"sub/first": 5, "z": 7, "sub/w": 9, "sub/v": 11}
    assert moved(found) == {str(job / path): [("write", 0, n)] for path, n in sizes.items()}


def test_a_program_in_another_root_folder_is_recorded(job: Path) -> None:
    """It is told by the launcher where it is, if it finds the library there."""
    here = Path(__file__).parents[2] / "capture" / "libiotrace_capture.so"
    loaded = os.popen(f"ldd /bin/bash {here}").read().split()
    files = {word for word in loaded if word.startswith("/") and not word.endswith(":")}
    for path in (*files, "/bin/bash", here, *Path("/lib/x86_64-linux-gnu").glob("libpthread.so.0")):
        copy = job / str(path).lstrip("/")
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    found = captured(
        "bash",
        "-c",
        "PATH=$PATH:/usr/sbin chroot . /bin/bash -c 'echo 123 > /y; read a < /y'; true",
    )
    assert found.trace.metadata.completeness.notes == ()
    assert moved(found)[str(job / "y")] == [("write", 0, 4), ("read", 0, 4)]


@pytest.fixture
def raw_dir(tmp_path: Path) -> Path:
    """Return a folder of raw logs."""
    start_roster(tmp_path)
    return tmp_path


@pytest.fixture
def address(raw_dir: Path) -> Iterator[str]:
    """Return where a running keeper is, and the secret."""
    with keeping(raw_dir) as text:
        yield text


def connected(address: str) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.connect(f"\0{address.partition(':')[0]}")
    connection.settimeout(10)
    return connection


def ask(address: str, request: int, body: bytes, secret: str = "") -> tuple[int, bytes, list[int]]:
    """Ask as a process of the job does; return outcome, text and descriptors."""
    with connected(address) as connection:
        key = secret or address.partition(":")[2]
        connection.send(QUESTION.pack(key.encode(), request) + body)
        data, descriptors, _, _ = socket.recv_fds(connection, 65536, 1)
        return OUTCOME.unpack_from(data)[0], data[OUTCOME.size :], descriptors


def entry_of(pid: int) -> bytes:
    entry = np.zeros(1, ENTRY)
    entry["kind"], entry["pid"], entry["text"] = BEGIN, pid, b"name"
    return entry.tobytes()


def test_a_process_gets_logs_of_its_own_only(raw_dir: Path, address: str) -> None:
    """Nobody reads or writes what another process recorded, nor leaves the folder by a name."""
    name = f"{os.getpid()}-5-0123abcd.raw"
    (raw_dir / f"{os.getpid()}-5-ffffffff.raw").symlink_to("/etc/passwd")
    assert ask(address, LOG, name.encode())[0] < 0  # not there yet
    outcome, _, descriptors = ask(address, NEW_LOG, name.encode())
    assert outcome == 0
    os.write(descriptors[0], b"mine")
    os.close(descriptors[0])
    assert (raw_dir / name).read_bytes() == b"mine"
    assert (raw_dir / name).stat().st_mode & 0o777 == 0o600
    assert ask(address, NEW_LOG, name.encode())[0] < 0  # there already
    for other in (
        f"{os.getppid()}-5-0123abcd.raw",
        f"../{name}",
        f"{raw_dir}/{name}",
        f"{name}/../x",
        f"{name}\n",
        f"{os.getpid()}-5-ffffffff.raw",
        "capture.json",
        "",
    ):
        for request in (NEW_LOG, LOG):
            outcome, _, descriptors = ask(address, request, other.encode())
            assert (outcome < 0, descriptors) == (True, []), other


def test_a_process_tells_of_itself_only(raw_dir: Path, address: str) -> None:
    """The list of processes is what children are told apart by."""
    assert ask(address, KEEP_ENTRY, entry_of(os.getppid()))[0] < 0
    assert ask(address, KEEP_ENTRY, entry_of(os.getpid())[:-1])[0] < 0
    assert ask(address, KEEP_ENTRY, entry_of(os.getpid()))[0] == 0
    ((program,),) = read_roster(raw_dir).processes
    assert (program.pid, program.name) == (os.getpid(), "name")


def test_an_entry_that_finds_room_for_a_part_leaves_none(raw_dir: Path, address: str) -> None:
    """The entries after it would be read from its middle."""
    size_bytes = roster_path(raw_dir).stat().st_size
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes + 100, before[1]))
    try:
        assert ask(address, KEEP_ENTRY, entry_of(os.getpid()))[0] == -ENOSPC
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert ask(address, KEEP_ENTRY, entry_of(os.getpid()))[0] == 0
    roster = read_roster(raw_dir)
    assert (len(roster.processes), roster.is_cut) == (1, True)


def test_a_process_lets_its_log_grow_by_a_part_of_its_own(raw_dir: Path, address: str) -> None:
    """Nobody fills the disk of others at one go, or a log that is not its own."""
    name = f"{os.getpid()}-5-0123abcd.raw"
    for descriptor in ask(address, NEW_LOG, name.encode())[2]:
        os.close(descriptor)
    assert ask(address, GROW, PART.pack(65536, 65536) + name.encode())[0] == 0
    assert (raw_dir / name).stat().st_size == 2 * 65536
    for offset, part_bytes, log in (
        (0, 1 << 40, name),
        (-1, 65536, name),
        (0, -1, name),
        (0, 65536, f"{os.getppid()}-5-0123abcd.raw"),
    ):
        assert ask(address, GROW, PART.pack(offset, part_bytes) + log.encode())[0] < 0
    assert ask(address, GROW, b"short")[0] < 0


@pytest.fixture
def many_open() -> Iterator[None]:
    """Hold so many descriptors that the next has a number that select() does not know."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    if before[1] < 2048:
        pytest.skip("the limit of open files is low")
    resource.setrlimit(resource.RLIMIT_NOFILE, (2048, before[1]))
    held = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    yield
    for descriptor in held:
        os.close(descriptor)
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.usefixtures("many_open")
def test_without_a_free_descriptor_the_keeper_waits(raw_dir: Path) -> None:
    """A connection that cannot be taken stays ready: to try again at once takes a whole core."""
    with keeping(raw_dir) as address:
        waits_without_descriptors(address)


def waits_without_descriptors(address: str) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert ask(address, PROC_FILE, b"/proc/self/io")[0] == 0  # it has begun to serve
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, before[1]))
        try:
            began_seconds = time.process_time()
            connection.connect(f"\0{address.partition(':')[0]}")
            time.sleep(0.4)
            taken_seconds = time.process_time() - began_seconds
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
        connection.settimeout(10)
        connection.send(QUESTION.pack(address.partition(":")[2].encode(), PROC_FILE))
        assert OUTCOME.unpack_from(connection.recv(64))[0] < 0  # no such file; but an answer
    assert taken_seconds < 0.05


def test_a_process_reads_of_proc_what_is_its_own(address: str) -> None:
    """The launcher may read everybody's."""
    assert b"rchar" in ask(address, PROC_FILE, b"/proc/self/io")[1]
    assert ask(address, PROC_LINK, b"/proc/self/exe")[1] == os.readlink("/proc/self/exe").encode()
    for path in (b"/etc/shadow", b"/proc/1/environ", b"/proc/self/../1/io", b"/proc/self/environ"):
        assert ask(address, PROC_FILE, path)[0] < 0
        assert ask(address, PROC_LINK, path)[0] < 0


def test_who_does_not_know_the_secret_gets_nothing(raw_dir: Path, address: str) -> None:
    """The names of sockets are public."""
    for secret in ("0" * 32, "short"):
        assert ask(address, NEW_LOG, f"{os.getpid()}-5-0123abcd.raw".encode(), secret)[0] < 0
        assert ask(address, PROC_FILE, b"/proc/self/io", secret)[0] < 0
    assert not list(raw_dir.glob("*.raw"))


def test_who_says_nothing_keeps_nobody_waiting(address: str) -> None:
    """Anyone may connect."""
    silent = [connected(address) for _ in range(300)]
    assert ask(address, PROC_FILE, b"/proc/self/io")[0] == 0
    for connection in silent:
        connection.close()


def test_of_too_many_that_say_nothing_the_first_is_refused(address: str) -> None:
    """A process of the job that was only slow to ask would never ask again."""
    silent = [connected(address) for _ in range(WAITING_MAX)]
    with connected(address) as slow:
        assert OUTCOME.unpack(silent[0].recv(64)) == (-EAGAIN,)
        key = address.partition(":")[2].encode()
        slow.send(QUESTION.pack(key, PROC_FILE) + b"/proc/self/io")
        assert OUTCOME.unpack_from(slow.recv(65536)) == (0,)
    silent[1].setblocking(False)
    with pytest.raises(BlockingIOError):
        silent[1].recv(64)
    for connection in silent:
        connection.close()


def test_a_job_goes_on_when_its_launcher_is_gone(job: Path) -> None:
    """What another user does then is not recorded, and that is all."""
    code = (
        "import os, signal\nlauncher = os.getppid()\nos.kill(launcher, signal.SIGKILL)\n"
        f"while os.getppid() == launcher: pass\n{DROP}\n{WRITES}\nprint('done')"
    )
    command = [sys.executable, "-m", "iotrace.tools", "capture", "-o", "../t.parquet", "--"]
    done = subprocess.run([*command, sys.executable, "-S", "-c", code], stdout=-1, timeout=60)
    assert done.stdout == b"done\n"
    assert (job / "x").stat().st_size == 30_000
