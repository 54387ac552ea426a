"""Start a job, pass signals on to it, and tell how it ended."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from iotrace.capture.program import CommandNotExecutableError, why_not_executable

# What is sent to end or to nudge a job. Stops and continues need no help: the terminal sends them
# to the whole process group, and stopping this process stops nothing else.
FORWARDED = frozenset(
    {
        signal.SIGHUP,
        signal.SIGINT,
        signal.SIGQUIT,
        signal.SIGTERM,
        signal.SIGUSR1,
        signal.SIGUSR2,
    }
)
FROM_KEYS = frozenset({signal.SIGINT, signal.SIGQUIT})
# Python ignores these; a job expects them as they are by default.
IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)
SHELL = "/bin/sh"
TERMINAL = "/dev/tty"


def run(program: Path, command: Sequence[str], environ: Mapping[str, str]) -> int:
    """Run a job to its end and return its exit status as a shell shows it.

    Only the first process is waited for. A signal sent to this process is passed on, except an
    interrupt while this process has the terminal: then it comes from the keys, and the terminal
    gives it to the job too. Must be called on the main thread.

    Args:
        program: file to execute.
        command: the job's argument vector.
        environ: the job's environment.

    Returns:
        The exit status, or 128 + n if signal n ended the job.

    Raises:
        CommandNotExecutableError: the system refuses to execute the program.
    """
    with received_signals() as signals:
        pid = spawn(program, command, environ)
        for number in signals:
            if number != signal.SIGCHLD:
                forward(pid, number)
                continue
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended == pid:
                return shell_status(status)
    raise AssertionError("the end of the job was not seen")


def spawn(program: Path, command: Sequence[str], environ: Mapping[str, str]) -> int:
    """Start a job and return its process id; a script without `#!` is run by sh."""
    path = os.path.join(".", program)  # an absolute path stays as it is

    def start(file: str, argv: Sequence[str]) -> int:
        return os.posix_spawn(file, list(argv), environ, setsigdef=IGNORED_BY_PYTHON)

    try:
        try:
            return start(path, command)
        except OSError as error:
            if error.errno != errno.ENOEXEC:
                raise
        return start(SHELL, [SHELL, path, *command[1:]])
    except OSError as error:
        raise CommandNotExecutableError(
            f"{program} cannot be executed: {why_not_executable(program, error)}"
        ) from None


@contextmanager
def received_signals() -> Iterator[Iterator[int]]:
    """Give an endless iterator over the signals that arrive: those to forward, and SIGCHLD.

    Any thread may be the one that the kernel interrupts; Python writes the number into a pipe.
    Signals that were ignored stay so, for the job as well.
    """
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    earlier_fd = signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    wanted = {number for number in FORWARDED if signal.getsignal(number) != signal.SIG_IGN}
    earlier = {
        number: signal.signal(number, lambda number, frame: None)
        for number in (*wanted, signal.SIGCHLD)
    }
    try:
        yield read_bytes(read_end)
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(earlier_fd)
        os.close(read_end)
        os.close(write_end)


def read_bytes(fd: int) -> Iterator[int]:
    """Yield what comes through a pipe."""
    while True:
        yield from os.read(fd, 64)


def forward(pid: int, number: int) -> None:
    """Pass a signal on, unless the job has it already, or it may not be sent: `sudo` takes none."""
    if not (number in FROM_KEYS and has_terminal()):
        with suppress(PermissionError):
            os.kill(pid, number)


def has_terminal() -> bool:
    """Return whether this process group is in the foreground of a terminal."""
    try:
        fd = os.open(TERMINAL, os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(fd) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(fd)


def shell_status(status: int) -> int:
    """Return a wait status as a shell's `$?`."""
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code
