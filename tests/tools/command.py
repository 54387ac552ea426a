"""Run the command as a user does, on a terminal of 80 columns."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from .warm import Command, plain_environment, warm_process

IOTRACE = Path(sys.executable).with_name("iotrace")
COLUMNS = 80
NOTHING: Mapping[str, str] = MappingProxyType({})
NO_LIMITS: Mapping[int, int] = MappingProxyType({})


def iotrace(
    *arguments: object,
    cwd: Path | None = None,
    extra_env: Mapping[str, str] = NOTHING,
    limits: Mapping[int, int] = NO_LIMITS,
    seconds: int = 300,
) -> subprocess.CompletedProcess[str]:
    """Run `iotrace` with `arguments`; stdout and stderr are captured as text.

    The command is a copy of a process that has imported it, see warm.py: where the start of the
    program is what a test is about, run IOTRACE.

    Args:
        cwd: the folder, if another than the caller's.
        extra_env: adds to the environment.
        limits: both limits of resource.RLIMIT_*.
        seconds: most time; then SIGALRM ends the command.
    """
    environment = {**plain_environment(), "COLUMNS": str(COLUMNS), **extra_env}
    command = Command(
        [str(IOTRACE), *map(str, arguments)],
        str(cwd or Path.cwd()),
        environment,
        {str(number): limit for number, limit in limits.items()},
        seconds,
    )
    return warm_process().run(command)


def assert_one_line_error(done: subprocess.CompletedProcess[str], status: int, *words: str) -> None:
    """The failure is one line on stderr with `words`, nothing on stdout, and `status`."""
    assert done.returncode == status, done.stderr
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("iotrace: error: ")
    for word in words:
        assert word in lines[0], lines[0]


def assert_fits(text: str) -> None:
    """No line is wider than the terminal, and none has colour codes or trailing blanks."""
    for line in text.splitlines():
        assert len(line) <= COLUMNS, line
        assert "\x1b" not in line
        assert line == line.rstrip(), repr(line)


def verdict_head(shown: str) -> dict[str, str]:
    """Return the verdict of `why`, the lines before the first empty one, by label."""
    lines: dict[str, str] = {}
    label = ""
    for line in shown.split("\n\n")[0].splitlines():
        label = line[:9].strip() or label
        lines[label] = f"{lines.get(label, '')} {line[9:].strip()}".strip()
    return lines
