"""A replay on several hosts: network namespaces with names and addresses of their own."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from iotrace.replay.sketch import sketch_trace
from iotrace.traces.writer import write_trace

BIN = Path(sys.executable).parent
ADDRESSES = ("10.77.0.1", "10.77.0.2")
RANKS = 4
WRITES = 60
PORT = 29533

# The end of torchrun itself proves nothing of a replay and may take minutes: the one that keeps the
# store may leave while the other still asks it, and that one imports torch._dynamo to say so.
KEPT = '"$@" > "$0.out" 2> "$0.err"; echo $? > "$0.new"; mv "$0.new" "$0.status"'


@dataclass(frozen=True)
class Host:
    """A network namespace with one address; what runs there has a host name of its own too."""

    name: str
    number: int

    def start(self, *command: str, **environment: str) -> subprocess.Popen[str]:
        """Start `command` there, as the leader of a process group."""
        inside = f'hostname {self.name}; exec "$@"'
        return subprocess.Popen(
            [
                "ip",
                "netns",
                "exec",
                self.name,
                "unshare",
                "--uts",
                "sh",
                "-c",
                inside,
                "-",
                *command,
            ],
            env={**os.environ, "GLOO_SOCKET_IFNAME": "veth0", **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def replay(self, *options: str) -> subprocess.Popen[str]:
        """Start one process of a replay by both hosts, as mpirun and srun do."""
        return self.start(
            *(str(BIN / "iotrace"), "replay", *options),
            PMI_RANK=str(self.number),
            PMI_SIZE="2",
            MASTER_ADDR=ADDRESSES[0],
            MASTER_PORT=str(PORT),
        )


@pytest.fixture(scope="module")
def hosts() -> Iterator[tuple[Host, Host]]:
    """Two hosts with a cable between them."""
    pytest.importorskip("torch")
    if shutil.which("ip") is None or shutil.which("unshare") is None:
        pytest.skip("needs ip and unshare")
    pair = tuple(Host(f"iotrace-{os.getpid()}-{number}", number) for number in (0, 1))
    if subprocess.run(["ip", "netns", "add", pair[0].name], capture_output=True).returncode:
        pytest.skip("a network namespace needs root")
    ip("netns", "add", pair[1].name)
    ip(*("link", "add", "veth0", "netns", pair[0].name, "type", "veth"),
       *("peer", "name", "veth0", "netns", pair[1].name))  # fmt: skip
    for host in pair:
        ip("-n", host.name, "address", "add", f"{ADDRESSES[host.number]}/24", "dev", "veth0")
        for device in ("lo", "veth0"):
            ip("-n", host.name, "link", "set", device, "up")
    yield pair[0], pair[1]
    for host in pair:
        ip("netns", "delete", host.name)


@pytest.fixture(autouse=True)
def nothing_goes_on(hosts: tuple[Host, Host]) -> Iterator[None]:
    """What a test that failed has left would hold the port that the next one needs."""
    yield
    end_all(hosts)


def end_all(hosts: tuple[Host, Host]) -> None:
    """End what runs on the hosts."""
    for host in hosts:
        found = subprocess.run(["ip", "netns", "pids", host.name], capture_output=True, text=True)
        for pid in map(int, found.stdout.split()):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def ip(*command: str) -> None:
    subprocess.run(["ip", *command], check=True)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """A job of four processes that save side by side and load what another one saved."""
    lines = []
    for own in range(RANKS):
        lines += [f"process {own}", f"open f{own} w+create"]
    for number in range(WRITES):
        for own in range(RANKS):
            lines += [f"process {own}", f"write f{own} {4096 * number} 4096"]
    for own in range(RANKS):
        lines += [f"process {own}", f"close f{own}"]
    for own in range(RANKS):
        other = (own + 1) % RANKS
        lines += [f"process {own}", f"open f{other} r"]
        lines += [f"read f{other} 0 {4096 * WRITES}", f"close f{other}"]
    path = tmp_path / "four.parquet"
    write_trace(sketch_trace("\n".join(lines)), path)
    return path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The storage that both hosts see."""
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


def test_two_hosts_share_four_ranks(
    hosts: tuple[Host, Host], trace: Path, root: Path, tmp_path: Path
) -> None:
    """torchrun on each: one start, order across hosts, every byte proven, one result."""
    rendezvous = ("--nnodes", "2", "--nproc_per_node", "1", "--master_addr", ADDRESSES[0])
    replay = (str(BIN / "iotrace"), "replay", str(trace), "--root", str(root), "--verify")
    kept = [tmp_path / f"host{host.number}" for host in hosts]
    running = [
        host.start(
            *(str(BIN / "torchrun"), *rendezvous, "--master_port", str(PORT), "--node_rank"),
            *(str(host.number), "--no-python", "sh", "-c", KEPT, str(place)),
            *(*replay, "--json", "-"),
        )
        for host, place in zip(hosts, kept, strict=True)
    ]
    statuses = [place.with_suffix(".status") for place in kept]
    deadline = time.monotonic() + 240
    while not all(status.exists() for status in statuses):
        gone = [one.poll() is not None for one in running]
        early = any(a and not b.exists() for a, b in zip(gone, statuses, strict=True))
        if early or time.monotonic() > deadline:
            end_all(hosts)
            told = [process.communicate()[1] for process in running]
            told += [path.read_text() for path in sorted(tmp_path.glob("*.err"))]
            pytest.fail("\n".join(["a torchrun ended" if early else "no end in 240 s", *told]))
        time.sleep(0.05)
    said = "".join(place.with_suffix(".err").read_text() for place in kept)
    assert [status.read_text() for status in statuses] == ["0\n", "0\n"], said
    first, second = (place.with_suffix(".out").read_text() for place in kept)
    assert second == ""
    result = json.loads(first)
    assert (result["workers"], result["verified"], result["errors"]) == (2, True, [])
    assert result["replayed"]["bytes_written"] == RANKS * WRITES * 4096
    assert result["fidelity"]["result_mismatches"] == 0
    assert list(root.iterdir()) == []


@pytest.mark.parametrize(
    ("action", "words"), [(signal.SIGKILL, "was closed"), (signal.SIGSTOP, "gave no answer in 2 s")]
)
def test_a_host_that_is_lost_or_stuck_ends_the_replay(
    hosts: tuple[Host, Host], trace: Path, root: Path, action: signal.Signals, words: str
) -> None:
    """The others wait a bounded time, tell what was done, and give no times of it."""
    options = (str(trace), "--root", str(root), "--rtt", "200ms", "--timeout", "2", "--json", "-")
    left, lost = (host.replay(*options) for host in hosts)
    deadline = time.monotonic() + 200
    while not list(root.glob("*/f3")) and time.monotonic() < deadline:
        assert left.poll() is None, left.communicate()
        time.sleep(0.05)
    time.sleep(0.5)
    os.killpg(lost.pid, action)
    begin = time.monotonic()
    shown, said = left.communicate(timeout=200)
    assert time.monotonic() - begin < 100  # without a bound of ours it would be an hour
    assert left.returncode == 1 and "Traceback" not in said
    result = json.loads(shown)
    assert "lost" in result["errors"][0] and words in result["errors"][0]
    assert "left undone" in result["errors"][-1]
    assert 0 < result["replayed"]["requests"] < result["planned"]["requests"]
    assert result["replayed"]["write_seconds"] == [None]
    assert list(root.iterdir()) == []
    os.killpg(lost.pid, signal.SIGCONT)
    _, said = lost.communicate(timeout=200)
    assert lost.returncode == (1 if action == signal.SIGSTOP else -signal.SIGKILL)
    assert "Traceback" not in said
