"""Copies of one process that has imported the command: the imports take most of a second.

Run as a script it is that process. It takes messages from its client, each a command with the
descriptors of its stdout and stderr, and answers with the exit status, or minus the signal.
test_warm.py compares what a copy finds around it with what a process of its own does.
"""

import contextlib
import functools
import gc
import importlib
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

MESSAGE_BYTES = 1 << 20
# What the libraries import at their first use, where it is installed: half of a short command.
LATER = ("pandas", "pyarrow.pandas_compat", "typer._adapters")


@dataclass(frozen=True)
class Command:
    """What to run.

    Attributes:
        arguments: with the program's name.
        cwd: the folder.
        environment: all of it.
        limits: numbers of resource.RLIMIT_*, as text, with the value of both limits.
        seconds: most time; then SIGALRM ends it.
    """

    arguments: Sequence[str]
    cwd: str
    environment: Mapping[str, str]
    limits: Mapping[str, int]
    seconds: int


class WarmProcess:
    """The client's end: one command at a time, as a process of its own."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        """Start the process; what it imports sees `environment`."""
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, "-P", __file__, str(theirs.fileno())]
        # Pipes, as its copies will have: Python looks at them once, when it starts.
        self._process = subprocess.Popen(
            command,
            env=environment,
            pass_fds=[theirs.fileno()],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        theirs.close()
        self._alone = threading.Lock()

    def run(self, command: Command) -> subprocess.CompletedProcess[str]:
        """Run a command to its end, and until nobody can write to its outputs any more."""
        message = json.dumps(asdict(command)).encode()
        said = [b"", b""]

        def read(place: int, descriptor: int) -> None:
            with open(descriptor, "rb") as file:
                said[place] = file.read()

        pipes = [os.pipe() for _ in said]
        with self._alone:
            socket.send_fds(self._socket, [message], [write_end for _, write_end in pipes])
            for _, write_end in pipes:
                os.close(write_end)
            readers = [
                threading.Thread(target=read, args=(place, read_end))
                for place, (read_end, _) in enumerate(pipes)
            ]
            for reader in readers:
                reader.start()
            answer = self._socket.recv(64)
            if not answer:
                raise RuntimeError(self._process.communicate()[1].decode())
        for reader in readers:
            reader.join()
        return subprocess.CompletedProcess(
            list(command.arguments), int(answer), *map(bytes.decode, said)
        )


@functools.cache
def warm_process() -> WarmProcess:
    """Return the process of this test run; it ends with it."""
    return WarmProcess(plain_environment())


def plain_environment() -> dict[str, str]:
    """Return the environment without what switches colours on or off."""
    return {k: v for k, v in os.environ.items() if k not in ("FORCE_COLOR", "NO_COLOR")}


def _serve(client: socket.socket) -> int:
    """Answer until the client is gone; in each copy, return the status of its command."""
    from iotrace.tools import __main__, cli  # noqa: F401

    for name in LATER:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    gc.freeze()  # what is shared stays shared
    while True:
        message, descriptors, _, _ = socket.recv_fds(client, MESSAGE_BYTES, 2)
        if not message:
            return 0
        pid = os.fork()
        if not pid:
            client.close()
            for descriptor, standard in zip(descriptors, (1, 2), strict=True):
                os.dup2(descriptor, standard)
                os.close(descriptor)
            _become(Command(**json.loads(message)))
            return __main__.main()
        for descriptor in descriptors:
            os.close(descriptor)
        _, status = os.waitpid(pid, 0)
        client.send(str(os.waitstatus_to_exitcode(status)).encode())


def _become(command: Command) -> None:
    os.chdir(command.cwd)
    os.environ.clear()
    os.environ.update(command.environment)
    sys.argv[:] = command.arguments
    for number, limit in command.limits.items():
        resource.setrlimit(int(number), (limit, limit))
    signal.alarm(command.seconds)


if __name__ == "__main__":
    sys.exit(_serve(socket.socket(fileno=int(sys.argv[1]))))
