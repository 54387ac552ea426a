"""Start a job, pass signals on to it, and tell how it ended."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

from iotrace.capture.program import CommandNotExecutableError

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
# Python ignores these; a job expects them as they are by default.
IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)
SHELL = "/bin/sh"


def run(program: Path, command: Sequence[str], environ: Mapping[str, str]) -> int:
    """Run a job to its end and return its exit status as a shell shows it.

    Only the first process is waited for. A signal that another process sends to this one is
    passed on. One that comes from the terminal is not: the terminal gives it to the job too.

    Args:
        program: file to execute.
        command: the job's argument vector.
        environ: the job's environment.

    Returns:
        The exit status, or 128 + n if signal n ended the job.

    Raises:
        CommandNotExecutableError: the system refuses to execute the program.
    """
    watched = FORWARDED | {signal.SIGCHLD}
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # if ignored, the status would be lost
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, watched)
    try:
        pid = spawn(program, command, environ, mask)
        return wait(pid, watched)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def spawn(
    program: Path,
    command: Sequence[str],
    environ: Mapping[str, str],
    mask: set[int | signal.Signals],
) -> int:
    """Start a job and return its process id; a script without `#!` is run by sh."""
    path = os.path.join(".", program)  # an absolute path stays as it is

    def start(file: str, argv: Sequence[str]) -> int:
        return os.posix_spawn(
            file, list(argv), environ, setsigmask=list(mask), setsigdef=IGNORED_BY_PYTHON
        )

    try:
        try:
            return start(path, command)
        except OSError as error:
            if error.errno != errno.ENOEXEC:
                raise
        return start(SHELL, [SHELL, path, *command[1:]])
    except OSError as error:
        raise CommandNotExecutableError(
            f"{program} cannot be executed: {error.strerror}; try it without capture"
        ) from None


def wait(pid: int, watched: frozenset[signal.Signals]) -> int:
    """Wait for the end of a job, passing signals on; all of `watched` are blocked."""
    while True:
        received = signal.sigwaitinfo(watched)
        if received is None:
            continue
        if received.si_signo == signal.SIGCHLD:
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended == pid:
                return shell_status(status)
        elif received.si_code <= 0:  # sent by a process; the kernel's own are positive
            os.kill(pid, received.si_signo)


def shell_status(status: int) -> int:
    """Return a wait status as a shell's `$?`."""
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code
